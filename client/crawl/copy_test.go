package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// copied is a copy that runs until the test ends, or until stop.
type copied struct {
	t    testing.TB
	site *speaker // of which follow made it
	m    crawl.Copy
	c    *crawl.Crawler
	stop func() // ends the crawler
}

// newCopy returns a copy of a site, in a new directory, which follows no stream unless set says so, and has not begun.
func newCopy(t testing.TB, base string, set func(*crawl.Copy)) *copied {
	dir := t.TempDir()
	c := &copied{t: t, m: crawl.Copy{Base: base, NoStream: true, Dir: filepath.Join(dir, "copy"), State: filepath.Join(dir, "state")}}
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
	must.OK(c.t, c.open())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, c.c.Collection.Close()); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(c.stop)
}

func (c *copied) open() (err error) {
	if h := c.m.Harvester; h != nil { // which the crawler has used
		c.m.Harvester = &harvest.Harvester{Options: harvest.Options{Resolver: h.Options.Resolver, Dial: h.Options.Dial, TLS: h.Options.TLS}}
	}
	c.c, err = c.m.Open()
	return err
}

// run runs the crawler, wherever its site moves, until ctx ends.
func (c *copied) run(ctx context.Context) error {
	for {
		err := c.c.Run(ctx)
		if moved := new(crawl.MovedError); !errors.As(err, &moved) {
			return err
		}
		if err := errors.Join(c.c.Collection.Close(), c.open()); err != nil {
			return err
		}
	}
}

// files returns the files of the copy, without its own bookkeeping files.
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

// want waits until the copy holds exactly these pages.
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

// equal waits until the copy equals its site, and equalAfter first for a time.
func (c *copied) equal() {
	c.t.Helper()
	c.want(c.site.live())
}

func (c *copied) equalAfter(d time.Duration) {
	c.t.Helper()
	time.Sleep(d)
	c.equal()
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

// counts returns how many pages are offered, pending fetch, and forbidden, and the faults of pages.
func (c *copied) counts() (offered, owed, forbidden int, faults []string) {
	c.t.Helper()
	for p := range every(c.t, c.c.Collection.Pages(context.Background())) {
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
	for _, s := range must.Get(c.c.Collection.Sources(0)) {
		if s.Kind == collection.ManifestRDF {
			return s
		}
	}
	return s
}

func TestFollowsASite(t *testing.T) {
	s := serve(t, map[string]string{"": "home", "a.html": "A", "b.html": "B", "d/c.html": "C", "d/": "D"})
	c := s.follow(t, func(m *crawl.Copy) { m.Contact = "https://crawler.example/about" })
	c.equal()
	if got := s.gets(); got != " a.html b.html d/ d/c.html" {
		t.Errorf("the first copy fetched %q", got)
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
		c.equal()
		if got := s.gets(); got != step.gets {
			t.Errorf("requested %q, want %q", got, step.gets)
		}
	}
	// Edits while nobody follows, some of which cancel out.
	c.stop()
	s.edit("n.html", "N2")
	s.edit("", "other")
	s.edit("", "home")
	s.move("moved/a.html", "a.html")
	c.start()
	c.equal()
	if got := s.gets(); got != "n.html" {
		t.Errorf("fetched %q after a restart", got)
	}
	s.with(func() {
		if len(s.agents) != 1 || !s.agents["Parley/0.1 (+https://crawler.example/about)"] {
			t.Errorf("agents %v", s.agents)
		}
	})
	if offered, owed, _, faults := c.counts(); offered != 4 || owed != 0 || len(faults) != 0 {
		t.Errorf("%d pages, %d pending, faults %q", offered, owed, faults)
	}
	if m := c.manifest(); m.Cursor != s.cursor() || m.Door != "changes" {
		t.Errorf("cursor %v, by %s", m.Cursor, m.Door)
	}
}

// Digests that are always wrong cost a bounded number of requests.
func TestWrongDigestsCostBoundedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, pages(30))
		s.lie = true
		c := s.follow(t, func(m *crawl.Copy) { m.Delay = -1 })
		c.equalAfter(10 * time.Minute)
		if n := len(strings.Fields(s.gets())); n < 30 || n > 50 {
			t.Errorf("%d requests for 30 pages", n)
		}
		s.edit("d0/p0.html", "edited")
		c.equalAfter(time.Minute)
		if got := s.gets(); got != "d0/p0.html" {
			t.Errorf("requested %q", got)
		}
		if is, ok := c.c.Collection.Copy(); !ok || !is.Demoted {
			t.Errorf("copy %+v", is)
		}
	})
}

// A site without a journal or digests is polled, with conditional requests.
func TestManifestWithoutCursorIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, map[string]string{"a": "A", "b": "B"})
		s.bare = true
		c := s.follow(t, func(m *crawl.Copy) { m.Poll = time.Hour })
		c.equalAfter(5 * time.Minute)
		s.gets()
		s.with(func() {
			s.pages["c"] = "C"
			delete(s.pages, "a")
		})
		c.equalAfter(70 * time.Minute)
		if got := s.gets(); got != "c" {
			t.Errorf("requested %q", got)
		}
	})
}

// Parts of an archive left by a killed process are removed, but only once the state is locked by this process.
func TestStaleArchivePartsAreRemoved(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	c := s.follow(t, nil)
	c.equal()
	part, page := filepath.Join(c.m.State, "parley-123.part"), filepath.Join(c.m.State, "parley-of-a-person")
	for _, name := range []string{part, page} {
		must.OK(t, os.WriteFile(name, []byte("half of it"), 0o600))
	}
	there := func(name string) bool { _, err := os.Lstat(name); return err == nil }
	if _, err := c.m.Open(); !errors.Is(err, collection.ErrHeld) {
		t.Errorf("second copy with the same state: %v", err)
	}
	if !there(part) {
		t.Error("a download of another process was removed")
	}
	c.stop()
	c.start()
	if there(part) || !there(page) {
		t.Errorf("the stale part: %v; another file: %v", there(part), there(page))
	}
}

// A site whose robots.txt forbids its manifest is not followed, and the reason is reported
// every time.
func TestForbiddenManifestIsReported(t *testing.T) {
	w := newWeb(t, map[string]string{"/robots.txt": "User-agent: parley\nDisallow: /robots.rdf\n"})
	m := crawl.Copy{Base: w.URL, Dir: t.TempDir()}
	for range 2 {
		c, err := m.Open()
		must.OK(t, err)
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "robots.txt forbids "+w.URL+"/robots.rdf") {
			t.Errorf("it ended with %v", err)
		}
		must.OK(t, c.Collection.Close())
	}
	if got := w.requests(); len(got) != 1 || got[0] != "/robots.txt" {
		t.Errorf("it fetched %q", got)
	}
}

// With the real publisher and the real stream (cut, restarted, its
// journal lost) the copy follows, and fetches only changed pages.
func TestFollowsARealSite(t *testing.T) {
	files := map[string]string{"index.html": "home", "a.html": "A", "d/b.html": "B", "d/c.html": "C"}
	s := sitetest.NewSite(t, maps.Clone(files))
	c := newCopy(t, s.Base, func(m *crawl.Copy) { m.NoStream = false })
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
		if got := strings.Join(asked(s), " "); got != step.gets {
			t.Errorf("%s: fetched %q, want %q", step.name, got, step.gets)
		}
	}
	// In the end the copy is on the stream.
	write("a.html", "A3")
	s.Publish()
	c.want(files)
	if by := c.manifest().Door; by != "stream" {
		t.Errorf("change received by %s", by)
	}
}

// copyEnv makes the test binary keep a copy of the site that it names.
const copyEnv = "PARLEY_TEST_COPY"

// An announced digest that is correct is stored once, and forwarded to
// followers of the copy.
func TestEventsOfACopy(t *testing.T) {
	s := serve(t, map[string]string{"a": "A"})
	c := s.follow(t, nil)
	c.equal()
	s.edit("a", "A2")
	c.equal()
	s.move("a", "b")
	c.equal()
	var got []string
	until(t, crawl.EngineOf(c.c), "the copy has three events", func() bool {
		got = nil
		log := c.c.Collection.Log()
		for _, ch := range must.Get(log.Read(t.Context(), protocol.Cursor{Epoch: log.Head().Epoch}, 10)) {
			got = append(got, string(ch.Op)+" "+strings.TrimPrefix(ch.Item.URL, s.base))
		}
		return len(got) >= 3
	})
	if strings.Join(got, ", ") != "create a, update a, move b" {
		t.Errorf("events of the copy: %q", got)
	}
}
