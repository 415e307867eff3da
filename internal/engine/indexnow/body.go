package indexnow

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// busy is the response while too many notices are being read.
var busy = &refusal{http.StatusTooManyRequests, "busy", 5 * time.Second}

// arrivals are the notices being read. A client that sends slowly, or sends many at once, must not block others.
type arrivals struct {
	mu    sync.Mutex
	n     int
	of    map[string]int // the same, by address
	bytes int            // of them, read so far
}

// An arrival is the body of a notice that is being read. It comes at bodyRate, or is given up.
type arrival struct {
	all   *arrivals
	from  io.Reader
	w     *http.ResponseController
	began time.Time
	n     int
}

// begin begins to read a notice. It returns nil if too many are being read, in all or from this address;
// otherwise the caller must call end after reading.
func (l *arrivals) begin(w http.ResponseWriter, req *http.Request) (body io.Reader, end func()) {
	address := client(req)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= maxAtOnce || address != "" && l.of[address] >= maxOfOne {
		return nil, nil
	}
	if l.of == nil {
		l.of = make(map[string]int)
	}
	l.n++
	l.of[address]++
	a := &arrival{all: l, from: http.MaxBytesReader(w, req.Body, maxBody), w: http.NewResponseController(w), began: time.Now()}
	return a, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.n--
		l.bytes -= a.n
		if l.of[address]--; l.of[address] == 0 {
			delete(l.of, address)
		}
	}
}

func (a *arrival) Read(p []byte) (int, error) {
	// Where the deadline cannot be set, the server's own applies.
	_ = a.w.SetReadDeadline(a.began.Add(bodyTime + time.Duration(a.n)*time.Second/bodyRate))
	n, err := a.from.Read(p)
	a.n += n
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.all.bytes += n; a.all.bytes > maxReading {
		return 0, busy
	}
	return n, err
}

// client is the address to which a request is counted. A peer on this machine is taken to be a proxy: then it
// is the last address in X-Forwarded-For, or empty if there is none.
func client(req *http.Request) string {
	of := func(s string) (netip.Addr, error) {
		if host, _, err := net.SplitHostPort(s); err == nil {
			s = host
		}
		a, err := netip.ParseAddr(strings.Trim(s, "[]"))
		return a.Unmap().WithZone(""), err
	}
	a, err := of(req.RemoteAddr)
	if err != nil || a.IsLoopback() {
		hops := req.Header.Values("X-Forwarded-For")
		if len(hops) == 0 {
			return ""
		}
		last := hops[len(hops)-1]
		if a, err = of(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); err != nil {
			return ""
		}
	}
	if p, err := a.Prefix(64); err == nil && a.Is6() { // a subscriber line has a /64
		return p.Masked().String()
	}
	return a.String()
}
