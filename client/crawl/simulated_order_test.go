package crawl_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sim/order"
)

// docs is a web of three real docroots.
type docs struct {
	*order.Web
	bodies  map[string]string // by URL
	earlier string            // file of the ranks of an earlier crawl
}

func readDocs(t *testing.T) docs {
	manual := machine.ApacheDoc(t)
	g, files := machine.Web(t, []string{"git.example", "apache.example", "apache-ko.example"},
		[]string{machine.GitDoc(t), filepath.Join(manual, "en"), filepath.Join(manual, "ko")})
	d := docs{Web: order.NewWeb(g), bodies: map[string]string{}}
	for i, file := range files {
		d.bodies[urlOf(g, uint32(i))] = string(must.Get(os.ReadFile(file)))
	}
	return d
}

// rankEvery is after how many pages Pagerank is computed.
const rankEvery = 150

// history gives the web an earlier crawl, of two pages of three, and returns the file of their ranks.
func (d docs) history(t *testing.T) (path string) {
	d.History = nil
	var lines []string
	for p, rank := range d.Ranks {
		if rank *= 1 + float64(p)/1e5; p%3 == 1 { // among equals the page with the lower number is first, and the simulator numbers old pages first
			rank = -1
		} else {
			lines = append(lines, fmt.Sprintln(urlOf(d.Graph, uint32(p)), rank))
		}
		d.History = append(d.History, rank)
	}
	path = filepath.Join(t.TempDir(), "ranks.txt")
	must.Write(t, path, strings.Join(lines, ""))
	return path
}

func urlOf(g *graph.Graph, i uint32) string { return "http://" + g.Hosts[g.Host[i]] + g.Path[i] }

// fetched crawls the docroots with one robot that chooses one page at a time, and returns the pages in the order of the requests. An answer
// takes a second. Step is that of frontier.Options: 0 is what the crawler uses.
func (d docs) fetched(t *testing.T, w *bubble, strategy string, step float32) (pages []uint32) {
	for i, host := range d.Graph.Hosts {
		s := w.AddAt(fakeweb.Honest, host, netip.AddrFrom4([4]byte{20, 0, 0, byte(i)}))
		s.Speaks, s.Sitemap, s.Robots, s.Latency = false, false, "", time.Second
	}
	number := map[string]uint32{}
	c := w.opened(t, func(o *crawl.Options) {
		if strings.HasPrefix(strategy, "historical-") {
			o.Order.History = d.earlier
		} else if strings.HasSuffix(strategy, "-pagerank") {
			o.Order.RankEvery = rankEvery
		}
		o.Order.Strategy, o.Order.Batch, o.Fetch.InFlight, o.Fetch.IdleTimeout = strategy, 1, 1, 0
		o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds = true, true, true
		o.Revisits.Policy, o.Scope.TrapShare, o.Start = "thesis", 1, nil
		for _, p := range d.Starts {
			o.Start = append(o.Start, urlOf(d.Graph, p))
		}
		for p := range uint32(d.Graph.Len()) {
			url := urlOf(d.Graph, p)
			number[url] = p
			w.Site("http://"+d.Graph.Hosts[d.Graph.Host[p]]).Put(d.Graph.Path[p], d.bodies[url])
			o.Scope.Accept = append(o.Scope.Accept, url+"$") // no broken links, no pictures
		}
	})
	c.Memory.Step = step
	finish(t, c)
	for _, a := range w.Log() {
		if p, ok := number[a.Site.Origin+a.Path]; ok { // not robots.txt, nor a page that does not exist
			pages = append(pages, p)
		}
	}
	return pages
}

// A crawl fetches the pages of three real docroots in the order that the simulator predicts on the graph of their links. With one robot that
// chooses one page at a time, two freedoms are left, which the simulator has, too. A page is chosen when the one before has been
// fetched, but before it is committed: so the crawler knows the links of all pages but the last, and if it knows no page to fetch, it waits
// for them. And a page moves in the queue when its cash, or the number of links to it, has more than doubled: unless Step is 1.
func TestOrderIsAsSimulated(t *testing.T) {
	noRace(t)
	t.Parallel()
	d := readDocs(t)
	d.earlier = d.history(t)
	for _, c := range []struct {
		strategy        string
		step, simulated float32
	}{{"breadth-first", 0, 0}, {"larger-sites-first", 0, 0}, {"opic", 0, 2}, {"opic", 1, 1}, {"backlink-count", 0, 2}, {"backlink-count", 1, 1},
		{"partial-pagerank", 1, 1}, {"batch-pagerank", 1, 1}, {"historical-pagerank-parent", 1, 1}, {"historical-pagerank-zero", 0, 2}} {
		t.Run(fmt.Sprint(c.strategy, c.step), func(t *testing.T) {
			simulate := func(r order.Run) []uint32 {
				r.Web, r.Order = d.Web, c.strategy
				pages := must.Get(r.Pages(t.Context()))
				return pages
			}
			want := simulate(order.Run{Ahead: 1, Step: c.simulated, Every: rankEvery})
			inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
				got := d.fetched(t, w, c.strategy, c.step)
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("fetch %d is of %s, and of %s in the simulator", i, urlOf(d.Graph, got[i]), urlOf(d.Graph, want[i]))
					}
				}
				if len(got) != len(want) {
					t.Fatalf("%d pages are fetched, and %d in the simulator", len(got), len(want))
				}
			})
			t.Logf("%d pages; area %.4f, and %.4f if all links were known and counted at once", len(want), d.Score(want).Area, d.Score(simulate(order.Run{})).Area)
		})
	}
}
