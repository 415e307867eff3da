package fakeweb

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Options of a Web. The zero value is a Web without sites, to which some can be added.
type Options struct {
	Seed  uint64
	Sites int    // number of sites
	Kinds []Kind // of the sites, in turn; empty means All
	Pages int    // maximum pages of a site, which has 1 to that many. 0 means 12
	Share int    // sites on one address; 0 means 1
	Own   bool   // the sites' names are below localhost, and their addresses private
	Speak int    // percentage of honest sites with a manifest and changes

	// Start is when all pages last changed; the zero time is a year before now.
	Start time.Time
}

// A Web is a network with sites. Its methods are safe for concurrent use.
type Web struct {
	opts   Options
	server *http.Server
	accept chan net.Conn
	ctx    context.Context // ends with the Web
	close  context.CancelFunc

	mu     sync.Mutex // guards the rest
	rand   *rand.Rand
	sites  []*Site
	byHost map[string]*Site // with the port
	byName map[string]*Site // without the port; the first site
	byAddr map[netip.Addr][]*Site
	log    []*Access
	conns  int
	open   map[net.Conn]bool
	blind  int // percentage of look-ups that fail
	bomb   []byte
}

// New returns a Web, whose server runs until Close.
func New(o Options) *Web {
	if o.Start.IsZero() {
		o.Start = time.Now().AddDate(-1, 0, 0)
	}
	w := &Web{
		opts: o, accept: make(chan net.Conn), rand: rand.New(rand.NewPCG(o.Seed, 1)),
		byHost: map[string]*Site{}, byName: map[string]*Site{}, byAddr: map[netip.Addr][]*Site{}, open: map[net.Conn]bool{},
	}
	w.ctx, w.close = context.WithCancel(context.Background())
	w.server = &http.Server{
		Handler:     w,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return w.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
	}
	go w.server.Serve(listener{w})
	kinds := o.Kinds
	if len(kinds) == 0 {
		kinds = All()
	}
	for i := range o.Sites {
		w.Add(kinds[i%len(kinds)])
	}
	return w
}

// A connection is the key of a request's connection in its context.
type connection struct{}

// Close ends the server and all connections.
func (w *Web) Close() {
	w.close()
	w.server.Close()
	w.mu.Lock()
	left := slices.Collect(maps.Keys(w.open))
	w.mu.Unlock()
	for _, c := range left { // those that handlers have hijacked
		c.Close()
	}
}

// Add adds a site of a kind.
func (w *Web) Add(kind Kind) *Site {
	w.mu.Lock()
	n := len(w.sites)
	w.mu.Unlock()
	ip, host, net := n/max(1, w.opts.Share), fmt.Sprintf("%s%d.example", kind, n), byte(20)
	if w.opts.Own {
		host, net = fmt.Sprintf("%s%d.localhost", kind, n), 10
	}
	return w.AddAt(kind, host, netip.AddrFrom4([4]byte{net, byte(ip >> 16), byte(ip >> 8), byte(ip)}))
}

// AddAt adds a site with a host name, with a port if that is not 80, at an address.
func (w *Web) AddAt(kind Kind, host string, at netip.Addr) *Site {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.sites)
	s := &Site{
		web: w, Kind: kind, Number: n, Host: host, IP: at,
		rand: rand.New(rand.NewPCG(w.opts.Seed, uint64(n)+2)),
	}
	s.Origin = "http://" + s.Host
	s.build()
	w.sites = append(w.sites, s)
	w.byHost[s.Host] = s
	if w.byName[s.name()] == nil {
		w.byName[s.name()] = s
	}
	w.byAddr[s.IP] = append(w.byAddr[s.IP], s)
	return s
}

// Sites returns all sites, in the order of their numbers.
func (w *Web) Sites() []*Site {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Site(nil), w.sites...)
}

// Site returns the site of an origin or a host, or nil.
func (w *Web) Site(origin string) *Site {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(origin) > 7 && origin[:7] == "http://" {
		origin = origin[7:]
	}
	return w.byHost[origin]
}

// Blind makes this percentage of look-ups fail as if the resolver were broken.
func (w *Web) Blind(percent int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blind = percent
}

// LookupNetIP resolves a host, like net.Resolver.
func (w *Web) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	s, blind := w.byName[host], w.rand.IntN(100) < w.blind
	w.mu.Unlock()
	switch {
	case blind:
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	case s == nil || s.Kind == Unresolved:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case s.Kind == Inside:
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{s.IP}, nil
}

// Dial connects to an address and port as net.Dialer.DialContext does.
func (w *Web) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	sites := w.byAddr[at.Addr()]
	w.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	switch {
	case !slices.ContainsFunc(sites, func(s *Site) bool { return s.port() == at.Port() }) || sites[0].Kind == Refusing:
		return nil, refused
	case sites[0].Kind == Silent:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, there := net.Pipe()
	select {
	case w.accept <- w.track(there):
		return w.track(here), nil
	case <-w.ctx.Done():
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// track remembers a connection until it is closed.
func (w *Web) track(c net.Conn) net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns++
	t := &tracked{Conn: c, web: w}
	w.open[t] = true
	return t
}

type tracked struct {
	net.Conn
	web *Web
}

func (t *tracked) Close() error {
	t.web.mu.Lock()
	delete(t.web.open, t)
	t.web.mu.Unlock()
	return t.Conn.Close()
}

// Open returns how many connection ends are open.
func (w *Web) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// Dialled returns how many connections were made.
func (w *Web) Dialled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns / 2
}

// listener passes connections from Dial to the server.
type listener struct{ w *Web }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.w.accept:
		return c, nil
	case <-l.w.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }
