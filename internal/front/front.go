// Package front is a web server for a docroot with a notifier beside it, in place of nginx: it serves the
// files, forwards requests for the notifier, and counts the cost of Parley's crawler. Examples, measurements
// and tests use it.
package front

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Front serves one docroot on a loopback address of its own.
type Front struct {
	Base    string // URL of the site
	Sidecar string // address for the notifier to listen on

	// Rewrite, if not nil, returns bytes to send in place of a page's, without validators, like servers that
	// add a nonce or a date to each response. It must be set before the first request.
	Rewrite func(path string, page []byte) []byte

	root   string
	server *http.Server
	done   chan error
	bytes  atomic.Int64 // of the crawler's connections, both directions

	mu    sync.Mutex
	paths map[string]int // the crawler's requests for pages
	total int
}

// Traffic is the cost of a crawler: requests for pages (not for the notifier or robots.txt), and bytes of
// everything, in both directions.
type Traffic struct {
	Requests int
	Bytes    int64
}

// Sub returns the traffic since an earlier count.
func (t Traffic) Sub(earlier Traffic) Traffic {
	return Traffic{t.Requests - earlier.Requests, t.Bytes - earlier.Bytes}
}

// Serve begins to serve root. Close ends it.
func Serve(root string) (*Front, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Front{
		Base: "http://" + ln.Addr().String() + "/", Sidecar: FreeAddress(),
		root: root, done: make(chan error, 1), paths: map[string]int{},
	}
	doors := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: f.Sidecar})
	doors.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	mux := http.NewServeMux()
	mux.Handle("/robots.rdf", doors)
	mux.Handle("/parley/", doors)
	mux.Handle("/.well-known/parley", doors)
	mux.HandleFunc("/", f.page)
	f.server = &http.Server{
		Handler: f.charge(mux),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	go func() {
		defer close(f.done)
		f.done <- f.server.Serve(listener{ln})
	}()
	return f, nil
}

// FreeAddress returns a loopback address for a program that is started, or started again, later. Its port is below those that systems
// give to listeners on port 0 and to connections: none takes it meanwhile, nor does a client that waits for the program connect to itself.
func FreeAddress() string {
	for range 1000 {
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 16_384+rand.IntN(16_384))); err == nil {
			ln.Close()
			return ln.Addr().String()
		}
	}
	panic("no free port of 127.0.0.1")
}

// Close ends the server and its connections. It may be called again.
func (f *Front) Close() error {
	err := f.server.Close()
	<-f.done
	return err
}

// Crawler returns the cost of Parley's crawler so far.
func (f *Front) Crawler() Traffic {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Traffic{f.total, f.bytes.Load()}
}

// Requests returns how often the crawler requested each path since the last call.
func (f *Front) Requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.paths
	f.paths = map[string]int{}
	return p
}

// Page returns the slashed path, below the docroot, of the file for a URL of the site.
func (f *Front) Page(u string) string {
	p, err := url.PathUnescape(strings.TrimPrefix(u, f.Base))
	if err != nil {
		p = u
	}
	if p == "" || strings.HasSuffix(p, "/") {
		p += "index.html"
	}
	return p
}

// AskAgain does what a crawler without notices does: it sends a conditional GET for each of the pages, on one
// connection. It returns the cost of that.
func (f *Front) AskAgain(ctx context.Context, pages []string) (Traffic, error) {
	var bytes atomic.Int64
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		counted := &conn{Conn: c}
		counted.account.Store(&bytes)
		return counted, nil
	}}}
	defer client.CloseIdleConnections()
	for _, p := range pages {
		st, err := os.Stat(filepath.Join(f.root, filepath.FromSlash(p)))
		if err != nil {
			return Traffic{}, err
		}
		u := f.Base + (&url.URL{Path: strings.TrimSuffix("/"+p, "index.html")}).EscapedPath()[1:]
		req, err := http.NewRequestWithContext(ctx, "GET", u, nil)
		if err != nil {
			return Traffic{}, err
		}
		req.Header.Set("If-Modified-Since", st.ModTime().UTC().Format(http.TimeFormat))
		resp, err := client.Do(req)
		if err != nil {
			return Traffic{}, err
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotModified {
			return Traffic{}, fmt.Errorf("%s: %s", u, resp.Status)
		}
	}
	return Traffic{len(pages), bytes.Load()}, nil
}

func isCrawler(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "Parley/") }

// page serves a file as nginx would: no redirects, no listings.
func (f *Front) page(w http.ResponseWriter, r *http.Request) {
	if isCrawler(r) && r.URL.Path != "/robots.txt" {
		f.mu.Lock()
		f.paths[r.URL.Path]++
		f.total++
		f.mu.Unlock()
	}
	name := filepath.Join(f.root, filepath.FromSlash(r.URL.Path))
	if strings.HasSuffix(r.URL.Path, "/") {
		name = filepath.Join(name, "index.html")
	}
	file, err := os.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	if f.Rewrite == nil {
		http.ServeContent(w, r, name, st.ModTime(), file)
		return
	}
	page, err := io.ReadAll(file)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.Rewrite(r.URL.Path, page)))
}

// charge counts all bytes of a connection for the crawler, from its beginning, once the crawler has sent a
// request on it.
func (f *Front) charge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && isCrawler(r) && c.account.CompareAndSwap(nil, &f.bytes) {
			f.bytes.Add(c.n.Load())
		}
		next.ServeHTTP(w, r)
	})
}

type connKey struct{}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// A conn counts its bytes: for itself until it is charged, then to the account.
type conn struct {
	net.Conn
	n       atomic.Int64
	account atomic.Pointer[atomic.Int64]
}

func (c *conn) add(n int) {
	if a := c.account.Load(); a != nil {
		a.Add(int64(n))
		return
	}
	c.n.Add(int64(n))
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.add(n)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.add(n)
	return n, err
}
