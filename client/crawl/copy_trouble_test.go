package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/parleyweb/parley/client/crawl"
)

// Responses that are not a page of this site are not stored, and do not stop the rest.
func TestInvalidResponsesAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bad = "x.html"
		for name, odd := range map[string]func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc){
			"redirect": func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				http.Redirect(w, r, "/a.html", http.StatusFound)
			},
			"not found": func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { http.NotFound(w, r) },
			"gone":      func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { w.WriteHeader(410) },
			"broken":    func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { w.WriteHeader(500) },
			"odd words": func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					panic(err)
				}
				defer c.Close()
				fmt.Fprint(c, "HTTP/1.1 500 \x1b]0;owned\x07\x1b[2J\r\nContent-Length: 0\r\n\r\n")
			},
			"cut short": func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, "some")
				panic(http.ErrAbortHandler)
			},
			"stalled": func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				fmt.Fprint(w, "some")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			},
			"endless": func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				for {
					if _, err := fmt.Fprint(w, strings.Repeat("x", 1000)); err != nil {
						return
					}
				}
			},
			"large": func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				w.Header().Set("Content-Length", "10000000")
				w.WriteHeader(200)
			},
		} {
			s := pipe(t, map[string]string{"a.html": "A", bad: "X", "z.html": "Z"})
			s.odd[bad] = odd
			c := s.follow(t, func(m *crawl.Copy) { m.MaxPage = 5000 })
			time.Sleep(time.Hour)
			want := s.live()
			delete(want, bad)
			if got := list(c.files()); got != list(want) {
				t.Errorf("%s: the copy is\n%s", name, got)
			}
			if _, _, _, faults := c.counts(); len(faults) != 1 || !strings.Contains(faults[0], bad) || strings.ContainsFunc(faults[0], unicode.IsControl) {
				t.Errorf("%s: faults %q", name, faults)
			}
			// As soon as the site has recovered it is fetched again.
			s.with(func() {
				if n := len(s.times[bad]); n > 25 {
					t.Errorf("%s: %d requests in an hour", name, n)
				}
				delete(s.odd, bad)
			})
			s.edit(bad, "X2")
			c.equalAfter(11 * time.Minute)
			if left, _ := os.ReadDir(filepath.Join(c.m.Dir, ".parley", "tmp")); len(left) > 0 {
				t.Errorf("%s: %d files left over", name, len(left))
			}
			c.stop()
		}
	})
}

// Large pages are buffered in a file; pages that are too large are skipped, and only those.
func TestLargePages(t *testing.T) {
	large := func(n int, c string) string { return strings.Repeat(c, n) }
	s := serve(t, map[string]string{"a": "A", "large": large(5<<20, "l"), "exact": large(6<<20, "e"), "huge": large(6<<20+1, "h")})
	c := s.follow(t, func(m *crawl.Copy) { m.MaxPage = 6 << 20 })
	want := s.live()
	delete(want, "huge")
	c.want(want)
	s.edit("large", large(3<<20, "m"))
	s.edit("exact", large(3<<20, "m")) // both of two equal pages are stored
	s.edit("huge", large(2<<20, "g"))
	c.equal()
	s.edit("large", large(7<<20, "n"))
	s.edit("a", "the last")
	want = s.live()
	want["large"] = large(3<<20, "m")
	c.want(want)
	c.stop()
	if left, err := os.ReadDir(filepath.Join(c.m.Dir, ".parley", "tmp")); err != nil || len(left) > 0 {
		t.Errorf("%d files left over, %v", len(left), err)
	}
	c.start()
	if got := strings.Join(strings.Fields(s.gets()), " "); strings.Count(got, "huge") > 2 {
		t.Errorf("requested %q", got)
	}
	s.move("exact", "moved")
	s.edit("large", "small")
	c.equal()
}

// URLs can neither escape the directory nor take each other's file names.
func TestHostileURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, map[string]string{})
		for _, p := range []string{"a", "a/", "a/b", "A", "x//y", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5C..%5Cwindows", ".parley/site", "%2Eparley/tmp/1",
			"CON", "aux.html", "nul%00nul", "line%0Abreak", "%FF%FE", "q?a=/../../b", "q?a", "~", "C:/boot", "a%20b", strings.Repeat("l", 3000),
			strings.Repeat("d/", 500), "-rf", "index.html", "login", "a.jpg", "x?PHPSESSID=1", "x?utm_source=1", "r/r/r/r/r/r/r", ""} {
			s.pages[p] = "page " + p
		}
		c := s.follow(t, func(m *crawl.Copy) { m.Delay = -1 })
		time.Sleep(time.Minute)
		names := map[string]string{}
		for p, body := range s.live() {
			page, ok, err := c.c.Collection.Page(s.base + p)
			name, below := strings.CutPrefix(page.Stored.File, "mirror/")
			if err != nil || !ok || !below || !filepath.IsLocal(name) {
				t.Errorf("page %.60q: %+v %v", p, page, err)
			}
			if was, ok := names[name]; ok {
				t.Errorf("%.60q and %.60q share %q", p, was, name)
			}
			names[name] = p
			if b, err := os.ReadFile(filepath.Join(c.m.Dir, name)); err != nil || string(b) != body {
				t.Errorf("%.60q holds %.60q, %v", p, b, err)
			}
		}
		if beside, _ := os.ReadDir(filepath.Dir(c.m.Dir)); len(beside) != 2 { // copy and state
			t.Errorf("files besides the copy: %v", beside)
		}
	})
}

// A site that is down costs few requests, and its return is noticed soon.
func TestSiteOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, pages(10))
		dial, away := s.web.Options.Dial, new(atomic.Bool)
		var conns sync.Map
		s.web.Options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if away.Load() {
				return nil, errors.New("no route to host")
			}
			nc, err := dial(ctx, network, address)
			conns.Store(nc, true)
			return nc, err
		}
		c := s.follow(t, func(m *crawl.Copy) { m.Delay = -1 })
		c.equalAfter(time.Minute)
		s.gets()
		away.Store(true)
		s.edit("d0/p0.html", "told on the connection that is left")
		time.Sleep(time.Second)
		conns.Range(func(nc, _ any) bool { nc.(net.Conn).Close(); return true })
		for p := range s.live() {
			s.edit(p, "edited "+p)
		}
		time.Sleep(3 * time.Hour)
		away.Store(false)
		c.equalAfter(6 * time.Minute)
	})
}

func TestCopyOfInvalidBase(t *testing.T) {
	m := crawl.Copy{Base: "ftp://other.test/", Dir: t.TempDir()}
	if _, err := m.Open(); err == nil {
		t.Error("opened with an invalid base")
	}
}
