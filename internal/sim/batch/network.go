package batch

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// How much servers vary: relative deviations of speed and latency, and their correlation (Castillo 2004, section 3.3).
const (
	speedDeviation   = .42
	latencyDeviation = .96
	correlation      = -.645
)

// A Network is what a Run assumes of servers and of the crawler's link.
//
// Speed and latency of a server deviate from the mean, and those of each request from the server's, by log-normal factors
// with Castillo's relative deviations. He measured these on each site over time; how much sites differ he does not say, and the same is
// assumed. A server with a high speed has a low latency, as he found (the caption of his figure 3.5 says the opposite).
type Network struct {
	Link      float64 // bytes a second of the crawler's link; 0: no limit
	Connect   float64 // mean seconds to open a connection
	Response  float64 // mean seconds from a request to the server's answer
	Speed     float64 // mean bytes a second of a server; 0: no limit
	Closing   bool    // a robot is also busy while a connection closes, for as long as it took to open
	Limits    bool    // servers limit the requests of a connection: 24 % to 1, 66 % to 100, the others to 2 to 99 (Cao, section 5.1.3)
	Pipelined bool    // requests do not wait for the answers before, which divides response times by 1.2 (Cao, section 4.2)
	Failures  float64 // share of the requests that fail: they take the response time, and transfer nothing
	Even      bool    // all servers and requests are equal: no deviations
	Seed      uint64  // of all random numbers
}

// Thesis returns the network of Castillo's batches, with a link of so many bytes a second. Latency is the time to connect, and is
// longer than the transfer; nine pages of ten take less than 1.5 s (sections 4.2.1 and 4.4).
func Thesis(link float64, seed uint64) Network {
	return Network{Link: link, Connect: .4, Speed: 100_000, Seed: seed}
}

// stanford returns the network of Cao's crawls: a link of 45 Mbit/s, 0.2 s to connect and 0.5 s to answer.
func stanford(seed uint64) Network {
	return Network{Link: 45e6 / 8, Connect: .2, Response: .5, Closing: true, Limits: true, Seed: seed}
}

// Kinds of random numbers: each server and each page has a sequence of its own.
const (
	ofServer = iota
	ofPage
)

func (n *Network) random(kind uint64, i uint32) *rand.Rand {
	r := rand.New(rand.NewPCG(n.Seed, kind<<32|uint64(i)))
	r.Uint64() // neighbouring seeds are not yet far apart
	return r
}

// A server is how a site answers on average.
type server struct {
	slow  float64 // factor of its latencies
	speed float64 // bytes a second; 0: no limit
	limit int     // requests a connection; 0: no limit
}

// factor returns a log-normal number with mean 1 and a relative deviation; normal is a standard normal number. It is rounded, since math.Exp
// and math.Log differ in their last bits between processors, and one robot that is served before another by so little changes the whole crawl.
func factor(normal, deviation float64) float64 {
	variance := math.Log(1 + float64(deviation*deviation))
	return float64(float32(math.Exp(float64(math.Sqrt(variance)*normal) - variance/2)))
}

// server draws a server. The logarithms must correlate more than the numbers themselves: for log-normal numbers exp(cov) - 1
// is the covariance.
func (n *Network) server(i uint32) server {
	s := server{slow: 1, speed: n.Speed}
	r := n.random(ofServer, i)
	a, b := r.NormFloat64(), r.NormFloat64()
	if u := r.Float64(); n.Limits {
		switch {
		case u < .24:
			s.limit = 1
		case u < .9:
			s.limit = 100
		default:
			s.limit = 2 + r.IntN(98)
		}
	}
	if n.Even {
		return s
	}
	cov := math.Log(1 + float64(correlation*speedDeviation*latencyDeviation))
	rho := cov / math.Sqrt(math.Log(1+speedDeviation*speedDeviation)*math.Log(1+latencyDeviation*latencyDeviation))
	s.slow = factor(a, latencyDeviation)
	s.speed *= factor(float64(rho*a)+float64(math.Sqrt(1-float64(rho*rho))*b), speedDeviation)
	return s
}

// A request is how long the parts of a request for a page take, without the link.
type request struct {
	connect  float64 // to open a connection for it
	response float64
	transfer float64 // at the server's own speed
	fails    bool
}

// request draws a request for a page of some bytes.
func (n *Network) request(s *server, page uint32, bytes float64) request {
	q := request{connect: n.Connect * s.slow, response: n.Response * s.slow}
	r := n.random(ofPage, page)
	q.fails = r.Float64() < n.Failures
	speed := s.speed
	if !n.Even {
		q.connect *= factor(r.NormFloat64(), latencyDeviation)
		q.response *= factor(r.NormFloat64(), latencyDeviation)
		speed *= factor(r.NormFloat64(), speedDeviation)
	}
	if speed > 0 {
		q.transfer = bytes / speed
	}
	if n.Pipelined {
		q.response /= pipelining
		q.transfer /= pipelining
	}
	return q
}

// pipelining is the saving of pipelined requests.
const pipelining = 1.2

// A link shares its bandwidth equally among the transfers that run. It counts the bytes that each of them got since the link was
// last idle: a transfer that begins now ends when that count has grown by its size. So nothing is computed again for
// the others when one begins or ends.
type link struct {
	rate    float64 // bytes a second
	got     float64 // bytes, of every transfer that runs
	at      float64 // when got was computed
	running events  // ends of transfers
}

// next returns when the next transfer ends; +Inf if none runs.
func (l *link) next() float64 {
	if len(l.running) == 0 {
		return math.Inf(1)
	}
	return l.at + float64((l.running[0].at-l.got)*float64(len(l.running)))/l.rate
}

// start begins a transfer.
func (l *link) start(now, bytes float64, number int, done func()) {
	if len(l.running) == 0 {
		l.got = 0 // small numbers are more precise
	} else {
		l.got = min(l.got+float64((now-l.at)*l.rate)/float64(len(l.running)), l.running[0].at)
	}
	l.at = now
	heap.Push(&l.running, event{l.got + bytes, number, done})
}

// finish ends the transfer that is next.
func (l *link) finish() (now float64, done func()) {
	l.at = l.next()
	e := heap.Pop(&l.running).(event)
	l.got = e.at
	return l.at, e.do
}

// An event is something that happens at a time or, in a link, at a count of bytes; in the order in which it was planned among equals.
type event struct {
	at     float64
	number int
	do     func()
}

// events are a container/heap.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
