package harvest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

// Defaults of a Harvester: those that the thesis prints for WIRE, where it prints them.
const (
	DefaultWait     = 15 * time.Second // G21
	DefaultWaitBig  = 5 * time.Second  // G30, for sites of more than BigSite pages
	BigSite         = 100              // G30
	DefaultSites    = 300              // G18
	DefaultMinSites = 10               // G19
	DefaultPerConn  = 100              // G39
	DefaultConnect  = 30 * time.Second // G20
	defaultHeader   = time.Minute
	defaultWhole    = 5 * time.Minute
	defaultWindow   = 30 * time.Second
	DefaultMinSpeed = 100        // bytes a second
	DefaultMaxBytes = 10_000_000 // all 10,138 pages of the JDK's documentation are shorter; the thesis reads 400,000 (G22)
	defaultSlow     = 10         // Mercator's, G54
	defaultMemory   = 256 << 20
	defaultLookups  = 16
)

// defaultAgent reaches nobody who knows what this crawler does.
const defaultAgent = "Parley (+https://github.com/parleyweb/parley)"

const (
	maxSlow       = 5 * time.Minute  // the longest that a slow answer makes us wait
	maxDelay      = time.Hour        // the longest Crawl-delay that is believed
	maxRetryAfter = 24 * time.Hour   // the same of Retry-After
	keepIdle      = 15 * time.Second // how long a server keeps a connection without a request, G39
	maxHeader     = 256 << 10        // bytes of a header
	maxSilent     = 3                // faults of a site in a row until the rest of its tasks are not asked
	batchLasts    = time.Minute      // until another batch is asked for where there is room for more sites
	sweepEvery    = 5 * time.Second  // between two looks for connections to close

	// A site that says that it is overloaded, and not for how long.
	firstTrouble = 30 * time.Second // doubled with each such answer
	lastTrouble  = 30 * time.Minute
)

// A Harvester downloads. Its fields are options, not to be changed once it is
// used; the zero value of each means its default. Many goroutines may use it.
type Harvester struct {
	Agent string // User-Agent, with which every request names us (P02)
	From  string // an e-mail address for the header of that name; empty sends none

	// Wait is the least time between the end of an access to a site and the
	// beginning of the next; WaitBig the same for sites of more than BigSite
	// pages, if it is shorter. Negative means none, for one's own sites: only
	// what a site itself says is kept to, its Crawl-delay and that it is overloaded.
	Wait, WaitBig time.Duration

	// Slow is how many times the last download of a site it is left in peace,
	// up to 5 minutes. Negative means that this does not matter.
	Slow int

	// Hurry, above zero, bounds how long a site in trouble is left alone that does not say
	// for how long, and for how long it is believed that a name has no address.
	Hurry time.Duration

	Sites    int // that are asked at once; those that wait for their turn do not count
	MinSites int // fewer left of a batch are given back when the next one has begun (S08); negative: never
	PerConn  int // pages a connection, from 1 to 100 (S02)

	// Overbook asks more sites than Sites at once, by as much as requests
	// fail, at most a third (S09).
	Overbook bool

	ConnectTimeout time.Duration // TLS included
	HeaderTimeout  time.Duration // from the request until the whole header has come
	Timeout        time.Duration // for the body, as long as it may not be larger than DefaultMaxBytes; longer in proportion
	MinSpeed       int           // bytes of a body a second, over any Window (P20); negative: any speed
	Window         time.Duration

	MaxBytes int64                    // of a body, as it comes and decoded, where a task does not say
	Memory   int64                    // bytes of bodies in all that are not released yet
	Spill    func() (*os.File, error) // makes files for bodies of pages over 1 MiB, which are then not asked for with a coding; nil keeps them in memory
	// Version returns what is held of a page, of a digest, for tasks that take
	// differences. Nil asks for none.
	Version func(url string, d protocol.Digest) ([]byte, error)

	Range bool // ask for no more than MaxBytes of a page (P10)

	// AddressRate is how many requests a second an address (of version 6, a /64) gets at
	// most, over all names there, each of which would get one in its Wait (P02); and AddressConns by how many
	// connections. Zero means 2, or what Wait gives a single name, and 4. With a negative Wait they mean nothing.
	AddressRate  float64
	AddressConns int

	// MaxRate is how many requests a second a site gets at most that wishes to be asked so
	// often, see Welcome. Zero means 10; negative passes over what sites wish.
	MaxRate float64

	// Private allows addresses that are not of the public Internet, and Own does for
	// hosts that were never found at one that is. Blocked are never asked, even then (G17).
	Private, Own bool
	Blocked      []netip.Prefix

	// Resolver finds addresses; nil means the system's. Lookups is how many
	// names are looked up at once (P04), and AddressAge how long what was
	// found is used; zero means an hour.
	Resolver   Resolver
	Lookups    int
	AddressAge time.Duration

	// Dial connects to an IP address and port that was allowed; nil means the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	TLS *tls.Config // of which roots and the like are taken; nil is fine
	Log *slog.Logger

	once   sync.Once
	fixed  []byte // of every request: what names us
	log    *slog.Logger
	names  names
	memory budget
	inner  *http.Transport // for Transport

	buffers  buffers
	readers  sync.Pool         // of *bufio.Reader
	decoders chan *coding.Body // as many as can be at work: the sender says how much each has to remember

	mu        sync.Mutex // guards the rest, and all sites
	sites     map[string]*site
	hosts     map[string]*host
	slots     map[slotKey]*slot
	due       alarmHeap
	addresses map[netip.Addr]*address
	cycle     *cycle             // nil while Run does not run
	idle      map[*site]struct{} // that have a connection which nobody uses
	swept     time.Time          // when they were looked at last

	count counters
}

// A Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

var (
	// ErrResolver ends Run: nearly no name can be looked up any more, which
	// is our trouble and not that of the sites (P04).
	ErrResolver = errors.New("more than 90 % of the names could not be looked up")

	errRunning = errors.New("harvest: Run is running already")
)

type counters struct {
	requests, faults, bytes, lookups, unresolved atomic.Int64
	transported                                  atomic.Int64
	inFlight                                     atomic.Int64
	failing                                      atomic.Int64 // share of faults among the last requests, in millionths
}

// Stats is how a Harvester stands.
type Stats struct {
	Requests, Faults, Bytes, Lookups, Unresolved int64 // since the beginning; Bytes are of the bodies of tasks, as they came
	Transported                                  int64 // bytes that came by Transports, all that there is on their connections
	InFlight                                     int   // sites that are asked now
	Sites, Tasks                                 int   // that are open
}

// Stats returns how the harvester stands.
func (h *Harvester) Stats() Stats {
	h.start()
	s := Stats{
		Requests: h.count.requests.Load(), Faults: h.count.faults.Load(), Bytes: h.count.bytes.Load(), Transported: h.count.transported.Load(),
		Lookups: h.count.lookups.Load(), Unresolved: h.count.unresolved.Load(), InFlight: int(h.count.inFlight.Load()),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cycle != nil {
		s.Sites, s.Tasks = h.cycle.sites, h.cycle.tasks
	}
	return s
}

// start fills in what the options leave open.
func (h *Harvester) start() {
	h.once.Do(func() {
		h.sites, h.hosts, h.slots = map[string]*site{}, map[string]*host{}, map[slotKey]*slot{}
		h.addresses, h.idle = map[netip.Addr]*address{}, map[*site]struct{}{}
		h.log = cmp.Or(h.Log, slog.New(slog.DiscardHandler))
		h.fixed = h.fixedHeader()
		h.memory.free = positive(h.Memory, defaultMemory)
		h.memory.all = h.memory.free
		var resolver Resolver = net.DefaultResolver
		if h.Resolver != nil {
			resolver = h.Resolver
		}
		h.names = names{
			resolver: resolver, age: positive(h.AddressAge, time.Hour), bad: min(badName, positive(h.Hurry, badName)),
			turn: make(chan struct{}, positive(h.Lookups, defaultLookups)), count: &h.count,
			known: map[string]*name{}, public: map[string]bool{},
		}
		h.decoders = make(chan *coding.Body, runtime.GOMAXPROCS(0))
		for range cap(h.decoders) {
			h.decoders <- new(coding.Body)
		}
		h.inner = h.newInner()
	})
}

func positive[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// fixedHeader is what is the same in every request.
func (h *Harvester) fixedHeader() []byte {
	b := []byte("User-Agent: " + headerValue(cmp.Or(h.Agent, defaultAgent)) + "\r\n")
	if from := headerValue(h.From); from != "" {
		b = append(b, "From: "+from+"\r\n"...)
	}
	return b
}

// headerValue is s as it may stand in a header: nothing in it ends the line.
func headerValue(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, s))
}

func (h *Harvester) waits() bool { return h.Wait >= 0 }

// Gap is how long a site of so many pages that wants a delay is left in peace at
// least after each request.
func (h *Harvester) Gap(pages int, delay time.Duration) time.Duration {
	return max(h.least(pages), min(delay, maxDelay))
}

// least is what Wait and WaitBig say.
func (h *Harvester) least(pages int) time.Duration {
	if !h.waits() {
		return 0
	}
	w := positive(h.Wait, DefaultWait)
	if pages > BigSite {
		w = min(w, positive(h.WaitBig, DefaultWaitBig))
	}
	return w
}

// gap is how long a site is left in peace after a download that took so long.
func (h *Harvester) gap(s *site, took time.Duration) time.Duration {
	return max(h.ours(s, took), min(s.delay, maxDelay))
}

// ours is how long its host is: what is not the wish of this one site.
func (h *Harvester) ours(s *site, took time.Duration) time.Duration {
	if s.welcome != nil {
		return max(s.welcome.pause()-took, 0)
	}
	w := h.least(s.pages)
	if h.Slow >= 0 && h.waits() {
		w = max(w, min(took*time.Duration(positive(h.Slow, defaultSlow)), maxSlow))
	}
	return w
}

// most is how many sites may be asked at once.
func (h *Harvester) most() int {
	n := positive(h.Sites, DefaultSites)
	if h.Overbook {
		n += n * int(min(h.count.failing.Load(), 250_000)) / (1_000_000 - int(min(h.count.failing.Load(), 250_000)))
	}
	return n
}

func (h *Harvester) minSites() int {
	switch {
	case h.MinSites < 0:
		return 0
	case h.MinSites == 0:
		return DefaultMinSites
	}
	return h.MinSites
}

func (h *Harvester) perConn() int { return min(positive(h.PerConn, DefaultPerConn), 100) }
