package harvest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
)

// A rude server responds properly, and then does something else to the connection before the next
// request comes. It counts the connections.
type rude struct {
	t     *testing.T
	after func(net.Conn) // called after each response
	done  chan struct{}  // signals that after has run
	conns atomic.Int32
}

func (s *rude) serve(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		s.conns.Add(1)
		go func() {
			defer nc.Close()
			for r := bufio.NewReader(nc); ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				body := "this is " + req.URL.Path
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				s.after(nc)
				select {
				case s.done <- struct{}{}:
				default:
				}
			}
		}()
	}
}

// Bytes that a server sends on a kept connection before a request are not taken for a response: they, and the
// end of a connection, cause a new connection. The same holds for TLS.
func TestUnsolicitedBytesOnKeptConnection(t *testing.T) {
	const forged = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nforged"
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	for _, c := range []struct {
		name  string
		after func(net.Conn)
		conns int32
	}{
		{"nothing", func(net.Conn) {}, 1},
		{"unsolicited response", func(nc net.Conn) { io.WriteString(nc, forged) }, 4},
		{"error before closing", func(nc net.Conn) {
			io.WriteString(nc, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			nc.Close()
		}, 4},
		{"one byte", func(nc net.Conn) { io.WriteString(nc, "\n") }, 4},
		{"close", func(nc net.Conn) { nc.Close() }, 4},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", c.name, secure), func(t *testing.T) {
				l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
				origin := "http://" + l.Addr().String()
				h := &harvest.Harvester{Options: harvest.Options{Private: true, Wait: 30 * time.Millisecond, Slow: -1}}
				if secure {
					origin = "https://" + l.Addr().String()
					l = tls.NewListener(l, &tls.Config{Certificates: cert.TLS.Certificates})
					h.Options.TLS = cert.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
				}
				defer l.Close()
				s := &rude{t: t, after: c.after, done: make(chan struct{}, 8)}
				go s.serve(l)
				b := &harvest.Batch{Sites: []harvest.SiteBatch{{Site: 1, Origin: origin, Tasks: tasks(origin, 4)}}}
				var got answers
				// The next request comes after the server's action.
				must.OK(t, h.Run(t.Context(), once(b), func(a *harvest.Answer) {
					select {
					case <-s.done:
					case <-time.After(time.Second): // it got no request
					}
					got.take(a)
				}))
				for _, a := range got.list {
					if want := "this is " + strings.TrimPrefix(a.URL, origin); string(a.Body) != want || a.Status != 200 {
						t.Errorf("%s: %d %v %q", a.URL, a.Status, a.Err, a.Body)
					}
				}
				if len(got.list) != 4 || s.conns.Load() != c.conns {
					t.Errorf("%d responses over %d connections, want 4 over %d", len(got.list), s.conns.Load(), c.conns)
				}
			})
		}
	}
}
