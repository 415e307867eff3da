package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror"
	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A copy is a mirror that runs until the test ends, or stop.
type copy struct {
	t    testing.TB
	m    mirror.Mirror
	stop func() error // ends the mirror and returns what Run did
}

func newCopy(t testing.TB, s *site, set func(*mirror.Mirror)) *copy {
	dir := t.TempDir()
	c := &copy{t: t, m: mirror.Mirror{
		Source: client.Source{Base: s.base, NoStream: true},
		Dir:    filepath.Join(dir, "copy"), State: filepath.Join(dir, "state"),
	}}
	if testing.Verbose() {
		c.m.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if set != nil {
		set(&c.m)
	}
	return c
}

func (c *copy) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.m.Run(ctx) }()
	stopped := false
	c.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	c.t.Cleanup(func() {
		if err := c.stop(); err != nil {
			c.t.Error(err)
		}
	})
}

// files returns what stands in the copy, the mirror's own files left out.
func (c *copy) files() map[string]string {
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
func (c *copy) want(pages map[string]string) {
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
	sort.Strings(l)
	return strings.Join(l, "\n")
}

func pages(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("d%d/p%d.html", i%7, i)] = fmt.Sprint("page ", i)
	}
	return m
}

func TestFollowsASite(t *testing.T) {
	s := serve(t, map[string]string{"": "home", "a.html": "A", "b.html": "B", "d/c.html": "C", "d/": "D"})
	c := newCopy(t, s, func(m *mirror.Mirror) { m.Contact = "https://crawler.example/about" })
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
	// Edits while the mirror is away, and some that leave nothing to do.
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
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	st, err := mirror.ReadStatus(c.m.State)
	if err != nil || st.Running || st.Pages != 4 || st.Held != 4 || st.Owed != 0 || st.Cursor != s.cursor() ||
		st.Door != client.Changes || st.Base != s.base || st.Requests == 0 {
		t.Errorf("status %+v %v", st, err)
	}
}

// Digests that are always wrong cost a bounded number of requests.
func TestSiteThatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, pages(30))
		s.lie = true
		c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP, m.Delay = web, -1 })
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
		if st, err := mirror.ReadStatus(c.m.State); err != nil || !st.Demoted || !st.Running {
			t.Errorf("status %+v %v", st, err)
		}
		c.stop()
	})
}

// A site without a journal and digests is polled, and asked conditionally.
func TestBareManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, map[string]string{"a": "A", "b": "B"})
		s.bare = true
		c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP, m.Source.Poll = web, time.Hour })
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
			c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP = web })
			c.start()
			time.Sleep(time.Minute)
			c.want(s.live())
			checkGaps(t, s, mirror.DefaultDelay)
			c.stop()
		})
	})
	t.Run("crawl delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, web := pipe(t, pages(5))
			s.robots = "User-agent: *\nCrawl-delay: 7\n"
			c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP, m.Delay = web, -1 })
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
			c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP = web })
			c.start()
			time.Sleep(time.Hour)
			s.edit("private/b", "B2")
			time.Sleep(time.Hour)
			if got := s.gets(); got != "a" {
				t.Errorf("asked for %q", got)
			}
			if st, err := mirror.ReadStatus(c.m.State); err != nil || st.Parked != 1 || st.Owed != 0 {
				t.Errorf("status %+v %v", st, err)
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
			c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP = web })
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
			c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP = web })
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
			sort.Slice(all, func(i, j int) bool { return all[i].Before(all[j]) })
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
func checkGaps(t *testing.T, s *site, gap time.Duration) {
	t.Helper()
	var all []time.Time
	s.with(func() {
		for _, list := range s.times {
			all = append(all, list...)
		}
	})
	sort.Slice(all, func(i, j int) bool { return all[i].Before(all[j]) })
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
			"coded": func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				w.Header().Set("Content-Encoding", "gzip")
				own(w, r)
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
			c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP, m.MaxPage = web, 5000 })
			c.start()
			time.Sleep(time.Hour)
			want := s.live()
			delete(want, bad)
			if got := list(c.files()); got != list(want) {
				t.Errorf("%s: the copy is\n%s", name, got)
			}
			st, err := mirror.ReadStatus(c.m.State)
			if err != nil || !strings.Contains(st.LastError, bad) || strings.ContainsFunc(st.LastError, unicode.IsControl) {
				t.Errorf("%s: status %+v %v", name, st, err)
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

// URLs cannot lead out of the directory, nor fight for a name.
func TestHostileURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, map[string]string{})
		for _, p := range []string{"a", "a/", "a/b", "A", "x//y", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5C..%5Cwindows", ".parley/site", "%2Eparley/tmp/1",
			"CON", "aux.html", "nul%00nul", "line%0Abreak", "%FF%FE", "q?a=/../../b", "q?a", "~", "C:/boot", "a%20b", strings.Repeat("l", 3000),
			strings.Repeat("d/", 500), "-rf", "index.html", ""} {
			s.pages[p] = "page " + p
		}
		c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP, m.Delay = web, -1 })
		c.start()
		time.Sleep(time.Minute)
		if err := c.stop(); err != nil {
			t.Fatal(err)
		}
		col, err := holding.Open(c.m.State, c.m.Dir, s.base, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer col.Close()
		names := map[string]string{}
		for p, body := range s.pages {
			page, ok, err := col.Page(s.base + p)
			if err != nil || !ok || page.Path == "" || !filepath.IsLocal(page.Path) {
				t.Errorf("page %.60q: %+v %v", p, page, err)
			}
			if was, ok := names[page.Path]; ok {
				t.Errorf("%.60q and %.60q share %q", p, was, page.Path)
			}
			names[page.Path] = p
			if b, err := os.ReadFile(filepath.Join(c.m.Dir, page.Path)); err != nil || string(b) != body {
				t.Errorf("%.60q holds %.60q, %v", p, b, err)
			}
		}
		beside, _ := os.ReadDir(filepath.Dir(c.m.Dir))
		if len(beside) != 3 { // copy, state, status
			t.Errorf("beside the copy stand %v", beside)
		}
	})
}

// A site that is away costs few requests, and is found again soon.
func TestSiteThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, pages(10))
		inner, away := web.Transport, new(atomic.Bool)
		web.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, errors.New("no route to host")
			}
			return inner.RoundTrip(r)
		})
		c := newCopy(t, s, func(m *mirror.Mirror) { m.Source.HTTP, m.Delay = web, -1 })
		c.start()
		time.Sleep(time.Minute)
		c.want(s.live())
		s.gets()
		away.Store(true)
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

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCannotGoOn(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	c := newCopy(t, s, nil)
	c.start()
	c.want(s.live())
	if err := c.m.Run(t.Context()); !errors.Is(err, holding.ErrHeld) {
		t.Errorf("second mirror with the same state: %v", err)
	}
	c.stop()
	other := c.m
	other.Source.Base = "http://other.test/"
	if err := other.Run(t.Context()); !errors.Is(err, holding.ErrOther) {
		t.Errorf("state of another site: %v", err)
	}
	other.Source.Base = "ftp://other.test/"
	if err := other.Run(t.Context()); err == nil {
		t.Error("ran with a base that is none")
	}
}

// The hook sees each page once, in the state it is in.
func TestNotify(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	heard := make(chan holding.Settled, 10)
	c := newCopy(t, s, func(m *mirror.Mirror) { m.Notify = func(p holding.Settled) { heard <- p } })
	c.start()
	if p := <-heard; p.Item.URL != s.base+"a" || !p.Fresh || p.Held != protocol.Sum([]byte("A")) {
		t.Errorf("heard %+v", p)
	}
	s.edit("a", "A2")
	if p := <-heard; !p.Fresh || p.Held != protocol.Sum([]byte("A2")) {
		t.Errorf("heard %+v", p)
	}
}

// A site whose robots.txt forbids its manifest is not followed, and says why.
func TestForbiddenManifest(t *testing.T) {
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		fmt.Fprint(w, "User-agent: parley\nDisallow: /robots.rdf\n")
	}))
	defer srv.Close()
	dir := t.TempDir()
	m := &mirror.Mirror{Source: client.Source{Base: srv.URL}, Dir: filepath.Join(dir, "copy"), State: filepath.Join(dir, "state")}
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "robots.txt forbids "+srv.URL+"/robots.rdf") {
		t.Errorf("it ended with %v", err)
	}
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
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	fresh := make(chan struct{}, 10)
	m := &mirror.Mirror{Source: client.Source{Base: site.Base, HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, front.Listener.Addr().String())
		}}}},
		Dir: filepath.Join(dir, "copy"), State: filepath.Join(dir, "state"), Delay: delay,
		Notify: func(holding.Settled) { fresh <- struct{}{} }}
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-fresh
	<-fresh
	stop()
	if err := <-done; err != nil {
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
