package fakeweb

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// A Kind is the behaviour of a site.
type Kind string

// The kinds.
const (
	Honest       Kind = "honest"
	Slow         Kind = "slow"      // responds after 1 to 8 seconds
	Failing      Kind = "failing"   // 500, 503 with Retry-After, a reset, half a body, or the page
	Redirecting  Kind = "redirect"  // chains, circles, to other sites, inside, and to nowhere
	Calendar     Kind = "calendar"  // a next month without end
	Sessions     Kind = "sessions"  // a new session id in the links of every page
	Repeating    Kind = "repeating" // /a/b/a/b/... without end
	Tarpit       Kind = "tarpit"    // accepts the request and never responds
	Drip         Kind = "drip"      // a byte from time to time
	SoftNotFound Kind = "soft"      // 200 for missing pages
	Forbidding   Kind = "robots"    // robots.txt forbids a part to which all pages link, and asks for 20 s
	Lying        Kind = "lying"     // claims that all pages are new all the time
	Flooding     Kind = "flooding"  // names a thousand new URLs in its manifest and pages at every fetch, of pages that are gone at the next one
	Bomb         Kind = "bomb"      // 32 MB of zeros in 150 KB
	Huge         Kind = "huge"      // bodies without end
	Headers      Kind = "headers"   // a header without end
	Garbage      Kind = "garbage"   // not HTTP, or of 1991
	Refusing     Kind = "refusing"  // no connection
	Silent       Kind = "silent"    // no refusal either
	Unresolved   Kind = "unresolved"
	Inside       Kind = "inside"  // its name resolves to 127.0.0.1
	Closing      Kind = "closing" // closes idle connections after 2 s
)

// maxFlood is the maximum number of URLs of a flooding site, so that a test ends.
const maxFlood = 20_000

// All returns all kinds.
func All() []Kind {
	return []Kind{Honest, Slow, Failing, Redirecting, Calendar, Sessions, Repeating, Tarpit, Drip, SoftNotFound, Forbidding,
		Lying, Flooding, Bomb, Huge, Headers, Garbage, Refusing, Silent, Unresolved, Inside, Closing}
}

// floodLasts is the number of pages of a flood that exist at a time.
const floodLasts = 1000

// setUp prepares a new site for its kind. The Web's lock is held.
func (s *Site) setUp() {
	switch s.Kind {
	case Slow:
		s.Latency = time.Second + time.Duration(s.rand.IntN(7000))*time.Millisecond
	case Redirecting:
		s.Traps = append(s.Traps, "/chain/9", "/circle/1", "/away", "/inside", "/nowhere", "/file")
	case Calendar:
		s.Traps = append(s.Traps, "/calendar/2026/1.html")
	case Sessions:
		s.Traps = append(s.Traps, "/session?page=1")
	case Repeating:
		s.Traps = append(s.Traps, "/deep/a/")
	case Forbidding:
		s.Disallow, s.Delay = []string{"/private/", "/cgi-bin/"}, 20*time.Second
		for _, path := range s.paths() {
			p := s.page(path)
			p.links = append(p.links, "/private/"+strconv.Itoa(s.rand.IntN(100)), "/cgi-bin/x?"+strconv.Itoa(s.rand.IntN(100)))
		}
	case Lying, Flooding:
		s.Speaks = true
	case SoftNotFound:
		s.Traps = append(s.Traps, "/missing/1", "/missing/2")
	case Huge:
		s.Traps = append(s.Traps, "/huge/1", "/huge/2")
	case Bomb:
		s.Traps = append(s.Traps, "/bomb/1", "/bomb/2")
	}
	s.page("/").links = append(s.page("/").links, s.Traps...)
}

// trouble responds as the kind does, and reports whether it has responded.
func (s *Site) trouble(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.Path
	switch s.Kind {
	case Failing:
		return s.fail(w, r)
	case Redirecting:
		return s.redirect(w, r)
	case Calendar:
		var year, month int
		if n, _ := fmt.Sscanf(path, "/calendar/%d/%d.html", &year, &month); n < 2 {
			return false
		}
		t := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
		at := func(months int) string { return t.AddDate(0, months, 0).Format("/calendar/2006/1.html") }
		io.WriteString(w, anchors(t.Format("January 2006")+" at "+s.Host, at(-1), at(1), at(12), "/"))
	case Sessions:
		if path != "/session" {
			return false
		}
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		id := strconv.Itoa(s.dice(1 << 30))
		link := func(n int) string { return "/session?page=" + strconv.Itoa(n) + "&PHPSESSID=" + id }
		io.WriteString(w, anchors("Page "+strconv.Itoa(n%10), link((n+1)%10), link((n+2)%10), "/session;jsessionid="+id+"?page="+strconv.Itoa(n%10)))
	case Repeating:
		if !strings.HasPrefix(path, "/deep/") {
			return false
		}
		io.WriteString(w, anchors("Deep", "a/", "b/", "../a/b/"))
	case Tarpit:
		<-r.Context().Done()
	case Drip:
		w.Header().Set("Content-Type", "text/html")
		for i := range 1 << 20 {
			if _, err := w.Write([]byte{"<p>Slowly.\n"[i%11]}); err != nil || http.NewResponseController(w).Flush() != nil || !pause.For(r.Context(), 5*time.Second) {
				break
			}
		}
	case SoftNotFound:
		if slices.Contains(s.Paths(), path) {
			return false
		}
		io.WriteString(w, anchors("Sorry, we could not find that", "/"))
	case Flooding:
		if path != "/" && path != "/robots.rdf" {
			return false
		}
		s.web.mu.Lock()
		home := s.page("/")
		for range min(1000, maxFlood-s.asked) {
			s.asked++
			p := s.page("/flood/" + strconv.Itoa(s.asked) + ".html")
			p.modified = time.Now()
			delete(s.pages, "/flood/"+strconv.Itoa(s.asked-floodLasts)+".html")
			home.links = append(home.links[:min(len(home.links), 2000)], p.path)
		}
		s.web.mu.Unlock()
		return false
	case Bomb:
		if !strings.HasPrefix(path, "/bomb/") {
			return false
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(s.web.zeros())
	case Huge:
		if !strings.HasPrefix(path, "/huge/") {
			return false
		}
		w.Header().Set("Content-Type", "text/html")
		block := bytes.Repeat([]byte("<p>More of the same.\n"), 400)
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
	case Headers:
		s.raw(w, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-Header-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		})
	case Garbage:
		s.raw(w, func(c net.Conn) {
			switch s.dice(4) {
			case 0:
				io.WriteString(c, "<title>HTTP of 1991</title>\n<p>Without a header.\n")
			case 1:
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello")
			case 2:
				io.WriteString(c, "\x00\x01\x02\xff\xfe\r\n\r\n")
			case 3:
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/ht")
			}
		})
	case Closing:
		s.serveHonest(w, r)
		http.NewResponseController(w).Flush() // Hijack would drop unsent data
		if c, buf, err := http.NewResponseController(w).Hijack(); err == nil {
			buf.Flush()
			time.AfterFunc(2*time.Second, func() { c.Close() })
		}
	default:
		return false
	}
	return true
}

// fail responds normally half of the time.
func (s *Site) fail(w http.ResponseWriter, r *http.Request) bool {
	switch s.dice(10) {
	case 0:
		http.Error(w, "something is wrong", http.StatusInternalServerError)
	case 1:
		w.Header().Set("Retry-After", strconv.Itoa(30+s.dice(60)))
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case 2:
		w.Header().Set("Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
		http.Error(w, "not so often", http.StatusTooManyRequests)
	case 3:
		s.raw(w, func(net.Conn) {})
	case 4:
		s.raw(w, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<title>Half of a page</title>")
		})
	default:
		if r.URL.Path == "/robots.txt" {
			s.serveText(w, s.Robots)
			return true
		}
		return false
	}
	return true
}

// redirect responds to the paths that redirect.
func (s *Site) redirect(w http.ResponseWriter, r *http.Request) bool {
	to := ""
	switch path := r.URL.Path; {
	case path == "/chain/0":
		return false // 404
	case strings.HasPrefix(path, "/chain/"):
		n, _ := strconv.Atoi(path[len("/chain/"):])
		to = "/chain/" + strconv.Itoa(n-1)
	case path == "/circle/1":
		to = "/circle/2"
	case path == "/circle/2":
		to = "/circle/1"
	case path == "/away":
		s.web.mu.Lock()
		to = s.web.sites[s.rand.IntN(len(s.web.sites))].Origin + "/"
		s.web.mu.Unlock()
	case path == "/inside":
		to = "http://127.0.0.1/admin"
	case path == "/file":
		to = "file:///etc/passwd"
	case path == "/nowhere":
		w.WriteHeader(http.StatusFound)
		return true
	default:
		return false
	}
	w.Header().Set("Location", to)
	w.WriteHeader([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect}[s.dice(3)])
	return true
}

// raw writes the response by hand, and closes the connection.
func (s *Site) raw(w http.ResponseWriter, f func(net.Conn)) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	f(c)
}

// zeros returns 32 MB of zeros, in gzip.
func (w *Web) zeros() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bomb == nil {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			panic(err) // the level is wrong
		}
		block := make([]byte, 1<<20)
		for range 32 {
			z.Write(block)
		}
		z.Close()
		w.bomb = b.Bytes()
	}
	return w.bomb
}
