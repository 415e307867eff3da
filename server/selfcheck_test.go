package server_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server"
)

func TestSelfCheck(t *testing.T) {
	w := newWorld(t)
	w.fill(50)
	w.write("clean", "no extension")
	w.turn()
	plain := func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		p, ok := w.pages[strings.TrimPrefix(r.URL.Path, "/")]
		w.mu.Unlock()
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Write([]byte(p.content))
	}
	var serve atomic.Pointer[http.HandlerFunc]
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*serve.Load())(rw, r) }))
	defer srv.Close()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
		},
	}}
	requests := 0
	for name, x := range map[string]struct {
		serve         http.HandlerFunc
		problem, cure string // empty: no finding
		pages         int
	}{
		"all is well": {serve: plain},
		"without .html": {func(rw http.ResponseWriter, r *http.Request) {
			if p, ok := strings.CutSuffix(r.URL.Path, ".html"); ok {
				http.Redirect(rw, r, p, http.StatusMovedPermanently)
				return
			}
			plain(rw, r)
		}, "redirects to the URL without .html", "--clean-urls", 19},
		"with .html": {func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/clean" {
				http.Redirect(rw, r, "/clean.html", http.StatusMovedPermanently)
				return
			}
			plain(rw, r)
		}, "redirects to the URL with .html", "without --clean-urls", 1},
		"to https": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://site.example"+r.URL.Path, http.StatusMovedPermanently)
		}, "redirects to https", "--base https://site.example/", 20},
		"to www": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://www.site.example"+r.URL.Path, http.StatusFound)
		}, "another host", "--base http://www.site.example/", 20},
		"nothing there": {http.NotFound, "not found", "--docroot", 20},
		"forbidden": {func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(403) },
			"refuses", "--exclude", 20},
		"broken": {func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(500) },
			"does not serve", "error log", 20},
		"altered": {func(rw http.ResponseWriter, r *http.Request) {
			plain(rw, r)
			rw.Write([]byte("<script>"))
		}, "altered", "minifier", 20},
		"cut": {func(rw http.ResponseWriter, r *http.Request) { rw.Write([]byte("x")) },
			"altered", "server-side includes", 20},
		"compressed": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			plain(rw, r)
			rw.Write([]byte("x"))
		}, "compresses", "Accept-Encoding", 20},
		"unknown type": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/octet-stream")
			plain(rw, r)
		}, "unknown bytes", "send text/html", 20},
		"hangs up": {func(rw http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
			"cannot be reached", "--base", 20},
	} {
		t.Run(name, func(t *testing.T) {
			serve.Store(&x.serve)
			checked, err := server.SelfCheck(t.Context(), w.journal, c, 0)
			found := checked.Findings
			w.must(err)
			if x.problem == "" {
				if len(found) > 0 {
					t.Errorf("%v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%v", found)
			}
			f := found[0]
			if !strings.Contains(f.Problem, x.problem) || !strings.Contains(f.Cure, x.cure) || f.Pages != x.pages || f.Of != 20 || f.URL == "" || f.Detail == "" {
				t.Errorf("%v", f)
			}
		})
	}
	// The sampled pages are spread over the site, and each is fetched once.
	seen := map[string]bool{}
	var spread http.HandlerFunc = func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		requests++
		seen[r.URL.Path] = true
		w.mu.Unlock()
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
		}
		plain(rw, r)
	}
	serve.Store(&spread)
	must.Get(server.SelfCheck(t.Context(), w.journal, c, 5))
	if requests != 5 || len(seen) != 5 || !seen["/clean"] || !seen["/p/039.html"] {
		t.Errorf("%d requests for %v", requests, seen)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := server.SelfCheck(ctx, w.journal, c, 5); err == nil {
		t.Error("no error though cancelled")
	}
}
