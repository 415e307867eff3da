package crawl_test

import (
	"cmp"
	"context"
	"iter"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// openIn opens a collection in a directory, and a crawler of it. Without a strategy it is breadth first, without a quality the default; the policy
// is that of Revisit, and without that fresh.Thesis. Set changes the options of the collection.
func openIn(dir string, h harvest.Options, s crawl.Settings, set ...func(*collection.Options)) (*crawl.Engine, error) {
	if s.Revisit != nil {
		s.Policy = s.Revisit.Policy
	} else if s.Policy == nil {
		s.Policy = fresh.Thesis{}
	}
	s.Strategy, s.Quality = cmp.Or[frontier.Strategy](s.Strategy, frontier.BreadthFirst{}), cmp.Or(s.Quality, crawl.DefaultQuality)
	o := &collection.Options{Strategy: s.Strategy, Policy: s.Policy, Quality: s.Quality.Of}
	for _, f := range set {
		f(o)
	}
	col, err := collection.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return crawl.NewEngine(col, &harvest.Harvester{Options: h}, s), nil
}

func archiving(o *collection.Options) { o.Contents = collection.WARC }

// open is openIn, and closes the collection when the test ends, unless the test does before.
func open(t testing.TB, dir string, h harvest.Options, s crawl.Settings, set ...func(*collection.Options)) *crawl.Engine {
	t.Helper()
	c, err := openIn(dir, h, s, set...)
	must.OK(t, err)
	t.Cleanup(func() { c.Collection.Close() })
	return c
}

// quick are the settings for sites on this machine: there are no waits.
func quick() harvest.Options {
	return harvest.Options{Wait: -1, Slow: -1, Private: true, Agent: "parley-test/1"}
}

// crawler opens a crawl of sites on this machine, which ends when nothing is left to fetch and stores the pages. If dir is empty, it is in a new
// directory.
func crawler(t testing.TB, dir string, start ...string) *crawl.Engine {
	t.Helper()
	return open(t, cmp.Or(dir, t.TempDir()), quick(), crawl.Settings{Start: start, Once: true}, archiving)
}

// crawled crawls such sites into a new directory.
func crawled(t testing.TB, start ...string) *collection.Collection {
	t.Helper()
	c := crawler(t, "", start...)
	finish(t, c)
	return c.Collection
}

// A bubble is a virtual Web in a synctest bubble, with a directory for the crawl of it.
type bubble struct {
	*fakeweb.Web
	dir string
}

// inBubble runs a test with a virtual Web. Its sites have one page, unless o says otherwise.
func inBubble(t *testing.T, o fakeweb.Options, test func(*testing.T, *bubble)) {
	t.Helper()
	dir := scratch(t)
	o.Pages = cmp.Or(o.Pages, 1)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(o)
		t.Cleanup(w.Close)
		test(t, &bubble{w, dir})
	})
}

// quiet adds a site that publishes no changes, and answers at once.
func (w *bubble) quiet() *fakeweb.Site {
	s := w.Add(fakeweb.Honest)
	s.Speaks, s.Sitemap, s.Latency = false, false, 0
	return s
}

// plain adds such a site with a home page that links to these pages.
func (w *bubble) plain(paths ...string) *fakeweb.Site {
	s := w.quiet()
	s.Put("/", page("home", paths...))
	for _, path := range paths {
		s.Put(path, page(path))
	}
	return s
}

// starts returns the home pages of all sites.
func (w *bubble) starts() (urls []string) {
	for _, s := range w.Sites() {
		urls = append(urls, s.Origin+"/")
	}
	return urls
}

// open opens a crawl of all sites, or of those that s begins with, with this wait between two requests to a site; 0 is the default.
func (w *bubble) open(t *testing.T, wait time.Duration, s crawl.Settings, set ...func(*collection.Options)) (*crawl.Engine, *collection.Collection) {
	t.Helper()
	if s.Start == nil {
		s.Start = w.starts()
	}
	c := open(t, w.dir, harvest.Options{Agent: "ParleyTest/1", From: "test@example.net", Resolver: w, Dial: w.Dial, Wait: wait}, s, set...)
	return c, c.Collection
}

// paid opens a crawl with a visit budget.
func (w *bubble) paid(t *testing.T, revisit crawl.Revisit) (*crawl.Engine, *collection.Collection) {
	t.Helper()
	return w.open(t, 5*time.Second, crawl.Settings{Revisit: &revisit, NoFeeds: true})
}

// opened opens a crawl that ends, with the default options but for those that set changes.
func (w *bubble) opened(t *testing.T, set func(o *crawl.Options)) *crawl.Engine {
	t.Helper()
	o := crawl.DefaultOptions()
	o.Once, o.Collection.Into, o.Collection.Store, o.Fetch.Contact, o.Start = true, w.dir, "none", "test@example.net", w.starts()
	if set != nil {
		set(&o)
	}
	c := openOptions(t, &o)
	c.Harvester.Options.Resolver, c.Harvester.Options.Dial = w, w.Dial
	return c
}

// ownSite returns the options of a crawl of a site on this machine.
func ownSite(t *testing.T, start ...string) *crawl.Options {
	o := crawl.DefaultOptions()
	o.Start, o.Once, o.Collection.Into = start, true, filepath.Join(t.TempDir(), "crawl")
	o.Fetch.AllowPrivate, o.Fetch.Wait = true, 0
	return &o
}

// openOptions opens the crawl of some options until the test ends.
func openOptions(t *testing.T, o *crawl.Options) *crawl.Engine {
	t.Helper()
	c, err := o.Open(t.Context())
	must.OK(t, err)
	t.Cleanup(func() { c.Collection.Close() })
	return crawl.EngineOf(c)
}

// copyOf opens a copy of a site in a new directory.
func copyOf(t *testing.T, base string) *crawl.Engine {
	t.Helper()
	o := crawl.Copy{Base: base, Dir: t.TempDir()}
	c, err := o.Open()
	must.OK(t, err)
	t.Cleanup(func() { c.Collection.Close() })
	return crawl.EngineOf(c)
}

// finish runs a crawl until it ends.
func finish(t testing.TB, c *crawl.Engine) {
	t.Helper()
	must.OK(t, c.Run(t.Context()))
}

// runFor crawls for a time, with a function that runs meanwhile.
func runFor(t *testing.T, c *crawl.Engine, d time.Duration, beside func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var work sync.WaitGroup
	if beside != nil {
		work.Go(func() { beside(ctx) })
	}
	must.OK(t, c.Run(ctx))
	work.Wait()
}

// begin runs a crawl until the test ends, or end is called.
func begin(t *testing.T, c *crawl.Engine) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the crawl does not end")
		}
	})
	t.Cleanup(end)
	return end
}

// until waits until cond holds, for a minute at most.
func until(t *testing.T, c *crawl.Engine, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s: %+v", what, c.Status())
		}
	}
}

// pageOf returns what is stored of a page, the zero value if it is unknown.
func pageOf(t testing.TB, col *collection.Collection, url string) collection.Page {
	t.Helper()
	p, ok, err := col.Page(url)
	must.OK(t, err)
	if !ok {
		return collection.Page{}
	}
	return p
}

// current returns whether the stored copy of a page is what its site serves.
func current(t testing.TB, col *collection.Collection, s *fakeweb.Site, path string) bool {
	t.Helper()
	body, _ := s.Body(path)
	return pageOf(t, col, s.Origin+path).Digest == protocol.Sum([]byte(body))
}

// every yields the values of a sequence that has no errors.
func every[T any](t testing.TB, list iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		t.Helper()
		for v, err := range list {
			must.OK(t, err)
			if !yield(v) {
				return
			}
		}
	}
}
