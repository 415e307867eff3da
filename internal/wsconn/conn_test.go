package wsconn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
)

const subprotocol = "test.v1"

// TestMain fails when a test has left a goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for end := time.Now().Add(5 * time.Second); code == 0 && runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s", buf[:runtime.Stack(buf, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// serve runs a server whose every connection is given to f, and closed after it.
func serve(t *testing.T, o wsconn.Options, f func(context.Context, *wsconn.Conn)) (url string) {
	t.Helper()
	var all sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		defer all.Done()
		c, err := wsconn.Accept(w, r, o)
		if err != nil {
			return
		}
		defer c.Close(1000, "")
		f(t.Context(), c)
	}))
	t.Cleanup(func() {
		s.Close()
		all.Wait()
	})
	return s.URL
}

func dial(t *testing.T, url string, o wsconn.Options) *wsconn.Conn {
	t.Helper()
	o.Subprotocols = []string{subprotocol}
	c := must.Get(wsconn.Dial(t.Context(), url, nil, nil, o))
	t.Cleanup(func() { c.Close(1000, "") })
	return c
}

// rawDial is a peer without our checks.
func rawDial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{subprotocol}}
	c, _, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(ctx context.Context, c *wsconn.Conn) {
	for {
		b, err := c.Read(ctx)
		if err != nil || c.Write(ctx, b) != nil {
			return
		}
	}
}

func TestEcho(t *testing.T) {
	o := wsconn.Options{Subprotocols: []string{subprotocol}, MaxMessage: 1 << 20}
	c := dial(t, serve(t, o, echo), o)
	for _, s := range []string{"", "a", "grüß Gott", strings.Repeat("x", 100_000), strings.Repeat("é", 1<<19)} {
		must.OK(t, c.Write(t.Context(), []byte(s)))
		got, err := c.Read(t.Context())
		if err != nil || string(got) != s {
			t.Fatalf("%.20q: %d bytes came back, error %v", s, len(got), err)
		}
		p := wsconn.Prepare([]byte(s), nil)
		for range 2 {
			must.OK(t, c.WritePrepared(t.Context(), p))
			if got, err := c.Read(t.Context()); err != nil || string(got) != s {
				t.Fatalf("prepared %.20q: %d bytes came back, error %v", s, len(got), err)
			}
		}
	}
}

// Middleware that wraps a ResponseWriter, to count bytes for example, is no obstacle.
func TestWrappedResponseWriter(t *testing.T) {
	o := wsconn.Options{Subprotocols: []string{subprotocol}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := wsconn.Accept(wrapped{w}, r, o)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(1000, "")
		echo(t.Context(), c)
	}))
	defer srv.Close()
	c := dial(t, srv.URL, o)
	must.OK(t, c.Write(t.Context(), []byte("hello")))
	if got, err := c.Read(t.Context()); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}

// wrapped is a ResponseWriter that has no method of its inner one but those of the interface, and one by which it is found.
type wrapped struct{ w http.ResponseWriter }

func (w wrapped) Header() http.Header         { return w.w.Header() }
func (w wrapped) Write(b []byte) (int, error) { return w.w.Write(b) }
func (w wrapped) WriteHeader(status int)      { w.w.WriteHeader(status) }

func (w wrapped) Unwrap() http.ResponseWriter { return w.w }

func TestManyWriters(t *testing.T) {
	const writers, each = 8, 200
	o := wsconn.Options{Subprotocols: []string{subprotocol}}
	url := serve(t, o, func(ctx context.Context, c *wsconn.Conn) {
		var all sync.WaitGroup
		p := wsconn.Prepare(bytes.Repeat([]byte{'0'}, 3000), nil)
		for w := range writers {
			all.Go(func() {
				text := bytes.Repeat([]byte{byte('1' + w)}, 10_000)
				for range each {
					c.Write(ctx, text)
					c.WritePrepared(ctx, p)
				}
			})
		}
		all.Go(func() { c.Read(ctx) })
		all.Wait()
	})
	c := dial(t, url, wsconn.Options{MaxMessage: 1 << 20})
	count := map[byte]int{}
	for range 2 * writers * each {
		b := must.Get(c.Read(t.Context()))
		if len(bytes.Trim(b, string(b[:1]))) != 0 {
			t.Fatalf("torn message %.40q", b)
		}
		count[b[0]]++
	}
	if count['0'] != writers*each || count['3'] != each {
		t.Errorf("messages: %v", count)
	}
	c.Close(1000, "")
}

func TestCloseCodes(t *testing.T) {
	for _, tt := range []struct {
		code         int
		reason, want string
	}{
		{4001, "stopping", "stopping"},
		{1000, "", ""},
		{4502, strings.Repeat("é", 100), strings.Repeat("é", 61)}, // 123 bytes and no half letter
	} {
		o := wsconn.Options{Subprotocols: []string{subprotocol}}
		c := dial(t, serve(t, o, func(ctx context.Context, c *wsconn.Conn) {
			c.Write(ctx, []byte("last words"))
			c.Close(tt.code, tt.reason)
			c.Close(4999, "again")
		}), o)
		if b, err := c.Read(t.Context()); err != nil || string(b) != "last words" {
			t.Fatalf("read %q, error %v", b, err)
		}
		for range 2 { // errors are final
			_, err := c.Read(t.Context())
			var bye *wsconn.CloseError
			if !errors.As(err, &bye) || bye.Code != tt.code || bye.Reason != tt.want {
				t.Errorf("close %d: error %v", tt.code, err)
			}
		}
	}
}

func TestVanishedPeer(t *testing.T) {
	read := make(chan error, 1)
	url := serve(t, wsconn.Options{Subprotocols: []string{subprotocol}}, func(ctx context.Context, c *wsconn.Conn) {
		_, err := c.Read(ctx)
		read <- err
	})
	rawDial(t, url).Close() // the connection, without a close frame
	if err := <-read; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

// A peer that breaks the rules gets the close code, and its message is not read.
func TestPeerThatBreaksTheProtocol(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(c *websocket.Conn) error
		code int
		want string
	}{
		{"binary", func(c *websocket.Conn) error { return c.WriteMessage(websocket.BinaryMessage, []byte("x")) }, 1003, "read message: binary message"},
		{"not UTF-8", func(c *websocket.Conn) error { return c.WriteMessage(websocket.TextMessage, []byte("\xff")) }, 1007, "read message: text is not UTF-8"},
		{"too big", func(c *websocket.Conn) error {
			return c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("x"), 101))
		}, 1009, "read message: more than 100 bytes"},
		{"too big in pieces", func(c *websocket.Conn) error {
			w, err := c.NextWriter(websocket.TextMessage)
			for range 101 {
				io.WriteString(w, "x")
			}
			return errors.Join(err, w.Close())
		}, 1009, "read message: more than 100 bytes"},
		{"a length of 2^63-1", func(c *websocket.Conn) error {
			_, err := c.NetConn().Write([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
			return err
		}, 1009, "read message: more than 100 bytes"},
		{"a frame without a mask", func(c *websocket.Conn) error {
			_, err := c.NetConn().Write([]byte{0x81, 1, 'x'})
			return err
		}, 1002, "read message: websocket: bad MASK"},
	} {
		read := make(chan error, 1)
		url := serve(t, wsconn.Options{Subprotocols: []string{subprotocol}, MaxMessage: 100}, func(ctx context.Context, c *wsconn.Conn) {
			_, err := c.Read(ctx)
			read <- err
		})
		c := rawDial(t, url)
		must.OK(t, tt.send(c))
		if err := <-read; err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.want)
		}
		if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, tt.code) {
			t.Errorf("%s: the peer got close code %v, want %d", tt.name, err, tt.code)
		}
	}
}

func TestCancelRead(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond} { // before the read, and during it
		c := dial(t, serve(t, wsconn.Options{Subprotocols: []string{subprotocol}}, echo), wsconn.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		if after == 0 {
			cancel()
		}
		time.AfterFunc(after, cancel)
		if _, err := c.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled read: %v", err)
		}
		if _, err := c.Read(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after a cancelled one: %v", err)
		}
		if err := c.Write(t.Context(), []byte("x")); err == nil {
			t.Error("write on a connection that was cut succeeded")
		}
	}
}

func TestCloseDuringReadAndWrite(t *testing.T) {
	c := dial(t, serve(t, wsconn.Options{Subprotocols: []string{subprotocol}}, echo), wsconn.Options{})
	read := make(chan error)
	go func() {
		_, err := c.Read(t.Context())
		read <- err
	}()
	if err := c.Close(1000, ""); err != nil {
		t.Error(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if err := c.Write(t.Context(), []byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write: %v", err)
	}
}

// pair is a connection over net.Pipe: the server's end is ours, the client's
// only what was upgraded, for the test to read or not.
func pair(t *testing.T, o wsconn.Options) (*wsconn.Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	o.Subprotocols = []string{subprotocol}
	accepted := make(chan *wsconn.Conn)
	ln := &oneListener{conn: near, done: make(chan struct{})}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := wsconn.Accept(w, r, o)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	})}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	go io.WriteString(far, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: "+subprotocol+"\r\n\r\n")
	for answer := ""; !strings.HasSuffix(answer, "\r\n\r\n"); {
		b := make([]byte, 1)
		must.Get(far.Read(b))
		answer += string(b)
	}
	return <-accepted, far
}

type oneListener struct {
	conn net.Conn
	done chan struct{}
	once sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// ping pings the peer of a connection until the returned function is called.
func ping(c *wsconn.Conn, every time.Duration) (stop func()) {
	ticker, stopped := time.NewTicker(every), make(chan struct{})
	var pinging sync.WaitGroup
	pinging.Go(func() {
		for {
			select {
			case <-ticker.C:
				c.Ping()
			case <-stopped:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(stopped)
		pinging.Wait()
	}
}

func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pair(t, wsconn.Options{})
		defer far.Close()
		defer ping(c, 20*time.Second)()
		go func() {
			for pings := 1; ; pings++ {
				head := make([]byte, 2) // of a ping without payload
				if _, err := io.ReadFull(far, head); err != nil || head[0] != 0x89 || head[1] != 0 {
					return
				}
				if pings <= 30 { // afterwards it is dead, as a machine without power is
					far.Write([]byte{0x8a, 0x80, 0, 0, 0, 0})
				}
			}
		}()
		start := time.Now()
		_, err := c.Read(t.Context())
		if !errors.Is(err, os.ErrDeadlineExceeded) || err.Error() == "" {
			t.Errorf("error %v", err)
		}
		if d := time.Since(start); d != 660*time.Second { // at the third ping after the last pong
			t.Errorf("gone after %v", d)
		}
		c.Close(1000, "")
	})
}

func TestPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pair(t, wsconn.Options{WriteWait: 5 * time.Second})
		defer far.Close()
		start := time.Now()
		waiting := make(chan error)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			waiting <- c.Write(ctx, []byte("second")) // waits for its turn, and gives up
		}()
		go func() { waiting <- c.Write(t.Context(), []byte("first")) }()
		if err := <-waiting; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("second write: %v after %v", err, time.Since(start))
		}
		if err := <-waiting; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("first write: %v after %v", err, time.Since(start))
		}
		if err := c.Write(t.Context(), []byte("third")); err == nil {
			t.Error("a write after a failed one succeeded")
		}
		c.Close(1000, "")
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestCancelWriteAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pair(t, wsconn.Options{WriteWait: time.Hour})
		defer far.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if err := c.Write(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("cancelled after %v", d)
		}
		c.Close(1000, "")

		c, far = pair(t, wsconn.Options{WriteWait: time.Hour})
		defer far.Close()
		pinged := make(chan struct{})
		go func() {
			defer close(pinged)
			c.Ping()
		}()
		synctest.Wait() // the ping is stuck in the pipe
		start = time.Now()
		c.Close(1000, "")
		if d := time.Since(start); d != time.Second {
			t.Errorf("close took %v", d)
		}
		<-pinged
	})
}

// A message that comes byte by byte does not count as silence; one that stops does.
func TestSlowMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pair(t, wsconn.Options{})
		defer far.Close()
		defer ping(c, 9*time.Second)()
		go io.Copy(io.Discard, far)
		go func() {
			far.Write([]byte{0x81, 0x80 | 20, 0, 0, 0, 0})
			for range 20 {
				time.Sleep(15 * time.Second)
				far.Write([]byte("x"))
			}
			far.Write([]byte{0x81, 0x80 | 2, 0, 0, 0, 0, 'x'})
		}()
		if b, err := c.Read(t.Context()); err != nil || len(b) != 20 {
			t.Errorf("read %q, error %v", b, err)
		}
		start := time.Now()
		if _, err := c.Read(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 24*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		c.Close(1000, "")
	})
}

// Every prefix of a sequence of frames gives the messages in it and then an error.
func TestTruncatedStream(t *testing.T) {
	frame := func(head byte, s string) []byte {
		return append([]byte{head, 0x80 | byte(len(s)), 0, 0, 0, 0}, s...)
	}
	var all []byte
	ends := map[int]int{0: 0}
	for i, f := range [][]byte{frame(0x81, "one"), frame(0x89, "ping"), append(frame(0x01, "tw"), frame(0x80, "o")...), frame(0x88, "\x0f\xa1bye")} {
		all = append(all, f...)
		ends[len(all)] = i
	}
	messages := 0
	for n := range len(all) {
		if n == 9 || n == 9+10+8+7 {
			messages++
		}
		synctest.Test(t, func(t *testing.T) {
			c, far := pair(t, wsconn.Options{})
			go func() {
				far.Write(all[:n])
				far.Close()
			}()
			defer c.Close(1000, "")
			for range messages {
				if _, err := c.Read(t.Context()); err != nil {
					t.Fatalf("first %d bytes: %v", n, err)
				}
			}
			if b, err := c.Read(t.Context()); err == nil {
				t.Fatalf("first %d bytes: read %q", n, b)
			}
		})
	}
}
