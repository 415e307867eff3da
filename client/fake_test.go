package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

const base = "http://site.example/"

// A fakeSite implements the protocol as documented, over in-memory pipes,
// so that simulated hours pass in no time. It remembers the true state at each
// cursor. A test can replace the handler of any path, see doors.
type fakeSite struct {
	t *testing.T

	mu     sync.Mutex
	epoch  string
	log    []protocol.Change // of the epoch, from 1
	floor  uint64
	items  map[string]protocol.Item
	truth  map[protocol.Cursor]map[string]protocol.Item
	more   chan struct{} // closed when the log grows
	hits   map[string]int
	agents map[string]bool
	conns  []net.Conn

	// A handler, by path, that responds in place of the site's own; it may call that one as own.
	doors map[string]func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc)

	head   func(*protocol.Manifest) // changes what the manifest says of itself
	budget func() int               // of the next connection, in bytes that the site sends; negative means no end
	closed chan struct{}
	queue  chan net.Conn
	client *http.Client
}

// newSite starts a site with some pages, in a synctest bubble.
func newSite(t *testing.T, pages ...string) *fakeSite {
	s := &fakeSite{
		t: t, epoch: "one", items: map[string]protocol.Item{}, truth: map[protocol.Cursor]map[string]protocol.Item{},
		more: make(chan struct{}), hits: map[string]int{}, agents: map[string]bool{},
		doors:  map[string]func(http.ResponseWriter, *http.Request, http.HandlerFunc){},
		budget: func() int { return -1 },
		closed: make(chan struct{}), queue: make(chan net.Conn),
	}
	for _, p := range pages {
		s.items[base+p] = item(p, p)
	}
	s.remember()
	server := &http.Server{Handler: http.HandlerFunc(s.serve)}
	ctx, cancel := context.WithCancel(context.Background())
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	transport := &http.Transport{DialContext: s.dial}
	s.client = &http.Client{Transport: transport}
	go server.Serve(s)
	t.Cleanup(func() {
		cancel()
		server.Close()
		transport.CloseIdleConnections()
	})
	return s
}

func item(path, content string) protocol.Item {
	return protocol.Item{URL: base + path, Modified: time.Date(2004, 10, 1, 0, 0, 0, 0, time.UTC),
		Length: int64(len(content)), Type: "text/html", Digest: protocol.Sum([]byte(content))}
}

func (s *fakeSite) source() *client.Source {
	return &client.Source{Base: base, HTTP: s.client, UserAgent: "Test/1 (+mailto:test@example.net)"}
}

func (s *fakeSite) cursor() protocol.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.log))}
}

// with calls f while nothing else accesses the site.
func (s *fakeSite) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// remember records the current state. The site's lock is held.
func (s *fakeSite) remember() {
	s.truth[protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.log))}] = maps.Clone(s.items)
}

// change appends changes and wakes all waiting requests.
func (s *fakeSite) change(list ...protocol.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		c.Seq, c.At = uint64(len(s.log)+1), time.Now().UTC().Truncate(time.Millisecond)
		s.log = append(s.log, c)
		switch c.Op {
		case protocol.Delete:
			delete(s.items, c.Item.URL)
		case protocol.Move:
			delete(s.items, c.From)
			s.items[c.Item.URL] = c.Item
		default:
			s.items[c.Item.URL] = c.Item
		}
		s.remember()
	}
	close(s.more)
	s.more = make(chan struct{})
}

func put(path, content string) protocol.Change {
	return protocol.Change{Op: protocol.Update, Item: item(path, content)}
}

func del(path string) protocol.Change {
	return protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: base + path, Length: -1}}
}

func move(from, to, content string) protocol.Change {
	return protocol.Change{Op: protocol.Move, From: base + from, Item: item(to, content)}
}

// newEpoch discards the log; the pages stay.
func (s *fakeSite) newEpoch(name string) {
	s.with(func() {
		s.epoch, s.log, s.floor = name, nil, 0
		s.remember()
	})
	s.cut()
}

// cut ends all connections.
func (s *fakeSite) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func (s *fakeSite) setDoor(path string, f func(http.ResponseWriter, *http.Request, http.HandlerFunc)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doors[path] = f
}

func status(code int, header ...string) func(http.ResponseWriter, *http.Request, http.HandlerFunc) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func (s *fakeSite) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

func (s *fakeSite) serve(w http.ResponseWriter, r *http.Request) {
	own := map[string]http.HandlerFunc{
		"/robots.rdf": s.manifest, "/parley/changes": s.changes, "/parley/stream": s.stream, "/.well-known/parley": s.wellKnown,
	}[r.URL.Path]
	if own == nil {
		own = http.NotFound
	}
	s.mu.Lock()
	s.hits[r.URL.Path]++
	s.agents[r.UserAgent()] = true
	door := s.doors[r.URL.Path]
	s.mu.Unlock()
	if door != nil {
		door(w, r, own)
		return
	}
	own(w, r)
}

func (s *fakeSite) wellKnown(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"version": 1, "base": base, "manifest": base + "robots.rdf",
		"changes": base + "parley/changes", "stream": "ws://site.example/parley/stream"})
}

func (s *fakeSite) manifest(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	items := slices.SortedFunc(maps.Values(s.items), func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
	m := protocol.Manifest{URL: base + "robots.rdf", Base: base, Complete: true, Items: len(items),
		Cursor: protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.log))},
		Stream: "ws://site.example/parley/stream", Changes: base + "parley/changes"}
	head := s.head
	s.mu.Unlock()
	if head != nil {
		head(&m)
	}
	tag := strconv.Quote(m.Cursor.String())
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if err := protocol.WriteManifest(w, m, all(items), nil); err != nil && r.Context().Err() == nil {
		s.t.Logf("manifest: %v", err)
	}
}

func all[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// read returns the changes after a cursor, or the status that refuses it.
func (s *fakeSite) read(after protocol.Cursor, limit int) (list []protocol.Change, head protocol.Cursor, more chan struct{}, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head = protocol.Cursor{Epoch: s.epoch, Seq: uint64(len(s.log))}
	switch {
	case after.Epoch != s.epoch || after.Seq > head.Seq:
		return nil, head, nil, http.StatusConflict
	case after.Seq < s.floor:
		return nil, head, nil, http.StatusGone
	}
	return slices.Clone(s.log[after.Seq:min(head.Seq, after.Seq+uint64(limit))]), head, s.more, 0
}

func refuse(w http.ResponseWriter, status int, head protocol.Cursor) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"title":%q,"status":%d,"head":%q}`, http.StatusText(status), status, head)
}

func (s *fakeSite) changes(w http.ResponseWriter, r *http.Request) {
	after, err := protocol.ParseCursor(r.URL.Query().Get("after"))
	wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
	if err != nil || wait != 30 {
		s.t.Errorf("changes requested with %s", r.URL.RawQuery)
	}
	timeout := time.After(time.Duration(wait) * time.Second)
	for {
		list, head, more, status := s.read(after, 3)
		if status != 0 {
			refuse(w, status, head)
			return
		}
		if len(list) == 0 && wait > 0 {
			select {
			case <-more:
				continue
			case <-timeout:
				wait = 0
			case <-r.Context().Done():
				return
			}
		}
		m := protocol.Message{Kind: protocol.Batch, From: after, To: last(after, list), Head: head, Changes: list}
		w.Header().Set("Content-Type", "application/json")
		w.Write(append(m.Encode(), '\n'))
		return
	}
}

func last(after protocol.Cursor, list []protocol.Change) protocol.Cursor {
	if len(list) > 0 {
		after.Seq = list[len(list)-1].Seq
	}
	return after
}

func (s *fakeSite) stream(w http.ResponseWriter, r *http.Request) {
	at, err := protocol.ParseCursor(r.URL.Query().Get("after"))
	if err != nil {
		s.t.Errorf("stream requested with %s", r.URL.RawQuery)
	}
	_, head, _, status := s.read(at, 1)
	if status != 0 {
		refuse(w, status, head)
		return
	}
	hello := protocol.Message{Kind: protocol.Hello, From: at, Head: head, Heartbeat: 25 * time.Second, Manifest: base + "robots.rdf"}
	s.say(w, r, hello, func(send func(protocol.Message)) {
		for r.Context().Err() == nil {
			list, head, more, status := s.read(at, 2)
			switch {
			case status != 0:
				send(protocol.Message{Kind: protocol.Gap, From: at, To: head, Reason: "below the floor"})
				return
			case len(list) == 1:
				at = last(at, list)
				send(protocol.Message{Kind: protocol.Ev, To: at, Changes: list})
			case len(list) > 1:
				send(protocol.Message{Kind: protocol.Batch, From: at, To: last(at, list), Changes: list})
				at = last(at, list)
			default:
				select {
				case <-more:
				case <-time.After(25 * time.Second):
					send(protocol.Message{Kind: protocol.Mark, To: at, Head: head})
				case <-r.Context().Done():
				}
			}
		}
	})
}

// say opens a stream, sends hello and leaves the rest to f. It ends when the reader does.
func (s *fakeSite) say(w http.ResponseWriter, r *http.Request, hello protocol.Message, f func(send func(protocol.Message))) {
	c, err := wsconn.Accept(w, r, wsconn.Options{Subprotocols: []string{protocol.Subprotocol}})
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		c.Read(ctx)
		cancel()
	})
	*r = *r.WithContext(context.WithValue(ctx, connKey{}, c))
	send := func(m protocol.Message) {
		if err := c.Write(ctx, m.Encode()); err != nil {
			cancel()
		}
	}
	send(hello)
	f(send)
	c.Close(1001, "")
	reader.Wait()
	cancel()
}

type connKey struct{}

// closeWith ends a stream with a code, in place of the usual one.
func closeWith(ctx context.Context, code int) {
	ctx.Value(connKey{}).(*wsconn.Conn).Close(code, "")
}

// sayRaw is a stream of the given texts, which then sends nothing more.
func (s *fakeSite) sayRaw(w http.ResponseWriter, r *http.Request, texts ...string) {
	c, err := wsconn.Accept(w, r, wsconn.Options{Subprotocols: []string{protocol.Subprotocol}})
	if err != nil {
		return
	}
	defer c.Close(1001, "")
	for _, text := range texts {
		if c.Write(r.Context(), []byte(text)) != nil {
			return
		}
	}
	c.Read(r.Context())
}

// A cutWriter drops everything beyond a number of bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	if n > 0 {
		w.ResponseWriter.Write(b[:n])
	}
	return len(b), nil
}

// An editWriter replaces text that is written in one piece.
type editWriter struct {
	http.ResponseWriter
	*strings.Replacer
}

func (w *editWriter) Write(b []byte) (int, error) {
	io.WriteString(w.ResponseWriter, w.Replace(string(b)))
	return len(b), nil
}

// The site as a network: its own listener, and how its client dials.

func (s *fakeSite) Accept() (net.Conn, error) {
	select {
	case c := <-s.queue:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *fakeSite) Close() error   { close(s.closed); return nil }
func (s *fakeSite) Addr() net.Addr { return &net.TCPAddr{} }

func (s *fakeSite) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	if addr != "site.example:80" {
		s.t.Errorf("dialled %s", addr)
		return nil, net.UnknownNetworkError("foreign")
	}
	near, far := net.Pipe()
	s.mu.Lock()
	server := &frailConn{Conn: far, left: s.budget()}
	s.conns = append(s.conns, server)
	s.mu.Unlock()
	select {
	case s.queue <- server:
		return near, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A frailConn breaks after a number of bytes.
type frailConn struct {
	net.Conn
	left int
}

func (c *frailConn) Write(b []byte) (int, error) {
	if c.left < 0 || len(b) <= c.left {
		if c.left >= 0 {
			c.left -= len(b)
		}
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:c.left])
	c.Conn.Close()
	return n, net.ErrClosed
}

// A copier folds steps into a copy of the site, and compares each state that has
// a cursor with the site's state at that cursor.
type copier struct {
	s      *fakeSite
	have   map[string]protocol.Item
	named  map[string]bool // since the last reset
	cursor protocol.Cursor
	steps  []client.Step
	errs   []error
}

func newCopier(s *fakeSite) *copier { return &copier{s: s, have: map[string]protocol.Item{}} }

func (c *copier) take(s client.Step, err error) {
	if err != nil {
		if s.Reset || s.Whole || !s.Cursor.IsZero() || len(s.Changes) > 0 {
			c.s.t.Errorf("a step with an error: %+v", s)
		}
		c.errs = append(c.errs, err)
		return
	}
	c.steps = append(c.steps, s)
	if len(s.Changes) > protocol.MaxBatch {
		c.s.t.Errorf("step of %d changes", len(s.Changes))
	}
	if s.Reset {
		c.named = map[string]bool{}
	}
	for _, ch := range s.Changes {
		switch ch.Op {
		case protocol.Delete:
			delete(c.have, ch.Item.URL)
		case protocol.Move:
			delete(c.have, ch.From)
			fallthrough
		default:
			c.have[ch.Item.URL] = ch.Item
		}
		if s.Door == client.Manifest {
			c.named[ch.Item.URL] = true
		}
	}
	if s.Whole {
		maps.DeleteFunc(c.have, func(u string, _ protocol.Item) bool { return !c.named[u] })
	}
	if s.Cursor.IsZero() {
		return
	}
	mended := s.Cursor == c.cursor && len(s.Changes) == 0 && !s.Reset && !s.Whole // after trouble
	if s.Cursor.Epoch == c.cursor.Epoch && s.Cursor.Seq <= c.cursor.Seq && !mended {
		c.s.t.Errorf("cursor %v after %v", s.Cursor, c.cursor)
	}
	c.cursor = s.Cursor
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if want, ok := c.s.truth[s.Cursor]; !ok || !maps.EqualFunc(c.have, want, protocol.Item.Equal) {
		c.s.t.Errorf("at %v, by %s: %d pages, want %d", s.Cursor, s.Door, len(c.have), len(want))
	}
}

// follow folds steps until done says so, or a day has passed.
func (c *copier) follow(src *client.Source, cursor protocol.Cursor, done func() bool) {
	c.s.t.Helper()
	ctx, cancel := context.WithTimeout(c.s.t.Context(), 24*time.Hour)
	defer cancel()
	for s, err := range client.Follow(ctx, src, cursor) {
		if c.take(s, err); done() {
			return
		}
	}
	c.s.t.Errorf("a day has passed at %v, the site is at %v; errors %v", c.cursor, c.s.cursor(), c.errs[max(0, len(c.errs)-5):])
}

// caughtUp reports whether the copy has reached the head of the site: it can be the done of follow.
func (c *copier) caughtUp() bool { return c.cursor == c.s.cursor() }

func (c *copier) doors() (list []client.Door) {
	for _, s := range c.steps {
		list = append(list, s.Door)
	}
	return slices.Compact(list)
}

// chance is true once in n times.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }
