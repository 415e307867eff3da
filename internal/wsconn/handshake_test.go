package wsconn_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
)

func TestDialAndAcceptRefusals(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/accept":
			if c, err := wsconn.Accept(w, r, wsconn.Options{Subprotocols: []string{subprotocol}}); err == nil {
				c.Close(1000, "")
			}
		case "/bare":
			if c, err := wsconn.Accept(w, r, wsconn.Options{}); err == nil {
				c.Close(1000, "")
			}
		case "/gone":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusGone)
			io.WriteString(w, strings.Repeat("x", 1<<20))
		case "/moved":
			http.Redirect(w, r, "/accept", http.StatusMovedPermanently)
		}
	}))
	defer s.Close()
	for _, tt := range []struct {
		path, offer string
		status      int
	}{
		{"/gone", subprotocol, http.StatusGone},
		{"/moved", subprotocol, http.StatusMovedPermanently},
		{"/accept", "other.v1", http.StatusBadRequest},
		{"/accept", "", http.StatusBadRequest},
		{"/plain", subprotocol, http.StatusOK},
	} {
		_, err := wsconn.Dial(t.Context(), s.URL+tt.path, nil, nil, wsconn.Options{Subprotocols: offers(tt.offer)})
		var refused *wsconn.StatusError
		if !errors.As(err, &refused) || refused.Status != tt.status || len(refused.Body) > 64<<10 {
			t.Errorf("%s: %v", tt.path, err)
		} else if tt.path == "/gone" && (refused.Header.Get("Retry-After") != "7" || !strings.HasPrefix(string(refused.Body), "xxx")) {
			t.Errorf("%s: header %v, body %.10q", tt.path, refused.Header, refused.Body)
		}
	}
	if _, err := wsconn.Dial(t.Context(), s.URL+"/bare", nil, nil, wsconn.Options{Subprotocols: []string{subprotocol}}); !errors.Is(err, wsconn.ErrSubprotocol) {
		t.Errorf("no subprotocol chosen: %v", err)
	}
	resp := must.Get(http.Get(s.URL + "/accept"))
	resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Upgrade") != "websocket" {
		t.Errorf("plain GET: %s %v", resp.Status, resp.Header)
	}
}

func TestBadURLs(t *testing.T) {
	for _, u := range []string{"", "ftp://h/", "/parley/stream", "http://u:p@127.0.0.1/", "http://127.0.0.1:0/", "%"} {
		if _, err := wsconn.Dial(t.Context(), u, nil, nil, wsconn.Options{}); err == nil {
			t.Errorf("dial %q succeeded", u)
		}
	}
}

// The caller's client settings for dialling, TLS and cookies apply here too.
func TestDialUsesClientSettings(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := wsconn.Accept(w, r, wsconn.Options{Subprotocols: []string{subprotocol}})
		if err != nil {
			return
		}
		defer c.Close(4000, "")
		c.Write(r.Context(), []byte(r.Host+" "+r.Header.Get("User-Agent")))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that its certificate was refused
	s.StartTLS()
	defer s.Close()
	if _, err := wsconn.Dial(t.Context(), s.URL, nil, nil, wsconn.Options{Subprotocols: []string{subprotocol}}); err == nil {
		t.Error("an unknown certificate was accepted")
	}
	client := s.Client()
	dialled := ""
	plain := client.Transport.(*http.Transport)
	plain.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	plain.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled = addr
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	h := http.Header{"User-Agent": {"test"}}
	c := must.Get(wsconn.Dial(t.Context(), "wss://example.com/", h, client, wsconn.Options{Subprotocols: []string{subprotocol}}))
	defer c.Close(1000, "")
	if b, err := c.Read(t.Context()); err != nil || string(b) != "example.com test" || dialled != "example.com:443" {
		t.Errorf("read %q, error %v, dialled %s", b, err, dialled)
	}
	client.CloseIdleConnections()
}

// A server that never ends its response uses neither unlimited memory nor unlimited time, from when the connection is open.
func TestHandshakeIsBounded(t *testing.T) {
	turn := time.Minute
	over := func(server func(net.Conn)) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(turn) // such as for the turn of the site
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				server(far)
			}()
			return near, nil
		}}}
	}
	swallow := func(c net.Conn) { io.Copy(io.Discard, c) }
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := wsconn.Dial(t.Context(), "ws://h/", nil, over(swallow), wsconn.Options{Handshake: 3 * time.Second})
		if err == nil || time.Since(start) != turn+3*time.Second {
			t.Errorf("silent server: %v after %v", err, time.Since(start))
		}
		turn = 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err = wsconn.Dial(ctx, "ws://h/", nil, over(swallow), wsconn.Options{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("deadline of ctx: %v after %v", err, time.Since(start))
		}
		stopped, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		start = time.Now()
		_, err = wsconn.Dial(stopped, "ws://h/", nil, over(swallow), wsconn.Options{})
		if !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("cancelled: %v after %v", err, time.Since(start))
		}
		sent := 0
		_, err = wsconn.Dial(t.Context(), "ws://h/", nil, over(func(c net.Conn) {
			go io.Copy(io.Discard, c)
			line := "HTTP/1.1 101 Switching Protocols\r\n"
			for {
				n, err := io.WriteString(c, line)
				if sent += n; err != nil {
					return
				}
				line = "X-Header: " + strings.Repeat("x", 1000) + "\r\n"
			}
		}), wsconn.Options{})
		synctest.Wait()
		if err == nil || !strings.Contains(err.Error(), "handshake of more than") || sent > 300<<10 {
			t.Errorf("endless headers: %v after %d bytes", err, sent)
		}
	})
}

func offers(subprotocol string) []string {
	if subprotocol == "" {
		return nil
	}
	return []string{subprotocol}
}
