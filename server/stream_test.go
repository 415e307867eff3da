package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// dial opens the stream after a cursor.
func (s *site) dial(after protocol.Cursor, header ...string) (*wsconn.Conn, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return wsconn.Dial(s.Context(), s.web.URL+"/parley/stream?after="+after.String(), h, nil,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage})
}

// statusOf returns the status that rejected a stream, or 0.
func statusOf(err error) int {
	var e *wsconn.StatusError
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// read returns a function that returns the next message of a stream. Messages are read as they come, so that pings are answered while the
// test does something else.
func read(ctx context.Context, c *wsconn.Conn) func(context.Context) ([]byte, error) {
	came, end := make(chan []byte, 1000), error(nil)
	go func() {
		defer close(came)
		for {
			b, err := c.Read(ctx)
			if end = err; err != nil {
				return
			}
			select {
			case came <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(ctx context.Context) ([]byte, error) {
		select {
		case b, ok := <-came:
			if !ok {
				return nil, end
			}
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A listener is an open stream.
type listener struct {
	*site
	conn *wsconn.Conn
	read func(context.Context) ([]byte, error)
	at   protocol.Cursor
}

// listen opens the stream and reads its hello.
func (s *site) listen(after protocol.Cursor) *listener {
	s.Helper()
	c := must.Get(s.dial(after))
	s.Cleanup(func() { c.Close(1000, "") })
	l := &listener{s, c, read(s.Context(), c), after}
	m := l.next()
	if m.Kind != protocol.Hello || m.From != after || m.Manifest != base+"robots.rdf" || m.Head.IsZero() || m.Floor.IsZero() {
		s.Errorf("%+v", m)
	}
	return l
}

// next reads a message and checks its watermark.
func (l *listener) next() protocol.Message {
	l.Helper()
	ctx, stop := context.WithTimeout(l.Context(), 10*time.Second)
	defer stop()
	b := must.Get(l.read(ctx))
	m := must.Get(protocol.ParseMessage(b))
	switch m.Kind {
	case protocol.Batch, protocol.Gap:
		if m.From != l.at {
			l.Errorf("%s from %v, the reader is at %v", m.Kind, m.From, l.at)
		}
		l.at = m.To
	case protocol.Ev, protocol.Mark:
		if m.To.Epoch != l.at.Epoch || m.To.Seq < l.at.Seq {
			l.Errorf("%s to %v, the reader is at %v", m.Kind, m.To, l.at)
		}
		l.at = m.To
	}
	return m
}

// upTo returns the changes of the messages up to a cursor, usually of one: on a busy machine a log that comes from elsewhere may come in pieces.
func (l *listener) upTo(at protocol.Cursor) string {
	l.Helper()
	var list []protocol.Change
	for l.at != at && !l.Failed() {
		m := l.next()
		if m.Kind != protocol.Batch && (m.Kind != protocol.Ev || len(m.Changes) != 1) {
			l.Errorf("%+v", m)
		}
		list = append(list, m.Changes...)
	}
	return tellAll(list)
}

func TestStream(t *testing.T) {
	s := newSite(t)
	live := s.listen(s.cursor(0))
	s.write("a.html", "2")
	s.look()
	if m := live.next(); m.Kind != protocol.Ev || tellAll(m.Changes) != "update a.html" || m.To != s.cursor(1) {
		t.Errorf("%+v", m)
	}
	s.write("x.html", "x")
	s.write("y.html", "y")
	s.rename("b.html", "c.html")
	s.look()
	const three = "move b.html->c.html, create x.html, create y.html"
	if got := live.upTo(s.cursor(4)); got != three {
		t.Error(got)
	}
	// Replay and live delivery use one path.
	late := s.listen(s.cursor(1))
	if got := late.upTo(s.cursor(4)); got != three {
		t.Error(got)
	}
	s.write("a.html", "3")
	s.look()
	for _, l := range []*listener{live, late} {
		if m := l.next(); tellAll(m.Changes) != "update a.html" || m.To != s.cursor(5) {
			t.Errorf("%+v", m)
		}
	}
	// A subscriber's messages are ignored, and its disconnect is noticed.
	s.must(live.conn.Write(t.Context(), []byte(`{"t":"credit"}`)))
	live.conn.Close(1000, "")
	until(t, "the subscriber is unregistered", func() bool { return s.notifier.Stats().Subscribers == 1 })
	s.must(late.conn.Write(t.Context(), []byte(strings.Repeat("x", 5000))))
	until(t, "the subscriber that sent too much is cut off", func() bool { return s.notifier.Stats().Subscribers == 0 })
}

// A page of the site itself may open the stream, and so may clients that are not browsers.
func TestStreamOrigin(t *testing.T) {
	s := newSite(t)
	for _, origin := range []string{"http://site.example", s.web.URL} {
		c, err := s.dial(s.cursor(0), "Origin", origin)
		if err != nil {
			t.Errorf("%s: %v", origin, err)
			continue
		}
		c.Close(1000, "")
	}
}

// While nothing changes, a subscriber gets a mark after each heartbeat.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // with a real clock, a machine that stops for two heartbeats ends the stream
		w := newWorld(t)
		w.write("a.html", "a")
		w.turn()
		n := &doors.Notifier{Log: w.journal, Snapshot: w.pub.Snapshot, Base: base, Public: w.Public, Logger: testLog(t), Now: w.clock,
			Limits: doors.Limits{Heartbeat: 5 * time.Second}}
		conns := make(pipes)
		web := &http.Server{Handler: n}
		go web.Serve(conns)
		defer web.Close()
		defer n.Close(t.Context())
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			conns <- theirs
			return ours, nil
		}
		s := &site{world: w, notifier: n}
		conn := must.Get(wsconn.Dial(t.Context(), base+"parley/stream?after="+s.cursor(0).String(), nil, &http.Client{Transport: &http.Transport{DialContext: dial}},
			wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage}))
		defer conn.Close(1000, "")
		l := &listener{s, conn, read(t.Context(), conn), s.cursor(0)}
		for i := range 3 {
			if m := l.next(); i == 0 && m.Kind != protocol.Hello || i > 0 && (m.Kind != protocol.Mark || m.To != s.cursor(0) || m.Head != s.cursor(0) || m.At.IsZero()) {
				t.Errorf("%+v", m)
			}
		}
		s.write("a.html", "2")
		s.look()
		if m := l.next(); m.Kind != protocol.Ev {
			t.Errorf("%+v", m)
		}
		if m := l.next(); m.Kind != protocol.Mark || m.To != s.cursor(1) || m.Head != s.cursor(1) {
			t.Errorf("%+v", m)
		}
	})
}

// pipes listens for connections within the process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A subscriber that has everything needs one goroutine, which reads from its connection. All of them get the next change, also those who
// came when others had it already.
func TestIdleSubscribers(t *testing.T) {
	s := newSite(t)
	const each = 50
	open := func(after protocol.Cursor) (list []*listener) {
		for range each {
			c := must.Get(s.dial(after))
			t.Cleanup(func() { c.Close(1000, "") })
			list = append(list, &listener{s, c, c.Read, after})
			if m := list[len(list)-1].next(); m.Kind != protocol.Hello {
				t.Errorf("%+v", m)
			}
		}
		return list
	}
	before := runtime.NumGoroutine()
	all := open(s.cursor(0))
	until(t, "each subscriber has one goroutine", func() bool { return runtime.NumGoroutine() <= before+each+2 }) // 2: of the group, and of a closed connection
	s.write("a.html", "2")
	s.look()
	all = append(all, open(s.cursor(0))...)
	all = append(all, open(s.cursor(1))...)
	for i, l := range all[:2*each] {
		if m := l.next(); tellAll(m.Changes) != "update a.html" {
			t.Errorf("listener %d: %+v", i, m)
		}
	}
	s.write("a.html", "3")
	s.look()
	for i, l := range all {
		if m := l.next(); m.Kind != protocol.Ev || m.To != s.cursor(2) {
			t.Errorf("listener %d: %+v", i, m)
		}
	}
	until(t, "all frames are counted", func() bool { // soon after they are sent
		n := s.notifier.Stats()
		return n.Frames == 5*each && n.Told == 5*each
	})
	until(t, "all are idle again", func() bool { return runtime.NumGoroutine() <= before+3*each+2 })
}

// A subscriber that answers no pings is gone, although its connection takes everything.
func TestSubscriberWithoutPongs(t *testing.T) {
	s := newSite(t, func(n *doors.Notifier) { n.Limits.Heartbeat = 50 * time.Millisecond })
	s.deaf()
	good := s.listen(s.cursor(0))
	until(t, "the silent subscriber is cut off", func() bool { return s.notifier.Stats().Subscribers == 1 })
	s.write("a.html", "2")
	s.look()
	for m := good.next(); m.Kind != protocol.Ev; m = good.next() {
		if m.Kind != protocol.Mark || m.To != s.cursor(0) {
			t.Fatalf("%+v", m)
		}
	}
}

// A change that may not be delivered still moves the watermark.
func TestStreamWatermark(t *testing.T) {
	s := newSite(t)
	l := s.listen(s.cursor(0))
	s.write("secret.html", "x")
	s.look()
	if m := l.next(); tellAll(m.Changes) != "create secret.html" {
		t.Errorf("%+v", m)
	}
	s.forbid("secret.html")
	s.pass(2 * time.Second) // an encoded frame is reused for at most a second
	if m := s.listen(s.cursor(0)).next(); m.Kind != protocol.Mark || m.To != s.cursor(1) || m.Head != s.cursor(1) {
		t.Errorf("%+v", m)
	}
	s.look()
	if m := l.next(); tellAll(m.Changes) != "delete secret.html" {
		t.Errorf("%+v", m)
	}
}

// A gate is a Log whose reads can be blocked.
type gate struct {
	protocol.Log
	mu sync.RWMutex
}

func (g *gate) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Log.Read(ctx, after, max)
}

func TestGap(t *testing.T) {
	w := newWorld(t)
	w.must(w.journal.Close())
	j := must.Get(server.OpenJournal(t.Context(), w.state(), server.JournalOptions{Base: base, MaxChanges: 10, Now: w.clock}))
	w.journal, w.pub.Journal = j, j
	w.write("a.html", "a")
	w.turn()
	g := &gate{Log: j}
	s := w.serve(func(n *doors.Notifier) { n.Log = g })
	l := s.listen(s.cursor(0))
	g.mu.Lock()
	for i := 0; j.Floor().Seq == 0; i++ {
		if i == 100_000 {
			t.Fatal("the journal is not trimmed")
		}
		s.write("a.html", fmt.Sprint(i))
		if i%7 == 0 {
			for k := range 50 {
				s.write(fmt.Sprintf("p/%d.html", k), fmt.Sprint(i))
			}
		}
		s.look()
	}
	head := j.Head()
	g.mu.Unlock()
	m := l.next()
	for m.Kind == protocol.Ev || m.Kind == protocol.Batch { // read before the gate closed
		m = l.next()
	}
	if m.Kind != protocol.Gap || m.To != head || m.Manifest != base+"robots.rdf" || m.Reason == "" {
		t.Errorf("%+v", m)
	}
	s.write("a.html", "after")
	s.look()
	if m := l.next(); tellAll(m.Changes) != "update a.html" {
		t.Errorf("%+v", m)
	}
	if _, err := s.dial(s.cursor(0)); statusOf(err) != 410 {
		t.Errorf("below the floor: %v", err)
	}
}

func TestShutdownSendsBye(t *testing.T) {
	s := newSite(t)
	var all []*listener
	for range 20 {
		all = append(all, s.listen(s.cursor(0)))
	}
	s.write("a.html", "2")
	s.look()
	for _, l := range all[:10] {
		l.next()
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	s.must(s.notifier.Close(ctx))
	for _, l := range all {
		m := l.next()
		for m.Kind == protocol.Ev {
			m = l.next()
		}
		if m.Kind != protocol.Bye || m.Code != protocol.CloseShutdown || m.From != l.at || m.Retry <= 0 || m.Reason == "" {
			t.Errorf("%+v at %v", m, l.at)
		}
		_, err := l.read(ctx)
		var bye *wsconn.CloseError
		if !errors.As(err, &bye) || bye.Code != protocol.CloseShutdown {
			t.Errorf("%v", err)
		}
	}
	if _, err := s.dial(s.cursor(0)); statusOf(err) != 503 {
		t.Errorf("after Close: %v", err)
	}
	if n := s.notifier.Stats().Subscribers; n != 0 {
		t.Errorf("%d subscribers", n)
	}
}

// deaf opens a stream and reads only the answer to the handshake.
func (s *site) deaf() net.Conn {
	s.Helper()
	conn := must.Get(net.Dial("tcp", s.web.Listener.Addr().String()))
	s.Cleanup(func() { conn.Close() })
	s.must(conn.(*net.TCPConn).SetReadBuffer(4096))
	fmt.Fprintf(conn, "GET /parley/stream?after=%s HTTP/1.1\r\nHost: site.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: parley.v1.json\r\n\r\n", s.cursor(0))
	resp := must.Get(http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil))
	if resp.StatusCode != 101 {
		s.Fatalf("status %d", resp.StatusCode)
	}
	return conn
}

const floodSize = 12_000

// flood makes more changes than fit into the buffers between a writer and a deaf reader.
func (s *site) flood() {
	long := strings.Repeat("x", 1500)
	for i := range floodSize {
		s.write(fmt.Sprintf("p/%s%d.html", long, i), "x")
	}
	s.look()
}

func TestSlowReaderIsDisconnected(t *testing.T) {
	s := newSite(t, func(n *doors.Notifier) { n.Limits.WriteWait = 2 * time.Second })
	s.deaf()
	good := s.listen(s.cursor(0))
	last := "x9999.html" // the last in the order of URLs
	var reading sync.WaitGroup
	reading.Go(func() {
		for b := []byte(nil); !bytes.Contains(b, []byte(last)); {
			var err error
			if b, err = good.read(t.Context()); err != nil {
				t.Errorf("the other reader: %v", err)
				return
			}
		}
	})
	s.flood()
	reading.Wait()
	until(t, "the slow reader is cut off", func() bool { return s.notifier.Stats().Slow == 1 && s.notifier.Stats().Subscribers == 1 })
}

// A subscriber that does not read does not delay Close.
func TestSlowReaderDoesNotDelayClose(t *testing.T) {
	s := newSite(t, func(n *doors.Notifier) { n.Limits.WriteWait = time.Hour })
	s.deaf()
	s.flood()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := s.notifier.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if n := s.notifier.Stats().Subscribers; n != 0 {
		t.Errorf("%d subscribers", n)
	}
}

// Followers are cut off at random, reconnect by either door from their cursors, and in the end have every
// change exactly once and in order.
func TestReconnectGetsEveryChangeOnce(t *testing.T) {
	s := newSite(t)
	const followers, edits = 4, 150
	begin, first := s.journal.Head(), s.present()
	done := make(chan struct{})
	var all sync.WaitGroup
	got := make([][]protocol.Change, followers)
	for i := range followers {
		rnd := rand.New(rand.NewPCG(uint64(i), 7))
		all.Go(func() {
			at := begin
			for {
				finished := false
				select {
				case <-done:
					finished = true
				default:
				}
				if finished && at == s.journal.Head() {
					return
				}
				if rnd.IntN(3) == 0 {
					m := s.changes(at, fmt.Sprintf("&limit=%d", 1+rnd.IntN(5)))
					got[i], at = append(got[i], m.Changes...), m.To
					continue
				}
				got[i], at = s.streamFor(rnd, got[i], at)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(3, 3))
	for i := range edits {
		for range 1 + rnd.IntN(4) {
			s.write(fmt.Sprintf("p/%d.html", rnd.IntN(20)), fmt.Sprint(i, rnd.Uint64()))
		}
		s.look()
	}
	close(done)
	all.Wait()
	var want []protocol.Change
	for at := begin; ; {
		changes := must.Get(s.journal.Read(t.Context(), at, 0))
		if len(changes) == 0 {
			break
		}
		want, at.Seq = append(want, changes...), changes[len(changes)-1].Seq
	}
	for i, g := range got {
		if !slices.EqualFunc(g, want, func(a, b protocol.Change) bool { return a.Seq == b.Seq && a.Op == b.Op && a.Item.Equal(b.Item) }) {
			t.Errorf("follower %d has %d changes, want %d", i, len(g), len(want))
		}
		mirror := maps.Clone(first)
		apply(mirror, g)
		if want := s.present(); !maps.Equal(mirror, want) {
			t.Errorf("follower %d: %v", i, diff(mirror, want))
		}
	}
}

// streamFor follows the stream for a while and then disconnects at a random point.
func (s *site) streamFor(rnd *rand.Rand, got []protocol.Change, at protocol.Cursor) ([]protocol.Change, protocol.Cursor) {
	conn, err := s.dial(at)
	if err != nil {
		s.Error(err)
		return got, at
	}
	ctx, stop := context.WithTimeout(s.Context(), time.Duration(1+rnd.IntN(20))*time.Millisecond)
	defer stop()
	defer conn.Close(1000, "")
	for range rnd.IntN(8) {
		b, err := conn.Read(ctx)
		if err != nil {
			break
		}
		m, err := protocol.ParseMessage(b)
		if err != nil {
			s.Error(err)
			break
		}
		if m.Kind == protocol.Ev || m.Kind == protocol.Batch || m.Kind == protocol.Mark {
			got, at = append(got, m.Changes...), m.To
		}
	}
	return got, at
}

// An epoch ends while readers wait: each is told how far it came, and they, like new ones, are served in the next epoch.
func TestDoorsOutliveAnEpoch(t *testing.T) {
	s := newSite(t)
	old := s.journal.Head()
	together, alone := s.listen(old), s.listen(old)
	polled := make(chan int)
	go func() {
		resp, _ := s.get("/parley/changes?wait=60&after=" + old.String())
		polled <- resp.StatusCode
	}()
	until(t, "all wait", func() bool { return len(s.notifier.Listeners()) == 3 })
	s.must(s.journal.Renew(t.Context(), nil))
	for _, l := range []*listener{together, alone} {
		if m := l.next(); m.Kind != protocol.Bye || m.Code != protocol.CloseEpoch || m.From != old || m.Retry == 0 {
			t.Errorf("%+v", m)
		}
	}
	if status := <-polled; status != 409 {
		t.Errorf("the long poll got %d", status)
	}
	if _, err := s.dial(old); statusOf(err) != 409 {
		t.Errorf("the old cursor at the new log: %v", err)
	}
	again := s.listen(s.journal.Head())
	s.write("a.html", "in the new epoch")
	s.look()
	if m := again.next(); m.Kind != protocol.Ev || m.To != s.cursor(1) || m.To.Epoch == old.Epoch {
		t.Errorf("%+v", m)
	}
}
