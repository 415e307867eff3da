//go:build linux

package anysite

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/parleyweb/parley/internal/must"
)

// issued returns a certificate for a server of the test.
func issued(t *testing.T) []tls.Certificate {
	ca := must.Get(newCertificates(filepath.Join(t.TempDir(), "ca.pem")))
	c := must.Get(ca.of("127.0.0.1", false))
	return []tls.Certificate{c}
}

// Three requests of one HTTP/2 connection are waiting when the tap reads: for each the tap knows the interval
// in which it arrived, and for the last the moment, in whatever order their handlers start.
func TestRequestsInOneReadKeepTheirTimes(t *testing.T) {
	ln := must.Get(listenStamped("127.0.0.1:0"))
	defer ln.Close()
	ln.tls = &tls.Config{Certificates: issued(t), NextProtos: []string{"h2"}}

	shaken, sent := make(chan error, 1), make(chan error, 1)
	paths := []string{"/news?wait=30", "/about", "/robots.txt"}
	before := map[string]time.Time{}
	go func() {
		sent <- func() error {
			c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			shaken <- err
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			var frames, block bytes.Buffer
			frames.WriteString(http2.ClientPreface)
			framer, fields := http2.NewFramer(&frames, nil), hpack.NewEncoder(&block)
			framer.WriteSettings()
			for i, path := range paths {
				for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "a.test"}, {Name: ":path", Value: path}} {
					fields.WriteField(f)
				}
				b := block.Bytes()
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: b[:3], EndStream: true, PadLength: 7, Priority: http2.PriorityParam{Weight: 9}})
				framer.WriteContinuation(uint32(2*i+1), true, b[3:])
				before[path] = time.Now()
				if _, err := c.Write(frames.Bytes()); err != nil {
					return err
				}
				frames.Reset()
				block.Reset()
			}
			return nil
		}()
	}()
	nc := must.Get(ln.Accept())
	defer nc.Close()
	c := nc.(*openedConn)
	must.OK(t, c.Conn.(*tls.Conn).Handshake())
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for len(c.waiting) < len(paths) {
		must.Get(c.Read(make([]byte, 100)))
	}
	read := time.Now() // a busy system may deliver what was sent only after the sender went on
	for i, path := range []string{paths[1], paths[0], paths[2]} {
		at := c.when(httptest.NewRequest(http.MethodGet, path, nil))
		if at.earliest.After(read) || at.latest.Before(before[path]) || at.latest.Before(at.earliest) {
			t.Errorf("%s is stamped from %s to %s, but was sent at %s and read at %s", path, at.earliest, at.latest, before[path], read)
		}
		if i == 2 && (at.earliest.Before(before[path]) || at.latest.After(read)) {
			t.Errorf("the last one, %s, is stamped from %s to %s, but was sent at %s and read at %s", path, at.earliest, at.latest, before[path], read)
		}
	}
}

// A client that sends a request and ends its connection while the server is busy sent the request when it did, and not when
// the connection ended or the handler started.
func TestRequestOfClosedConnectionKeepsItsTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		secure bool
		early  bool // the server has read the request before the connection ends
	}{{"read with the end", false, false}, {"read before the end", false, true}, {"over TLS", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			ln := must.Get(listenStamped("127.0.0.1:0"))
			if c.secure {
				ln.tls = &tls.Config{Certificates: issued(t)}
			}
			var at time.Time
			started, done, served := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(started)
				<-r.Context().Done() // the server has seen the end
				at, _ = arrived(r)
				close(done)
			}), ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, cameKey{}, c) }}
			serve := func() { go func() { served <- s.Serve(ln) }() }
			if c.early {
				serve()
			}
			conn := must.Get(net.Dial("tcp", ln.Addr().String()))
			if c.secure {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			must.Get(conn.Write([]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")))
			sent := time.Now()
			if c.early {
				<-started
			}
			conn.SetReadDeadline(sent.Add(300 * time.Millisecond)) // the two times must differ by more than the tolerance below
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			conn.Close()
			if !c.early {
				serve()
			}
			<-done
			if late := at.Sub(sent); late > 150*time.Millisecond || late < -time.Minute {
				t.Errorf("the request is stamped %s after it was sent", late)
			}
			s.Close()
			<-served
		})
	}
}
