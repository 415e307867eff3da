package crawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
)

// Requests for a manifest and for changes that wait long for their turn are sent: the wait is no fault of the site.
func TestManifestOfSlowlyAskedSite(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 1, Pages: 5}, func(t *testing.T, w *bubble) {
		s := w.Add(fakeweb.Honest)
		s.Speaks, s.Sitemap, s.Robots = true, false, "User-agent: *\nCrawl-delay: 100\n"
		c, col := w.open(t, time.Second, crawl.Settings{Once: true, NoFeeds: true})
		finish(t, c)
		var faults []string
		for _, src := range must.Get(col.Sources(0)) {
			if src.Fault != "" {
				faults = append(faults, src.URL+": "+src.Fault)
			}
		}
		requests, manifests := w.Log(), 0
		for _, a := range requests {
			if a.Path == "/robots.rdf" {
				manifests++
			}
		}
		if site, _ := col.Site(s.Origin); len(faults) > 0 || manifests != 1 || site.Held < 4 || int(c.Status().Requests) != len(requests) {
			t.Errorf("%d pages with %d requests of %d counted, of which %d for the manifest; %q", site.Held, len(requests), c.Status().Requests, manifests, faults)
		}
	})
}

// A wildRun is one crawl of a wild Web, with random flags.
type wildRun struct {
	name     string
	strategy frontier.Strategy
	once     bool
	lasts    time.Duration
	set      func(*crawl.Engine, *collection.Options)
	share    int
	own      bool // the sites are one's own
}

const (
	wildPerSite = 300       // MaxPerSite
	wildMemory  = 512 << 20 // of the whole process, with the Web in it
)

// noRace skips a test under the race detector, which crashes internally
// in bubbles of thousands of goroutines. TestRealSockets covers the same engine under it.
func noRace(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector does not bear large bubbles")
	}
}

// noTotals skips a long test of what a crawl fetches in all under -short, and so under the race detector: the same
// goroutines run there in shorter tests.
func noTotals(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test of totals")
	}
}

// With any strategy, sources and flags, and whatever sites do: none gets two
// requests at once or too soon, or a request that its robots.txt forbids; traps are cut off;
// memory is bounded; and a crawl that has ended leaves nothing open.
func TestPolitenessOfAllRequests(t *testing.T) {
	noRace(t)
	runs := []wildRun{
		{name: "breadth first, once", strategy: frontier.BreadthFirst{}, once: true, lasts: 7 * 24 * time.Hour},
		{name: "larger sites, by address", strategy: frontier.LargerSites{}, lasts: 8 * time.Hour, share: 3, set: func(c *crawl.Engine, o *collection.Options) {
			c.Harvester.Options.Wait = 5 * time.Second
		}},
		{name: "OPIC, few at once", strategy: frontier.OPIC{}, lasts: 8 * time.Hour, set: func(c *crawl.Engine, o *collection.Options) {
			c.Harvester.Options.Sites, c.Harvester.Options.Overbook = 20, true
			c.RobotsEvery = time.Hour
		}},
		{name: "manifest first", strategy: frontier.ManifestFirst{}, lasts: 8 * time.Hour, set: func(c *crawl.Engine, o *collection.Options) {
			c.RobotsEvery, c.SitemapEvery, c.FeedEvery = 3*time.Hour, 2*time.Hour, 30*time.Minute
			c.Harvester.Options.Slow = -1
			o.Contents = 0
		}},
		{name: "random, not parsed", strategy: frontier.Random(7), lasts: 8 * time.Hour, set: func(c *crawl.Engine, o *collection.Options) {
			c.NoParse = true
			c.Harvester.Options.Wait, c.Harvester.Options.WaitBig, c.Harvester.Options.Range = 20*time.Second, 2*time.Second, true
		}},
		{name: "profit, no sources", strategy: frontier.Profit{}, lasts: 8 * time.Hour, set: func(c *crawl.Engine, o *collection.Options) {
			c.NoManifests, c.NoSitemaps, c.NoFeeds = true, true, true
			c.Batch = frontier.BatchOptions{Size: 200, SameSite: 3}
			c.Harvester.Options.PerConn, o.NoLinks = 1, true
			c.RobotsEvery = 2 * time.Hour
		}},
	}
	runs = append(runs, wildRun{name: "own sites by quality a second, four pages at once", strategy: frontier.CrawlAbility{}, own: true, lasts: 8 * time.Hour, share: 2, set: func(c *crawl.Engine, o *collection.Options) {
		c.Harvester.Options.AtOnce = 4
	}})
	sites, seed := fromEnv("PARLEY_SITES", 25), uint64(fromEnv("PARLEY_SEED", 1))
	runs = append(runs, drawn(seed))
	for _, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			dir, began := scratch(t), time.Now()
			synctest.Test(t, func(t *testing.T) { run.crawl(t, dir, sites, seed) })
			t.Logf("took %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// drawn is a run with random settings.
func drawn(seed uint64) wildRun {
	r := rand.New(rand.NewPCG(seed, 5))
	strategies := []frontier.Strategy{frontier.BreadthFirst{}, frontier.LargerSites{}, frontier.OPIC{}, frontier.ManifestFirst{}, frontier.Random(3), frontier.Profit{}, frontier.BacklinkCount{}, frontier.Performance{}}
	for _, name := range []string{"batch-pagerank", "partial-pagerank"} {
		s, _ := frontier.Named(name, 0)
		strategies = append(strategies, s)
	}
	coin := func() bool { return r.IntN(2) == 0 }
	seconds := func(n int) time.Duration { return time.Duration(1+r.IntN(n)) * time.Second }
	run := wildRun{name: "drawn", strategy: strategies[r.IntN(len(strategies))], once: r.IntN(4) == 0, share: 1 + r.IntN(3), lasts: 8 * time.Hour, own: r.IntN(2) == 0}
	if run.once {
		run.lasts = 7 * 24 * time.Hour
	}
	run.set = func(c *crawl.Engine, o *collection.Options) {
		h := c.Harvester
		h.Options.Wait, h.Options.WaitBig, h.Options.Sites, h.Options.MinSites, h.Options.PerConn = seconds(30), seconds(10), 1+r.IntN(300), r.IntN(30), 1+r.IntN(100)
		h.Options.Overbook, h.Options.Range, h.Options.AtOnce = coin(), coin(), 1+r.IntN(5)
		if coin() {
			h.Options.Slow = -1
		}
		c.Gatherer.Text, c.Gatherer.Embedded = coin(), coin()
		c.NoManifests, c.NoSitemaps, c.NoFeeds, c.NoStreams = coin(), coin(), coin(), coin()
		c.RobotsEvery, c.SitemapEvery, c.FeedEvery = 600*seconds(100), 600*seconds(100), 60*seconds(100)
		c.Batch = frontier.BatchOptions{Size: 1 + r.IntN(5000), SameSite: 1 + r.IntN(500), Round: r.IntN(11) - 1}
		c.Memory, c.RankEvery = frontier.Options{Memory: 100 + r.IntN(10000)}, 1+r.IntN(500)
		_, needsLinks := run.strategy.(frontier.Sharer)
		o.NoLinks = coin() && !needsLinks
		o.Contents = collection.Contents(r.IntN(3))
	}
	return run
}

func (run *wildRun) crawl(t *testing.T, dir string, sites int, number uint64) {
	w := newWild(sites, number, run.share, run.own)
	defer w.Close()
	o := &collection.Options{Strategy: run.strategy, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality.Of, Contents: collection.WARC}
	c := crawl.NewEngine(nil, &harvest.Harvester{Options: harvest.Options{Agent: "ParleyTest/1 (+https://example.net/)", From: "test@example.net", Resolver: w, Dial: w.Dial, Memory: 32 << 20, Private: run.own}}, crawl.Settings{Strategy: run.strategy, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality, Once: run.once,
		Seeder: &seed.Seeder{Rules: seed.Rules{MaxPerSite: wildPerSite}}})
	c.ManifestEvery = time.Hour
	if run.set != nil {
		run.set(c, o)
	}
	col, err := collection.Open(dir, o)
	must.OK(t, err)
	defer col.Close()
	c.Collection = col
	c.Start = (&bubble{Web: w.Web}).starts()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), run.lasts)
	defer cancel()
	var noise sync.WaitGroup
	noise.Go(func() { w.disturb(ctx, c) })
	peak := uint64(0)
	noise.Go(func() { peak = peakMemory(ctx, func() {}) })
	must.OK(t, c.Run(ctx))
	ended := ctx.Err() == nil
	cancel()
	noise.Wait()
	if run.once && !ended {
		t.Errorf("the crawl has not ended after %v", time.Since(began))
	}

	m := manners{wait: c.Harvester.Options.Wait, big: c.Harvester.Options.WaitBig, slow: c.Harvester.Options.Slow >= 0, atOnce: c.Harvester.Options.AtOnce,
		pages: func(s *fakeweb.Site) int {
			st, _ := col.Site(s.Origin)
			return st.Pages
		}}
	if m.wait == 0 {
		m.wait = harvest.DefaultWait
	}
	if m.big == 0 {
		m.big = harvest.DefaultWaitBig
	}
	for _, f := range w.faults(m) {
		t.Error(f)
	}
	if run.own && run.name != "drawn" && w.most != m.atOnce { // more are a fault
		t.Errorf("at most %d requests came without a gap, want %d", w.most, m.atOnce)
	}
	for s := range col.Sites() {
		if s.Pages > wildPerSite+2000 { // plus the pages of one transaction and one step
			t.Errorf("%s has %d pages", s.Origin, s.Pages)
		}
	}
	if col.Len() > sites*wildPerSite/2 {
		t.Errorf("%d pages are known of %d sites", col.Len(), sites)
	}
	if peak > wildMemory {
		t.Errorf("%d MB of memory", peak>>20)
	}
	if run.once && ended {
		w.complete(t, col)
	}
	time.Sleep(5 * time.Second) // a site that closes late
	if w.Open() > 0 {
		t.Errorf("%d connection ends are open", w.Open())
	}
	t.Logf("%d accesses in %v, %d pages, %d MB: %+v", len(w.Log()), time.Since(began), col.Len(), peak>>20, c.Status())
}

// peakMemory returns the most memory that was in use at a full hour, until ctx ends, and calls a function each time.
func peakMemory(ctx context.Context, hourly func()) (peak uint64) {
	for pause.For(ctx, time.Hour) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
		hourly()
	}
	return peak
}

// many adds pages to a site, which its home page links to. Each has more, by its number.
func many(s *fakeweb.Site, pages int, more func(i int) string) {
	links := make([]string, pages)
	for i := range links {
		links[i] = fmt.Sprintf("/many/%d.html", i)
		s.Put(links[i], fmt.Sprintf("<title>%s %d</title>%s", s.Host, i, more(i)))
	}
	s.Put("/", page("All", links...))
}

// Pages that robots.txt comes to forbid are not fetched any more, however many
// pages of the site are queued, and however slowly they are fetched.
func TestNewRobotsRulesOfLargeSite(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 3, Sites: 20, Kinds: []fakeweb.Kind{fakeweb.Honest}, Pages: 12}, func(t *testing.T, w *bubble) {
		large, slow := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		began := time.Now()
		for _, s := range []*fakeweb.Site{large, slow} {
			many(s, 3000, func(int) string { return "" })
			s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/robots.txt" {
					return false
				}
				fmt.Fprint(rw, "User-agent: *\nDisallow: /cgi-bin/\n")
				if s == slow {
					fmt.Fprint(rw, "Crawl-delay: 120\n")
				}
				if time.Since(began) > 4*time.Hour {
					fmt.Fprint(rw, "Disallow: /many/\n")
				}
				return true
			}
		}
		c, _ := w.open(t, 0, crawl.Settings{RobotsEvery: time.Hour})
		c.Harvester.Options.WaitBig = time.Hour
		runFor(t, c, aDay, nil)
		asked := map[*fakeweb.Site]int{}
		for _, a := range w.Log() {
			if !strings.HasPrefix(a.Path, "/many/") {
				continue
			}
			asked[a.Site]++
			if late := a.Begin.Sub(began); late > 9*time.Hour {
				t.Fatalf("%v after %v", a, late)
			}
		}
		if asked[large] < 500 || asked[slow] < 50 {
			t.Errorf("fetched of %s %d pages, of %s %d", large.Host, asked[large], slow.Host, asked[slow])
		}
	})
}

// A site that is found while another is busy for hours does not wait for it.
func TestNewSiteDoesNotWaitForLargeOne(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 3, Pages: 6}, func(t *testing.T, w *bubble) {
		large, late := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		many(large, 400, func(i int) string {
			if i == 50 {
				return page("there", late.Origin+"/")
			}
			return ""
		})
		c, _ := w.open(t, 0, crawl.Settings{Start: []string{large.Origin + "/"}})
		runFor(t, c, time.Hour, nil)
		var found time.Time
		asked := map[string]bool{}
		for _, a := range w.Log() {
			if a.Path == "/many/50.html" {
				found = a.End
			}
			if a.Site == late && a.Begin.Sub(found) < 10*time.Minute {
				asked[a.Path] = true
			}
		}
		for _, path := range late.Paths() {
			if !asked[path] {
				t.Errorf("%s%s has waited", late.Origin, path)
			}
		}
	})
}
