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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/protocol"
)

// Defaults of a Harvester: WIRE's values where the thesis gives them.
const (
	DefaultWait      = 15 * time.Second // G21
	DefaultWaitBig   = 5 * time.Second  // G30, for sites of more than BigSite pages
	BigSite          = 100              // G30
	DefaultSites     = 300              // G18
	DefaultMinSites  = 10               // G19
	DefaultPerConn   = 100              // G39
	DefaultIdle      = 15 * time.Second // G39
	DefaultConnect   = 30 * time.Second // G20
	defaultHeader    = time.Minute
	defaultWhole     = 5 * time.Minute
	defaultWindow    = 30 * time.Second
	DefaultMaxFailed = 0.9        // G33
	DefaultMinSpeed  = 100        // bytes a second
	DefaultMaxBytes  = 10_000_000 // all 10,138 pages of the JDK's documentation are shorter; the thesis reads 400,000 (G22)
	defaultSlow      = 10         // Mercator's, G54
	defaultMemory    = 256 << 20
	defaultLookups   = 16
)

// defaultAgent is a last resort: it names nobody who knows about this crawl.
const defaultAgent = "Parley (+https://github.com/parleyweb/parley)"

const (
	maxSlow       = 5 * time.Minute // the longest gap after a slow response
	maxDelay      = time.Hour       // the longest Crawl-delay that is obeyed
	maxRetryAfter = 24 * time.Hour  // the longest Retry-After that is obeyed
	maxHeader     = 256 << 10       // bytes of a header
	maxSilent     = 3               // faults of a site in a row until the rest of its tasks are given back
	earlyLeast    = time.Second     // between two batches that are requested early; longer by the wait between requests to a site, up to earlyMost
	earlyMost     = 5 * time.Second
	sweepEvery    = 5 * time.Second // between two sweeps for connections to close

	// The backoff for a site that is overloaded and sends no Retry-After.
	firstTrouble = 30 * time.Second // doubled with each such response
	lastTrouble  = 30 * time.Minute
)

// Options are those of a Harvester. A zero value means the default.
type Options struct {
	Agent string // User-Agent of every request (P02)
	From  string // an e-mail address for the From header; empty sends none

	// Wait is the least time between the end of an access to a site and the
	// beginning of the next; WaitBig the same for sites of more than BigSite
	// pages, if it is shorter. Negative means none, for one's own sites: then only
	// a site's Crawl-delay and its signs of overload are obeyed.
	Wait, WaitBig time.Duration

	// Slow makes the gap after a download at least Slow times as long as the
	// download took, up to 5 minutes. Negative turns that off.
	Slow int

	// Hurry, above zero, bounds the backoff for an overloaded site without
	// Retry-After, and how long a failed name lookup is cached.
	Hurry time.Duration

	Sites    int // sites that are fetched from at once; waiting sites do not count
	MinSites int // if fewer sites of a batch are left when the next one begins, they are given back (S08); negative: never
	PerConn  int // pages a connection, from 1 to 100 (S02)

	// AtOnce, above 1, is how many pages are fetched one right after the other, on one connection, before the gap (S02, Q01): from a host of
	// one's own (see inet.Own) that is not on the public Internet, or from a site with a welcome, then no more than in a second at its rate, and with a gap for each of them. A
	// site with a Crawl-delay gets one, and so does one that has refused (429, 503) for an hour; a failure, or a response so slow that the gap
	// grows by Slow, is followed by the gap.
	AtOnce int

	// IdleTimeout is how long a connection is kept between two pages (S02); if the gap is longer, it is closed
	// at once. Negative keeps none.
	IdleTimeout time.Duration

	// Overbook raises Sites in proportion to the share of failing requests, by at
	// most a third (S09).
	Overbook bool

	ConnectTimeout time.Duration // TLS included
	HeaderTimeout  time.Duration // from the request to the end of the response's header
	Timeout        time.Duration // for a body of up to DefaultMaxBytes; longer in proportion if it may be larger
	MinSpeed       int           // bytes of a body a second, over any Window (P20); negative: any speed
	Window         time.Duration

	MaxBytes int64                    // of a body, both encoded and decoded, where a task sets no limit
	Memory   int64                    // total bytes of bodies that are not released yet
	Spill    func() (*os.File, error) // makes files for page bodies over 1 MiB; pages are then requested without content coding. Nil keeps bodies in memory
	// Version returns the stored content of a page with a digest, as a dictionary
	// for delta responses. Nil requests no deltas.
	Version func(url string, d protocol.Digest) ([]byte, error)

	Range bool // request no more than MaxBytes of a page (P10)

	// AddressRate bounds the requests a second to one IP address (in IPv6, a /64), over all
	// names there, each of which is also bound by Wait (P02); AddressConns bounds its
	// connections. Zero means 2, or the rate that Wait gives a single name, and 4. A negative Wait turns both off.
	AddressRate  float64
	AddressConns int

	// MaxRate bounds the requests a second to a site that invites a higher rate than
	// ours, see Welcome. Zero means 10; negative ignores invitations.
	MaxRate float64

	// Private allows addresses outside the public Internet, and Own allows them for
	// hosts that never had a public address. Blocked addresses are never used, even then (G17).
	Private, Own bool
	Blocked      []netip.Prefix

	// Partition is the hosts that may be asked, for whatever; other crawlers ask the others. Each has its share of AddressRate, if May is nil. The zero value
	// means all hosts.
	Partition partition.Partition

	// May, if not nil, reports whether it is this crawler's turn to send requests to an address (in IPv6, to a /64) where others have hosts, too: see
	// Addresses in package partition. It is asked before each request, and again and again while it says no. It must not block.
	May func(netip.Addr) bool

	// Ends, if not nil, returns until when requests may be sent, which may become later: see Share.Ends in package partition. After that time nothing is
	// written to any connection, and sites are paused; the caller then has to end what is under way. And since another process may have fetched from
	// all hosts until this Harvester began, each site begins with the gap that follows a request. It is called often, by many goroutines.
	Ends func() time.Time

	Limits *Limits // shared with other Harvesters of the process: Sites, Memory and Lookups are those of all of them; nil: it has its own

	// Resolver finds addresses; nil means the system's. Lookups is how many
	// names are looked up at once (P04), and AddressAge how long a result is
	// cached; zero means an hour. If more than the share MaxFailedLookups of the
	// last 50 lookups failed, Run ends with ErrResolver; 1 or more means never.
	Resolver         Resolver
	Lookups          int
	AddressAge       time.Duration
	MaxFailedLookups float64

	// Dial connects to an allowed IP address and port; nil means the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	TLS *tls.Config // a base configuration, such as the root CAs; may be nil

	// Cookies are sent with tasks for pages, and with nothing else. Answers to these are Authorized, as are those over connections to
	// CertHost, on which Cert is sent. Nil: none. Requests of Transports have neither.
	Cookies  []Cookie
	Cert     *tls.Certificate
	CertHost string
	Log      *slog.Logger
}

// A Harvester downloads pages. It is safe for concurrent use.
type Harvester struct {
	Options Options // which must not change once it is used

	once    sync.Once
	times   *timetable
	limits  *Limits
	network *network
	tasks   fetcher         // sends the requests of Run
	inner   *http.Transport // for Transport
	count   counters
}

// A Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

var (
	// ErrResolver ends Run: more name lookups fail than MaxFailedLookups allows, so
	// the fault is ours and not that of the sites (P04).
	ErrResolver = errors.New("too many names could not be looked up")

	errRunning = errors.New("harvest: Run is running already")
)

type counters struct {
	requests, faults, bytes, lookups, unresolved atomic.Int64
	transported                                  atomic.Int64
	inFlight                                     atomic.Int64
	failing                                      atomic.Int64 // share of faults among recent requests, in millionths
}

// Stats are the counters of a Harvester.
type Stats struct {
	Requests, Faults, Bytes, Lookups, Unresolved int64 // since the start; Bytes are those of task bodies, as encoded
	Transported                                  int64 // bytes received on the connections of Transports, headers included
	InFlight                                     int   // sites that are being fetched from
	Sites, Tasks                                 int   // sites with waiting tasks, and those tasks
}

// Stats returns the harvester's counters.
func (h *Harvester) Stats() Stats {
	t := h.lock()
	defer t.mu.Unlock()
	s := Stats{
		Requests: h.count.requests.Load(), Faults: h.count.faults.Load(), Bytes: h.count.bytes.Load(), Transported: h.count.transported.Load(),
		Lookups: h.count.lookups.Load(), Unresolved: h.count.unresolved.Load(), InFlight: int(h.count.inFlight.Load()),
	}
	if t.cycle != nil {
		s.Sites, s.Tasks = t.cycle.waiting.sites, t.cycle.waiting.tasks
	}
	return s
}

// start sets up the harvester, once, and returns its timetable.
func (h *Harvester) start() *timetable {
	h.once.Do(func() {
		h.limits = cmp.Or(h.Options.Limits, new(Limits)).start(&h.Options)
		h.network = newNetwork(&h.Options, &h.count, h.limits.lookups)
		h.times = &timetable{
			manners: h.Options.manners(), network: h.network, log: cmp.Or(h.Options.Log, slog.New(slog.DiscardHandler)),
			sites: map[string]*site{}, hosts: map[string]*host{}, slots: map[slotKey]*slot{},
			addresses: map[netip.Addr]*address{}, idle: map[*site]struct{}{},
		}
		h.times.manners.paused.again = make(chan struct{})
		h.tasks = fetcher{opts: &h.Options, times: h.times, count: &h.count}
		h.tasks.bodies.start(&h.limits.memory)
		h.inner = h.newInner()
	})
	return h.times
}

// lock returns the timetable with its lock held.
func (h *Harvester) lock() *timetable {
	t := h.start()
	t.mu.Lock()
	return t
}

func positive[T int | int64 | float64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// headerValue returns s without control characters, so that nothing in it ends the header line.
func headerValue(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, s))
}

// most returns how many sites may be fetched from at once.
func (h *Harvester) most() int {
	n := positive(h.Options.Sites, DefaultSites)
	if h.Options.Overbook {
		failing := int(min(h.count.failing.Load(), 250_000))
		n += n * failing / (1_000_000 - failing)
	}
	return n
}

func (h *Harvester) minSites() int {
	return max(cmp.Or(h.Options.MinSites, DefaultMinSites), 0)
}
