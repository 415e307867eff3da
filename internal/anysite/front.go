//go:build linux

package anysite

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A front takes the place of a site's web server or CDN: it listens at the site's address, records all
// traffic, and answers itself or forwards to nginx or to the notifier, according to the plan.
type front struct {
	w            *world
	kind, scheme string
	ip, port     string
	clean        bool // page.html is at /page
	listener     *stamped
	tls          *tls.Config
	sites        []*site
	extra        bool // one of many ports: it has one small page
	server       *http.Server
	done         chan struct{}
	nonces       atomic.Int64
	transports   sync.Map // to nginx or the notifier, by client address

	mu    sync.Mutex
	stale map[string]stale
}

// stale is a cached page.
type stale struct {
	at     time.Time
	header http.Header
	body   []byte
}

// staleFor is how long the cache keeps a page, even if the page changes.
const staleFor = 300 * time.Millisecond

type connKey struct{}

// begin serves until close.
func (f *front) begin() {
	f.listener.tls = f.tls
	f.server = &http.Server{Handler: f, ErrorLog: quiet, Protocols: &http.Protocols{},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			f.w.mu.Lock()
			defer f.w.mu.Unlock()
			f.w.conns++
			return context.WithValue(context.WithValue(ctx, connKey{}, f.w.conns), cameKey{}, c)
		}}
	f.server.Protocols.SetHTTP1(true)
	f.server.Protocols.SetUnencryptedHTTP2(f.tls != nil) // the listener has decrypted it
	go func() {
		defer close(f.done)
		f.server.Serve(f.listener)
	}()
}

func (f *front) close() {
	if f.server == nil {
		f.listener.Close()
		return
	}
	f.server.Close()
	<-f.done
}

// siteOf returns the site of a request: by its host name, then by its path.
func (f *front) siteOf(r *http.Request) *site {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	var found *site
	for _, s := range f.sites {
		if s.also == f || s.Host == host || s.Host == "" && host == f.ip {
			if found == nil || strings.HasPrefix(r.URL.Path, s.Path) && len(s.Path) >= len(found.Path) {
				found = s
			}
		}
	}
	return found
}

// ServeHTTP answers a request, and records the request and the response.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, sent := arrived(r)
	s := f.siteOf(r)
	p := f.w.asker(r)
	door := ""
	if s != nil {
		door = s.doorOf(r.URL.Path)
	}
	conn, _ := r.Context().Value(connKey{}).(int)
	t := passing{front: f, site: s, request: r, began: began, sent: sent, conn: conn, from: p, door: door}
	if door == "stream" && r.Header.Get("Upgrade") != "" {
		t.stream(w)
		return
	}
	if p != nil && p.counts("request") {
		p.kill() // as the request arrives
	}
	asked, _ := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	r.Body = io.NopCloser(bytes.NewReader(asked))
	answer := httptest.NewRecorder()
	f.answer(answer, r, s)
	t.status, t.header, t.body = answer.Code, answer.Header(), answer.Body.Bytes()
	if r.Method == http.MethodHead {
		t.body = nil
	}
	maps.Copy(w.Header(), t.header)
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", fmt.Sprint(len(t.body)))
	}
	t.note() // before the last byte is sent, so that no effect can precede the record
	if p != nil && door == "manifest" && t.status == http.StatusOK && p.counts("manifest") {
		p.killLater()
	}
	w.WriteHeader(t.status)
	if n := len(t.body); p != nil && n > 0 {
		for i := 0; i < n; i += 512 {
			if p.counts("byte") {
				http.NewResponseController(w).Flush()
				p.kill()
				panic(http.ErrAbortHandler)
			}
			w.Write(t.body[i:min(n, i+512)])
		}
		return
	}
	w.Write(t.body)
}

// answer writes the site's response: that of its web server, with the changes on the way.
func (f *front) answer(w *httptest.ResponseRecorder, r *http.Request, s *site) {
	switch {
	case f.extra:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><title>Port %s</title><p>One page at this port.</html>\n", f.port)
		return
	case s == nil:
		http.NotFound(w, r)
		return
	}
	door := s.doorOf(r.URL.Path)
	path := strings.TrimPrefix(r.URL.Path, s.Path)
	quirk := ""
	if door == "" {
		s.mu.Lock()
		quirk = s.files[cmpPath(path, f.clean)].Quirk
		s.mu.Unlock()
	}
	switch quirk {
	case "nonce", "ssi-date", "minified", "stale": // a page generated for each request has no ranges, and no state to compare
		r = r.Clone(r.Context())
		for _, h := range []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"} {
			r.Header.Del(h)
		}
	}
	if quirk == "stale" {
		f.mu.Lock()
		old, ok := f.stale[r.URL.String()]
		f.mu.Unlock()
		if ok && time.Since(old.at) < staleFor {
			maps.Copy(w.Header(), old.header)
			w.Write(old.body)
			return
		}
	}
	first := s == f.w.sites[0] && f == s.front
	switch {
	case first && f.w.nginx != nil:
		f.proxy(w, r, f.w.nginx.scheme, f.w.nginx.address, r.Host)
	case s.refuses(w, r, path):
	case door != "" && door != "robots" && s.notified() && !(door == "manifest" && path != "robots.rdf" && s.inDocroot()):
		f.proxy(w, r, "http", s.door, r.Host)
	case f.kind == "notifier" && s.notified() && door != "robots":
		f.proxy(w, r, "http", s.door, r.Host)
	default:
		s.serveFile(w, r, f.clean)
	}
	f.change(w, r, quirk)
}

var spaces = regexp.MustCompile(`\n+`)

// change alters a page as a theme, an optimizer or a cache does.
func (f *front) change(w *httptest.ResponseRecorder, r *http.Request, quirk string) {
	if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "" || r.Method != http.MethodGet {
		return
	}
	body := w.Body.Bytes()
	switch quirk {
	case "nonce":
		body = bytes.Replace(body, []byte("</head>"), fmt.Appendf(nil, "<script nonce=\"%08x\"></script></head>", f.nonces.Add(1)), 1)
	case "ssi-date":
		body = bytes.Replace(body, []byte("</body>"), fmt.Appendf(nil, "<p>It is %s.</p></body>", time.Now().UTC().Format(time.RFC3339Nano)), 1)
	case "minified":
		body = spaces.ReplaceAll(body, []byte(" "))
	case "stale":
		f.mu.Lock()
		f.stale[r.URL.String()] = stale{time.Now(), w.Header().Clone(), bytes.Clone(body)}
		f.mu.Unlock()
		return
	default:
		return
	}
	for _, h := range []string{"ETag", "Last-Modified", "Content-Length", "Accept-Ranges"} {
		w.Header().Del(h)
	}
	w.Body = bytes.NewBuffer(bytes.Clone(body))
}

// refuses answers for protected pages if no nginx does.
func (s *site) refuses(w http.ResponseWriter, r *http.Request, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[cmpPath(path, s.front.clean)].Quirk == "unreadable" {
		http.Error(w, "Forbidden", http.StatusForbidden)
		return true
	}
	for _, prefix := range slices.Sorted(maps.Keys(s.guard)) {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		switch mode := s.guard[prefix]; {
		case mode == "401":
			w.Header().Set("WWW-Authenticate", `Basic realm="members"`)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return true
		case mode == "403", !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:"):
			http.Error(w, "Forbidden", http.StatusForbidden)
			return true
		}
	}
	return false
}

// cmpPath returns the file that a path leads to.
func cmpPath(path string, clean bool) string {
	if path == "" || strings.HasSuffix(path, "/") {
		return path + "index.html"
	}
	if clean && !strings.Contains(path[strings.LastIndexByte(path, '/')+1:], ".") {
		return path + ".html"
	}
	return path
}

// serveFile serves a file as web servers do.
func (s *site) serveFile(w http.ResponseWriter, r *http.Request, clean bool) {
	path := cmpPath(strings.TrimPrefix(r.URL.Path, "/"), clean)
	name := filepath.Join(s.root, filepath.FromSlash(path))
	info, err := os.Stat(name)
	if err != nil || strings.Contains(path, "/.") || strings.HasPrefix(path, ".") {
		http.NotFound(w, r)
		return
	}
	if info.IsDir() {
		http.Redirect(w, r, r.URL.EscapedPath()+"/", http.StatusMovedPermanently)
		return
	}
	file, err := os.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer file.Close()
	t := mime.TypeByExtension(filepath.Ext(name))
	if filepath.Ext(name) == ".html" {
		t = "text/html"
	}
	w.Header().Set("Content-Type", t)
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()))
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// notified reports whether a notifier answers for a site.
func (s *site) notified() bool {
	return s.Tells == "changes" || s.Tells == "stream" || s.Tells == "high"
}

// inDocroot reports whether the manifest is a file of the docroot.
func (s *site) inDocroot() bool { return s.Tells == "manifest" || s.front.w.plan.Has("out") }

// doorOf returns the name of the door at a path, empty for a page.
func (s *site) doorOf(path string) string {
	switch path {
	case "/robots.txt":
		return "robots"
	case "/.well-known/parley":
		return "well-known"
	case "/sitemap.xml":
		return "sitemap"
	}
	below, ok := strings.CutPrefix(path, s.Path)
	switch {
	case !ok:
		return ""
	case strings.HasSuffix(below, ".rdf"):
		return "manifest"
	case below == "parley/site.wacz":
		return "archive"
	case strings.HasPrefix(below, "parley/"):
		return strings.SplitN(below[len("parley/"):], "/", 2)[0]
	}
	return ""
}

// proxy forwards a request, from the client's own address.
func (f *front) proxy(w http.ResponseWriter, r *http.Request, scheme, address, host string) {
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	t, ok := f.transports.Load(ip + scheme)
	if !ok {
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		t, _ = f.transports.LoadOrStore(ip+scheme, &http.Transport{DialContext: d.DialContext, DisableCompression: true, ForceAttemptHTTP2: scheme == "https",
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 4, IdleConnTimeout: 2 * time.Second})
	}
	p := &httputil.ReverseProxy{Transport: t.(*http.Transport), ErrorLog: quiet,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: scheme, Host: address})
			p.Out.Host = host
			p.SetXForwarded()
			p.Out.Header.Set("X-Forwarded-Proto", f.scheme)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	p.ServeHTTP(w, r)
}

// openPorts gives the host of a site many ports, and a page that links to all of them.
func (w *world) openPorts(s *site) error {
	const ports = 24
	q := Page{Path: "ports.html", Quirk: "ports", Age: 48, Name: "ports"}
	for range ports {
		ln, err := listenStamped(net.JoinHostPort(s.front.ip, "0"))
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		f := &front{w: w, kind: "go", scheme: "http", ip: s.front.ip, port: port, listener: ln, extra: true, stale: map[string]stale{}, done: make(chan struct{})}
		w.fronts = append(w.fronts, f)
		host := s.front.ip
		if s.Host != "" {
			host = s.Host
		}
		u := "http://" + net.JoinHostPort(host, port) + "/"
		q.Out = append(q.Out, u)
		w.know(u)
	}
	s.Pages = append(s.Pages, q)
	home := s.files["index.html"]
	home.Links = append(slices.Clone(home.Links), q.Path)
	if err := w.write(s, home); err != nil {
		return err
	}
	return w.write(s, q)
}
