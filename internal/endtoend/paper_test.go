package endtoend

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// A paper is a site without Parley that appears in editions: pages that change, appear, vanish and move, dead
// links, and copies.
type paper struct {
	*httptest.Server
	edition atomic.Int64
}

const paperPages = 300

func newPaper(t *testing.T) *paper {
	w := &paper{}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// answer returns the response of a path in an edition: a status, and the body or the redirect target.
func (w *paper) answer(path string, edition int) (int, string) {
	var n, of int
	switch {
	case path == "/":
	case path == "/robots.txt":
		return http.StatusOK, "User-agent: *\nDisallow: /secret/\n"
	case strings.HasPrefix(path, "/copy"):
		return http.StatusOK, "<!doctype html><title>copy</title><p>The same on every page of this name.</p>"
	default:
		fmt.Sscanf(path, "/extra%d-%d.html", &of, &n)
		if path == fmt.Sprintf("/extra%d-%d.html", of, n) && of <= edition {
			return http.StatusOK, fmt.Sprintf("<!doctype html><title>extra</title><p>An extra of edition %d, page %d. <a href=/>front page</a></p>", of, n)
		}
		fmt.Sscanf(path, "/p%d.html", &n)
		if path != fmt.Sprintf("/p%d.html", n) || n >= paperPages || n == 0 {
			return http.StatusNotFound, ""
		}
	}
	leaf := 3*n+1 >= paperPages
	switch {
	case leaf && n%31 == 7:
		return http.StatusMovedPermanently, fmt.Sprintf("/p%d.html", n*7%90+1)
	case leaf && n%37 == 9:
		return http.StatusNotFound, ""
	case n%41 == 11 && edition >= 1:
		return http.StatusGone, ""
	case n%43 == 13 && edition >= 2:
		return http.StatusNotFound, ""
	}
	changed := 0 // the last edition that changed it
	for e := 1; e <= edition; e++ {
		if n%5 == e%5 {
			changed = e
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><title>Page %d</title><p>Page %d, as of edition %d.", n, n, changed)
	for i := range 5 + n%40 { // text of its own: pages without any, which lead to more of their kind, look like a trap
		fmt.Fprintf(&b, " Word%d word%d.", n*i, n+i*i)
	}
	b.WriteString("</p>")
	for i := 1; i <= 3 && 3*n+i < paperPages; i++ {
		fmt.Fprintf(&b, "<a href=p%d.html>%[1]d</a> ", 3*n+i)
	}
	fmt.Fprintf(&b, "<a href=/p%d.html>see also</a> <a href='/copy%d.html'>copy</a> <a href=secret/%d.html>secret</a>", n*13%paperPages, n%7, n%3)
	if changed > 0 {
		fmt.Fprintf(&b, " <a href=/extra%d-%d.html>extra</a>", changed, n)
	}
	return http.StatusOK, b.String()
}

func (w *paper) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	status, body := w.answer(r.URL.Path, int(w.edition.Load()))
	switch {
	case status == http.StatusMovedPermanently:
		rw.Header().Set("Location", body)
		body = ""
	case status == http.StatusOK:
		etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body)))
		rw.Header().Set("ETag", etag)
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/robots.txt" {
			rw.Header().Set("Content-Type", "text/plain")
		}
		if r.Header.Get("If-None-Match") == etag {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
	}
	rw.WriteHeader(status)
	io.WriteString(rw, body)
}

// readers returns the states of the pages for a client that has read all editions up to this one completely.
func (w *paper) readers(edition int) map[string]string {
	m := map[string]string{w.URL + "/": ""}
	for e := range edition + 1 {
		for more := true; more; {
			more = false
			for u, was := range maps.Clone(m) {
				path := strings.TrimPrefix(u, w.URL)
				if was != "" && !strings.HasPrefix(was, "held ") {
					continue // it is not fetched again soon
				}
				status, body := w.answer(path, e)
				now := ""
				switch {
				case strings.HasPrefix(path, "/secret/"):
					now = "excluded"
				case status == http.StatusOK:
					now = "held " + protocol.Sum([]byte(body)).String()
				case status == http.StatusGone:
					now = "gone"
				case status == http.StatusMovedPermanently:
					now, body = "moved "+w.URL+body, "href="+body+">"
				case was != "":
					now = "failing"
				default:
					now = "refused"
				}
				if now == was {
					continue
				}
				m[u], more = now, true
				for _, part := range strings.Split(body, "href=")[1:] {
					to := strings.Trim(part[:strings.IndexByte(part, '>')], "'")
					if !strings.HasPrefix(to, "/") {
						to = "/" + to // there are no directories
					}
					if _, known := m[w.URL+to]; !known {
						m[w.URL+to] = ""
					}
				}
			}
		}
	}
	return m
}
