package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A copied is a copy that is kept until the test ends, or stop.
type copied struct {
	t    testing.TB
	m    crawl.Copy
	c    *crawl.Crawler
	stop func() error // ends the crawler and returns what Run did
}

func newCopy(t testing.TB, s *speaker, set func(*crawl.Copy)) *copied {
	dir := t.TempDir()
	c := &copied{t: t, m: crawl.Copy{Base: s.base, NoStream: true, Dir: filepath.Join(dir, "copy"), State: filepath.Join(dir, "state")}}
	if testing.Verbose() {
		c.m.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if set != nil {
		set(&c.m)
	}
	return c
}

func (c *copied) start() {
	c.t.Helper()
	if h := c.m.Harvester; h != nil { // which a crawler has used
		c.m.Harvester = &harvest.Harvester{Resolver: h.Resolver, Dial: h.Dial}
	}
	var err error
	if c.c, err = c.m.Open(); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.c.Run(ctx) }()
	stopped := false
	c.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return errors.Join(<-done, c.c.Collection.Close())
	}
	c.t.Cleanup(func() {
		if err := c.stop(); err != nil {
			c.t.Error(err)
		}
	})
}

// files returns what stands in the copy, its own files left out.
func (c *copied) files() map[string]string {
	m := map[string]string{}
	filepath.WalkDir(c.m.Dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(c.m.Dir, p)
		if err != nil || d.IsDir() {
			if rel == ".parley" {
				return fs.SkipDir
			}
			return nil
		}
		if b, err := os.ReadFile(p); err == nil {
			m[filepath.ToSlash(rel)] = string(b)
		}
		return nil
	})
	return m
}

// want waits until the copy holds exactly the pages.
func (c *copied) want(pages map[string]string) {
	c.t.Helper()
	w := list(pages)
	got := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if got = list(c.files()); got == w {
			return
		}
	}
	c.t.Fatalf("the copy is\n%s\nwant\n%s", got, w)
}

func list(m map[string]string) string {
	var l []string
	for k, v := range m {
		if k == "" || strings.HasSuffix(k, "/") {
			k += "index.html"
		}
		l = append(l, fmt.Sprintf("%q: %q", k, v))
	}
	slices.Sort(l)
	return strings.Join(l, "\n")
}

func pages(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("d%d/p%d.html", i%7, i)] = fmt.Sprint("page ", i)
	}
	return m
}

// counts returns how many pages are offered, owed, and forbidden, and the faults of pages.
func (c *copied) counts() (offered, owed, forbidden int, faults []string) {
	c.t.Helper()
	for p, err := range c.c.Collection.Pages(context.Background()) {
		if err != nil {
			c.t.Fatal(err)
		}
		switch {
		case p.State == collection.Gone:
			continue
		case p.State == collection.Excluded:
			forbidden++
		case p.Told:
			owed++
		}
		offered++
		if p.Fails > 0 {
			faults = append(faults, p.URL+": "+p.Fault)
		}
	}
	return offered, owed, forbidden, faults
}

// manifest returns the source of the site.
func (c *copied) manifest() (s collection.Source) {
	list, err := c.c.Collection.Sources(0)
	if err != nil {
		c.t.Error(err)
	}
	for _, s := range list {
		if s.Kind == collection.ManifestRDF {
			return s
		}
	}
	return s
}

func TestFollowsASite(t *testing.T) {
	s := serve(t, map[string]string{"": "home", "a.html": "A", "b.html": "B", "d/c.html": "C", "d/": "D"})
	c := newCopy(t, s, func(m *crawl.Copy) { m.Contact = "https://crawler.example/about" })
	c.start()
	c.want(s.live())
	if got := s.gets(); got != " a.html b.html d/ d/c.html" {
		t.Errorf("first sync asked for %q", got)
	}
	for _, step := range []struct {
		do   func()
		gets string
	}{
		{func() { s.edit("a.html", "A2") }, "a.html"},
		{func() { s.edit("new/n.html", "N") }, "new/n.html"},
		{func() { s.remove("b.html") }, ""},
		{func() { s.move("a.html", "moved/a.html") }, ""},
		{func() { s.move("d/", "e/"); s.move("d/c.html", "e/c.html") }, ""},
		{func() { s.edit("e/", "D2"); s.move("new/n.html", "n.html"); s.remove("e/c.html") }, "e/"},
	} {
		step.do()
		c.want(s.live())
		if got := s.gets(); got != step.gets {
			t.Errorf("asked for %q, want %q", got, step.gets)
		}
	}
	// Edits while nobody follows, and some that leave nothing to do.
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	s.edit("n.html", "N2")
	s.edit("", "other")
	s.edit("", "home")
	s.move("moved/a.html", "a.html")
	c.start()
	c.want(s.live())
	if got := s.gets(); got != "n.html" {
		t.Errorf("asked for %q after a restart", got)
	}
	s.with(func() {
		if len(s.agents) != 1 || !s.agents["Parley/0.1 (+https://crawler.example/about)"] {
			t.Errorf("agents %v", s.agents)
		}
	})
	if offered, owed, _, faults := c.counts(); offered != 4 || owed != 0 || len(faults) != 0 {
		t.Errorf("%d pages, %d owed, faults %q", offered, owed, faults)
	}
	if m := c.manifest(); m.Cursor != s.cursor() || m.Door != "changes" {
		t.Errorf("stands at %v, told by %s", m.Cursor, m.Door)
	}
}

// Digests that are always wrong cost a bounded number of requests.
func TestSiteThatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, pages(30))
		s.lie = true
		c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester, m.Delay = web, -1 })
		c.start()
		time.Sleep(10 * time.Minute)
		c.want(s.live())
		if n := len(strings.Fields(s.gets())); n < 30 || n > 50 {
			t.Errorf("%d requests for 30 pages", n)
		}
		s.edit("d0/p0.html", "edited")
		time.Sleep(time.Minute)
		c.want(s.live())
		if got := s.gets(); got != "d0/p0.html" {
			t.Errorf("asked for %q", got)
		}
		if is, ok := c.c.Collection.Copy(); !ok || !is.Demoted {
			t.Errorf("copy %+v", is)
		}
		c.stop()
	})
}

// A site without a journal and digests is polled, and asked conditionally.
func TestBareManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, map[string]string{"a": "A", "b": "B"})
		s.bare = true
		c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester, m.Poll = web, time.Hour })
		c.start()
		time.Sleep(5 * time.Minute)
		c.want(s.live())
		s.gets()
		s.with(func() {
			s.pages["c"] = "C"
			delete(s.pages, "a")
		})
		time.Sleep(70 * time.Minute)
		c.want(s.live())
		if got := s.gets(); got != "c" {
			t.Errorf("asked for %q", got)
		}
		c.stop()
	})
}

func TestManners(t *testing.T) {
	t.Run("delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, web := pipe(t, pages(5))
			c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester = web })
			c.start()
			time.Sleep(time.Minute)
			c.want(s.live())
			checkGaps(t, s, crawl.DefaultDelay)
			c.stop()
		})
	})
	t.Run("crawl delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, web := pipe(t, pages(5))
			s.robots = "User-agent: *\nCrawl-delay: 7\n"
			c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester, m.Delay = web, -1 })
			c.start()
			time.Sleep(time.Minute)
			c.want(s.live())
			checkGaps(t, s, 7*time.Second)
			c.stop()
		})
	})
	t.Run("forbidden until robots.txt changes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, web := pipe(t, map[string]string{"a": "A", "private/b": "B"})
			s.robots = "User-agent: *\nDisallow: /private/\n"
			c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester = web })
			c.start()
			time.Sleep(time.Hour)
			s.edit("private/b", "B2")
			time.Sleep(time.Hour)
			if got := s.gets(); got != "a" {
				t.Errorf("asked for %q", got)
			}
			if offered, owed, forbidden, _ := c.counts(); offered != 2 || owed != 0 || forbidden != 1 {
				t.Errorf("%d pages, %d owed, %d forbidden", offered, owed, forbidden)
			}
			s.with(func() { s.robots = "User-agent: *\nAllow: /\n" })
			time.Sleep(25 * time.Hour)
			c.want(s.live())
			c.stop()
		})
	})
	t.Run("no robots.txt to be had", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, web := pipe(t, map[string]string{"a": "A"})
			s.odd["robots.txt"] = func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				w.WriteHeader(http.StatusBadGateway)
			}
			c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester = web })
			c.start()
			time.Sleep(time.Hour)
			if got := s.gets(); got != "" {
				t.Errorf("asked for %q", got)
			}
			s.with(func() { delete(s.odd, "robots.txt") })
			time.Sleep(15 * time.Minute)
			c.want(s.live())
			c.stop()
		})
	})
	t.Run("busy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, web := pipe(t, pages(3))
			var busy atomic.Int64
			for p := range s.pages {
				s.odd[p] = func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
					if busy.Add(1) <= 2 {
						w.Header().Set("Retry-After", "300")
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					own(w, r)
				}
			}
			c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester = web })
			c.start()
			time.Sleep(11 * time.Minute)
			c.want(s.live())
			if n := len(strings.Fields(s.gets())); n != 5 {
				t.Errorf("%d requests", n)
			}
			var all []time.Time
			s.with(func() {
				for _, p := range []string{"d0/p0.html", "d1/p1.html", "d2/p2.html"} {
					all = append(all, s.times[p]...)
				}
			})
			slices.SortFunc(all, time.Time.Compare)
			for i := range 2 {
				if gap := all[i+1].Sub(all[i]); gap < 5*time.Minute {
					t.Errorf("asked again after %v", gap)
				}
			}
			c.stop()
		})
	})
}

// checkGaps fails if two requests for pages came closer than gap, or much
// later: between them the manifest and the doors have their turns.
func checkGaps(t *testing.T, s *speaker, gap time.Duration) {
	t.Helper()
	var all []time.Time
	s.with(func() {
		for _, list := range s.times {
			all = append(all, list...)
		}
	})
	slices.SortFunc(all, time.Time.Compare)
	for i := 1; i < len(all); i++ {
		if d := all[i].Sub(all[i-1]); d < gap || d > 4*gap+100*time.Millisecond {
			t.Errorf("request %d came after %v, want %v", i, d, gap)
		}
	}
	if len(all) == 0 {
		t.Error("no requests")
	}
}

// Answers that are no page of this site are not kept, and do not stop the rest.
func TestOddAnswers(t *testing.T) {
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
			s, web := pipe(t, map[string]string{"a.html": "A", bad: "X", "z.html": "Z"})
			s.odd[bad] = odd
			c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester, m.MaxPage = web, 5000 })
			c.start()
			time.Sleep(time.Hour)
			want := s.live()
			delete(want, bad)
			if got := list(c.files()); got != list(want) {
				t.Errorf("%s: the copy is\n%s", name, got)
			}
			if _, _, _, faults := c.counts(); len(faults) != 1 || !strings.Contains(faults[0], bad) || strings.ContainsFunc(faults[0], unicode.IsControl) {
				t.Errorf("%s: faults %q", name, faults)
			}
			// As soon as the site does better it is asked.
			s.with(func() {
				if n := len(s.times[bad]); n > 25 {
					t.Errorf("%s: asked %d times in an hour", name, n)
				}
				delete(s.odd, bad)
			})
			s.edit(bad, "X2")
			time.Sleep(11 * time.Minute)
			c.want(s.live())
			if left, _ := os.ReadDir(filepath.Join(c.m.Dir, ".parley", "tmp")); len(left) > 0 {
				t.Errorf("%s: %d files left over", name, len(left))
			}
			c.stop()
		}
	})
}

// Large pages go through a file; what is too large is left, and so is nothing else.
func TestLargePages(t *testing.T) {
	large := func(n int, c string) string { return strings.Repeat(c, n) }
	s := serve(t, map[string]string{"a": "A", "large": large(5<<20, "l"), "exact": large(6<<20, "e"), "huge": large(6<<20+1, "h")})
	c := newCopy(t, s, func(m *crawl.Copy) { m.MaxPage = 6 << 20 })
	c.start()
	want := s.live()
	delete(want, "huge")
	c.want(want)
	s.edit("large", large(3<<20, "m"))
	s.edit("exact", large(3<<20, "m")) // of two that are alike both are there
	s.edit("huge", large(2<<20, "g"))
	c.want(s.live())
	s.edit("large", large(7<<20, "n"))
	s.edit("a", "the last")
	want = s.live()
	want["large"] = large(3<<20, "m")
	c.want(want)
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.m.Dir, ".parley", "tmp")); err != nil || len(left) > 0 {
		t.Errorf("%d files left over, %v", len(left), err)
	}
	c.start()
	if got := strings.Join(strings.Fields(s.gets()), " "); strings.Count(got, "huge") > 2 {
		t.Errorf("asked for %q", got)
	}
	s.move("exact", "moved")
	s.edit("large", "small")
	c.want(s.live())
}

// URLs cannot lead out of the directory, nor fight for a name.
func TestHostileURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, map[string]string{})
		for _, p := range []string{"a", "a/", "a/b", "A", "x//y", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5C..%5Cwindows", ".parley/site", "%2Eparley/tmp/1",
			"CON", "aux.html", "nul%00nul", "line%0Abreak", "%FF%FE", "q?a=/../../b", "q?a", "~", "C:/boot", "a%20b", strings.Repeat("l", 3000),
			strings.Repeat("d/", 500), "-rf", "index.html", "login", "a.jpg", "x?PHPSESSID=1", "x?utm_source=1", "r/r/r/r/r/r/r", ""} {
			s.pages[p] = "page " + p
		}
		c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester, m.Delay = web, -1 })
		c.start()
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
			t.Errorf("beside the copy stand %v", beside)
		}
		if err := c.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A site that is away costs few requests, and is found again soon.
func TestSiteThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, pages(10))
		dial, away := web.Dial, new(atomic.Bool)
		var conns sync.Map
		web.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if away.Load() {
				return nil, errors.New("no route to host")
			}
			nc, err := dial(ctx, network, address)
			conns.Store(nc, true)
			return nc, err
		}
		c := newCopy(t, s, func(m *crawl.Copy) { m.Harvester, m.Delay = web, -1 })
		c.start()
		time.Sleep(time.Minute)
		c.want(s.live())
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
		time.Sleep(6 * time.Minute)
		c.want(s.live())
		c.stop()
	})
}

func TestCannotGoOn(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	c := newCopy(t, s, nil)
	c.start()
	c.want(s.live())
	if _, err := c.m.Open(); !errors.Is(err, collection.ErrHeld) {
		t.Errorf("second copy with the same state: %v", err)
	}
	c.stop()
	other := c.m
	other.Base = "http://other.test/"
	if _, err := other.Open(); !errors.Is(err, collection.ErrOther) {
		t.Errorf("state of another site: %v", err)
	}
	other.Base = "ftp://other.test/"
	if _, err := other.Open(); err == nil {
		t.Error("opened with a base that is none")
	}
}

// What a killed process has left of an archive goes, and not before the state is ours.
func TestPartsOfArchives(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	c := newCopy(t, s, nil)
	c.start()
	c.want(s.live())
	part, page := filepath.Join(c.m.State, "parley-123.part"), filepath.Join(c.m.State, "parley-of-a-person")
	for _, name := range []string{part, page} {
		if err := os.WriteFile(name, []byte("half of it"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name string) bool { _, err := os.Lstat(name); return err == nil }
	if _, err := c.m.Open(); !errors.Is(err, collection.ErrHeld) {
		t.Errorf("second copy with the same state: %v", err)
	}
	if !there(part) {
		t.Error("what another process is downloading is removed")
	}
	c.stop()
	c.start()
	if there(part) || !there(page) {
		t.Errorf("the part is there: %v; what is none: %v", there(part), there(page))
	}
	c.stop()
}

// A site whose robots.txt forbids its manifest is not followed, and it is said why,
// every time.
func TestForbiddenManifest(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		fmt.Fprint(w, "User-agent: parley\nDisallow: /robots.rdf\n")
	}))
	defer srv.Close()
	m := crawl.Copy{Base: srv.URL, Dir: t.TempDir()}
	for range 2 {
		c, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "robots.txt forbids "+srv.URL+"/robots.rdf") {
			t.Errorf("it ended with %v", err)
		}
		if err := c.Collection.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || asked[0] != "/robots.txt" {
		t.Errorf("it asked for %q", asked)
	}
}

// Whatever is asked for, be it robots.txt, the manifest, a door or a page,
// one request begins no sooner than the delay after the one before.
func TestEveryRequestKeepsTheDelay(t *testing.T) {
	const delay = 150 * time.Millisecond
	var mu sync.Mutex
	var begun []time.Time
	site := sitetest.NewSite(t, map[string]string{"a.html": "a", "b.html": "b"})
	u, err := url.Parse(site.Base)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		begun = append(begun, time.Now())
		mu.Unlock()
		r.Host = u.Host
		httputil.NewSingleHostReverseProxy(u).ServeHTTP(w, r)
	}))
	defer front.Close()
	c := newCopy(t, &speaker{base: site.Base}, func(m *crawl.Copy) {
		m.NoStream, m.Delay = false, delay
		m.Harvester = &harvest.Harvester{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, front.Listener.Addr().String())
		}}
	})
	c.start()
	c.want(map[string]string{"a.html": "a", "b.html": "b"})
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(begun) < 4 { // robots.txt, the manifest, two pages, and a door
		t.Errorf("%d requests", len(begun))
	}
	for i := 1; i < len(begun); i++ {
		// What arrives may be late by a little, and the one before not.
		if gap := begun[i].Sub(begun[i-1]); gap < delay*2/3 {
			t.Errorf("request %d came %v after the one before, want %v", i, gap, delay)
		}
	}
}

// The real publisher and the real stream: cut, restarted, and with its
// journal lost, the copy follows, and asks for what changed and nothing else.
func TestFollowsARealSite(t *testing.T) {
	files := map[string]string{"index.html": "home", "a.html": "A", "d/b.html": "B", "d/c.html": "C"}
	live := map[string]string{}
	for k, v := range files {
		live[k] = v
	}
	s := sitetest.NewSite(t, live)
	c := newCopy(t, &speaker{base: s.Base}, func(m *crawl.Copy) { m.NoStream = false })
	c.start()
	c.want(files)
	write := func(name, text string) { files[name] = text; s.Write(name, text) }
	for _, step := range []struct {
		name string
		do   func()
		gets string
	}{
		{"edit", func() { write("a.html", "A2"); s.Publish() }, "/a.html"},
		{"rename of a directory", func() {
			s.Rename("d", "e")
			for _, n := range []string{"b.html", "c.html"} {
				files["e/"+n] = files["d/"+n]
				delete(files, "d/"+n)
			}
			s.Publish()
		}, ""},
		{"deletion", func() { s.Remove("a.html"); delete(files, "a.html"); s.Publish() }, ""},
		{"cut", func() { s.Cut(); write("n.html", "N"); s.Publish() }, "/n.html"},
		{"restart", func() { s.Restart(func() { write("n.html", "N2") }); s.Publish() }, "/n.html"},
		{"lost journal", func() { s.LoseState(); write("e/b.html", "B2"); s.Publish() }, "/e/b.html"},
	} {
		s.ForgetRequests()
		step.do()
		c.want(files)
		var gets []string
		for _, r := range s.Requests() {
			if strings.HasPrefix(r.Agent, "Parley/") && !strings.HasSuffix(r.Path, "robots.rdf") && !strings.Contains(r.Path, "parley") {
				gets = append(gets, r.Path)
			}
		}
		slices.Sort(gets)
		if got := strings.Join(gets, " "); got != step.gets {
			t.Errorf("%s: asked for %q, want %q", step.name, got, step.gets)
		}
	}
	// It ends on the stream.
	write("a.html", "A3")
	s.Publish()
	c.want(files)
	if by := c.manifest().Door; by != "stream" {
		t.Errorf("told by %s", by)
	}
}

// copyEnv makes the test binary the keeper of a copy of the site it names.
const copyEnv = "PARLEY_TEST_COPY"

func TestMain(m *testing.M) {
	if base := os.Getenv(copyEnv); base != "" {
		as := os.Getenv(copyEnv + "_AS")
		from := crawl.Copy{Base: base, NoStream: as == "", As: protocol.Form(as), Dir: "copy", State: "state"}
		c, err := from.Open()
		if err == nil {
			err = c.Run(context.Background())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Killed at any instant of a storm of edits, the copy ends equal to the
// site, and every file that stands in it at any instant is a whole page.
func TestKilledInAStorm(t *testing.T) {
	s := serve(t, pages(400))
	was := map[string]map[string]bool{} // all that a page ever was
	note := func(p, body string) {
		if was[p] == nil {
			was[p] = map[string]bool{}
		}
		was[p][body] = true
	}
	for p, body := range s.live() {
		note(p, body)
	}
	c := newCopy(t, s, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		for p := range s.live() {
			return p
		}
		return "a.html"
	}
	edits := 0
	for round := range 10 {
		child := exec.Command(os.Args[0])
		child.Env, child.Dir = append(os.Environ(), copyEnv+"="+s.base), filepath.Dir(c.m.Dir)
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		over := time.After(time.Duration(30+rnd.IntN(250)) * time.Millisecond)
	storm:
		for {
			select {
			case <-over:
				break storm
			default:
			}
			edits++
			p := some()
			switch n := rnd.IntN(10); {
			case n < 2:
				to := fmt.Sprintf("m%d/p%d.html", rnd.IntN(5), edits)
				note(to, s.live()[p])
				s.move(p, to)
			case n < 3:
				s.remove(p)
			case n < 5:
				p = fmt.Sprintf("n%d/p%d.html", rnd.IntN(5), edits)
				fallthrough
			default:
				body := fmt.Sprint("edit ", edits)
				note(p, body)
				s.edit(p, body)
			}
			time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
		}
		child.Process.Kill()
		child.Wait()
		for name, body := range c.files() {
			if !was[name][body] {
				t.Fatalf("round %d: %s holds %.40q, which it never was", round, name, body)
			}
		}
	}
	c.start()
	c.want(s.live())
	if _, owed, _, _ := c.counts(); owed != 0 || c.manifest().Cursor != s.cursor() {
		t.Errorf("%d pages owed, at %v of %v", owed, c.manifest().Cursor, s.cursor())
	}
	t.Logf("%d edits, %d pages", edits, len(s.live()))
}

// A digest that is told and right is taken in once, and told on to whoever
// follows the copy.
func TestEventsOfACopy(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	c := newCopy(t, s, nil)
	c.start()
	c.want(s.live())
	s.edit("a", "A2")
	c.want(s.live())
	s.move("a", "b")
	c.want(s.live())
	var got []string
	for deadline := time.Now().Add(20 * time.Second); len(got) < 3 && time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		got = nil
		list, err := c.c.Collection.Log().Read(t.Context(), protocol.Cursor{Epoch: c.c.Collection.Log().Head().Epoch}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, ch := range list {
			got = append(got, string(ch.Op)+" "+strings.TrimPrefix(ch.Item.URL, s.base))
		}
	}
	if strings.Join(got, ", ") != "create a, update a, move b" {
		t.Errorf("told on: %q", got)
	}
}
