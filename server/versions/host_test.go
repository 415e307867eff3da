package versions_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parleyweb/parley/server/versions"
)

// A request for another name is redirected to the same page of the site, and never leads anywhere else; probes by
// address, and a proxy that replaces the Host header, are answered as ever.
func TestOtherHostIsRedirected(t *testing.T) {
	r := newRig(t, nil)
	r.write("a.html", []byte("a page"))
	r.look()
	origin := base[:len(base)-1]
	handler := func() *versions.Handler {
		return &versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public}
	}
	h := handler()
	ask := func(method, host, path string, status int, to string) {
		t.Helper()
		req := httptest.NewRequest(method, "/", nil)
		var err error
		if req.URL, err = req.URL.Parse("http://x" + path); err != nil {
			t.Fatal(err)
		}
		req.Host, req.URL.Host, req.URL.Scheme = host, "", ""
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if got := rec.Header().Get("Location"); rec.Code != status || got != to {
			t.Errorf("%s %s of %q: %d to %q, want %d to %q", method, path, host, rec.Code, got, status, to)
		}
	}
	const ok, moved, missing = http.StatusOK, http.StatusPermanentRedirect, http.StatusNotFound
	for range 2 { // a proxy that sends its own name for this server with every request
		ask("GET", "backend.example.net", "/a.html", ok, "")
	}
	for _, own := range []string{"www.example.org", "WWW.Example.org:443", "www.example.org.", "www.example.org:8080"} {
		h = handler()
		ask("GET", own, "/a.html", ok, "")
		ask("GET", "wrong.example.net", "/a.html", moved, base+"a.html")
	}
	ask("HEAD", "wrong.example.net:8080", "/a.html", moved, base+"a.html")
	ask("GET", "wrong.example.net", "/missing?q=%2F&x=1", moved, base+"missing?q=%2F&x=1") // tells nothing of what there is
	ask("GET", "example.org", "//evil.example/..", moved, origin+"//")
	ask("GET", "wrong.example.net", "/@evil.example/", moved, base+"@evil.example/")
	ask("POST", "wrong.example.net", "/a.html", http.StatusMethodNotAllowed, "")
	ask("GET", "wrong.example.net", "/.well-known/acme-challenge/token", missing, "")
	for _, probe := range []string{"", "127.0.0.1:8639", "192.0.2.1", "[::1]:8639", "localhost:8639", "site.localhost", "parley"} {
		ask("GET", probe, "/a.html", ok, "")
	}
}

// A proxy that replaces the Host header is sent no redirect, which would lead back to it, whoever else asks this server
// for the site's own name.
func TestProxyIsNotSentInCircles(t *testing.T) {
	r := newRig(t, nil)
	r.write("a.html", []byte("a page"))
	r.look()
	h := &versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public}
	ask := func(status int, peer, proto, host, header, value string) {
		t.Helper()
		req := httptest.NewRequest("GET", "/a.html", nil)
		req.Host, req.RemoteAddr, req.Proto = host, peer+":4711", proto
		req.ProtoMajor, req.ProtoMinor, _ = http.ParseHTTPVersion(proto)
		if header != "" {
			req.Header.Set(header, value)
		}
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, req); rec.Code != status {
			t.Errorf("%s of %q from %s with %s %q: %d, want %d", proto, host, peer, header, value, rec.Code, status)
		}
	}
	const own, backend = "www.example.org", "backend.example.net"
	const ok, moved, here, cdn, crawler = http.StatusOK, http.StatusPermanentRedirect, "127.0.0.1", "8.8.8.8", "9.9.9.9"
	ask(ok, here, "HTTP/1.1", own, "", "")    // a monitor on this machine
	ask(ok, crawler, "HTTP/1.1", own, "", "") // strangers that reach this server without its proxy
	ask(ok, crawler, "HTTP/1.1", own, "Via", "1.1 forged")
	ask(ok, here, "HTTP/1.0", backend, "", "") // nginx by default
	ask(ok, here, "HTTP/1.1", backend, "X-Forwarded-For", crawler)
	ask(ok, cdn, "HTTP/1.1", backend, "Via", "1.1 cdn")
	ask(ok, here, "HTTP/1.1", backend, "X-Forwarded-Host", own) // Apache by default
	ask(moved, here, "HTTP/1.1", backend, "", "")
	ask(moved, "9.9.9.8", "HTTP/1.1", backend, "", "")

	ask(ok, cdn, "HTTP/1.1", own, "Via", "1.1 cdn") // it does pass names on
	ask(moved, cdn, "HTTP/1.1", "wrong.example.net", "Via", "1.1 cdn")
}
