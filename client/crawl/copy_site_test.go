package crawl_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// A speaker is a site with a manifest and a change feed that serves its pages.
type speaker struct {
	base string
	web  *harvest.Harvester // reaches it; nil: any does

	mu      sync.Mutex
	pages   map[string]string // by path below the base
	journal []protocol.Change
	more    chan struct{}     // closed when the journal grows
	lie     bool              // digests are wrong
	welcome *protocol.Welcome // as sent by the site
	bare    bool              // no journal, no digests
	ahead   uint64            // changes that are announced as coming, and never come
	epoch   string            // of the journal; empty: "test"
	former  []string          // base URLs that it says it had
	robots  string
	asked   []string               // requests for anything but the doors: "path", in order
	times   map[string][]time.Time // when
	agents  map[string]bool
	// A handler, by path, that responds in place of the site's own; it may call that one as own.
	odd map[string]func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc)
}

func newSpeaker(base string, pages map[string]string) *speaker {
	return &speaker{base: base, pages: maps.Clone(pages), more: make(chan struct{}), times: map[string][]time.Time{},
		agents: map[string]bool{}, odd: map[string]func(http.ResponseWriter, *http.Request, http.HandlerFunc){}}
}

func (s *speaker) cursor() protocol.Cursor {
	return protocol.Cursor{Epoch: cmp.Or(s.epoch, "test"), Seq: uint64(len(s.journal))}
}

// item returns the site's description of a page. The caller holds the lock.
func (s *speaker) item(p string) protocol.Item {
	body := s.pages[p]
	i := protocol.Item{URL: s.base + p, Length: int64(len(body)), Digest: protocol.Sum([]byte(body)),
		Modified: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if s.lie {
		i.Digest = protocol.Sum([]byte("not " + body))
	}
	if s.bare {
		i.Digest, i.Length = protocol.Digest{}, -1
	}
	return i
}

func (s *speaker) tell(ch protocol.Change) {
	ch.Seq, ch.At = uint64(len(s.journal)+1), time.Now().UTC()
	s.journal = append(s.journal, ch)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *speaker) edit(p, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[p] = body
	s.tell(protocol.Change{Op: protocol.Update, Item: s.item(p)})
}

func (s *speaker) remove(p string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, p)
	s.tell(protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: s.base + p, Length: -1}})
}

func (s *speaker) move(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[to] = s.pages[from]
	delete(s.pages, from)
	s.tell(protocol.Change{Op: protocol.Move, From: s.base + from, Item: s.item(to)})
}

// with runs f while the site does not change.
func (s *speaker) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *speaker) live() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pages)
}

// gets returns the requests since the last call, without robots.txt, sorted.
func (s *speaker) gets() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(s.asked, func(p string) bool { return p == "robots.txt" })
	s.asked = nil
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (s *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := strings.TrimPrefix(r.URL.RequestURI(), "/")
	name, _, _ := strings.Cut(p, "?")
	switch name {
	case "robots.rdf":
		s.mu.Lock()
		odd := s.odd[name]
		s.mu.Unlock()
		if odd != nil {
			odd(w, r, nil)
			return
		}
		s.manifest(w)
		return
	case ".well-known/parley":
		if s.bare {
			http.NotFound(w, r)
			return
		}
		if s.welcome != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		json.NewEncoder(w).Encode(map[string]any{"version": 1, "base": s.base, "manifest": s.base + "robots.rdf", "changes": s.base + "parley/changes", "welcome": s.welcome})
		return
	case "parley/changes":
		s.changes(w, r)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, p)
	s.times[p] = append(s.times[p], time.Now())
	s.agents[r.UserAgent()] = true
	odd := s.odd[p]
	s.mu.Unlock()
	if odd != nil {
		odd(w, r, s.page)
	} else {
		s.page(w, r)
	}
}

func (s *speaker) page(w http.ResponseWriter, r *http.Request) {
	p := strings.TrimPrefix(r.URL.RequestURI(), "/")
	s.mu.Lock()
	body, ok := s.pages[p]
	if p == "robots.txt" {
		body, ok = s.robots, s.robots != ""
	}
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if path.Ext(p) == "" {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	etag := fmt.Sprintf("%q", protocol.Sum([]byte(body)).String()[9:20])
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	fmt.Fprint(w, body)
}

func (s *speaker) manifest(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := protocol.Manifest{URL: s.base + "robots.rdf", Base: s.base, Items: len(s.pages), Complete: true, Replaces: s.former}
	if !s.bare {
		m.Cursor, m.Changes = s.cursor(), s.base+"parley/changes"
	}
	urls := slices.Collect(maps.Keys(s.pages))
	slices.SortFunc(urls, func(a, b string) int { return protocol.Compare(s.base+a, s.base+b) })
	var items []protocol.Item
	for _, p := range urls {
		items = append(items, s.item(p))
	}
	w.Header().Set("Content-Type", protocol.ManifestType)
	if err := protocol.WriteManifest(w, m, each(items), nil); err != nil {
		panic(err)
	}
}

func (s *speaker) changes(w http.ResponseWriter, r *http.Request) {
	after, err := protocol.ParseCursor(r.URL.Query().Get("after"))
	s.mu.Lock()
	if err != nil || after.Epoch != s.cursor().Epoch || after.Seq > uint64(len(s.journal)) {
		s.mu.Unlock()
		w.WriteHeader(http.StatusConflict)
		return
	}
	if after == s.cursor() {
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-time.After(20 * time.Second):
		case <-r.Context().Done():
			return
		}
		s.mu.Lock()
	}
	list := s.journal[after.Seq:]
	list = slices.Clone(list[:min(len(list), 100)])
	head := s.cursor()
	head.Seq += s.ahead
	s.mu.Unlock()
	to := after
	if len(list) > 0 {
		to.Seq = list[len(list)-1].Seq
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(protocol.Message{Kind: protocol.Batch, From: after, To: to, Head: head, Changes: list}.Encode())
}

// serve starts the site on the loopback interface.
func serve(t testing.TB, pages map[string]string) *speaker {
	s := newSpeaker("", pages)
	server := httptest.NewServer(s)
	s.base = server.URL + "/"
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// follow starts a copy of the site.
func (s *speaker) follow(t testing.TB, set func(*crawl.Copy)) *copied {
	c := newCopy(t, s.base, func(m *crawl.Copy) {
		m.Harvester = s.web
		if set != nil {
			set(m)
		}
	})
	c.site = s
	c.start()
	return c
}

// pipe starts the site over in-memory pipes, for a synctest bubble, at http://site.test/.
func pipe(t testing.TB, pages map[string]string) *speaker {
	s := newSpeaker("http://site.test/", pages)
	s.web = piped(t, s, nowhere{})
	return s
}

// piped serves over in-memory pipes, and returns a harvester that connects to nothing else.
func piped(t testing.TB, h http.Handler, names harvest.Resolver) *harvest.Harvester {
	conns, closed := make(chan net.Conn), make(chan struct{})
	server := &http.Server{Handler: h}
	go server.Serve(pipeListener{conns, closed})
	t.Cleanup(func() { server.Close() })
	return &harvest.Harvester{Options: harvest.Options{Resolver: names, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}}
}

// nowhere resolves every name to an address.
type nowhere struct{}

func (nowhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
