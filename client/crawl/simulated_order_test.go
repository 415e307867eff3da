package crawl_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sim/order"
)

// docs is a web of three real docroots.
type docs struct {
	*order.Web
	bodies map[string]string // by URL
}

func readDocs(t *testing.T) docs {
	manual := machine.ApacheDoc(t)
	g, files := machine.Web(t, []string{"git.example", "apache.example", "apache-ko.example"},
		[]string{machine.GitDoc(t), filepath.Join(manual, "en"), filepath.Join(manual, "ko")})
	d := docs{order.NewWeb(g), map[string]string{}}
	for i, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d.bodies[urlOf(g, uint32(i))] = string(body)
	}
	return d
}

func urlOf(g *graph.Graph, i uint32) string { return "http://" + g.Hosts[g.Host[i]] + g.Path[i] }

// fetched crawls the docroots with one robot that chooses one page at a time, and returns the pages in the order of the requests. An answer
// takes a second. Step is that of frontier.Options: 0 is what the crawler uses.
func (d docs) fetched(t *testing.T, strategy string, step float32) (pages []uint32) {
	w := fakeweb.New(fakeweb.Options{Seed: 1, Pages: 1})
	defer w.Close()
	for i, host := range d.Graph.Hosts {
		s := w.AddAt(fakeweb.Honest, host, netip.AddrFrom4([4]byte{20, 0, 0, byte(i)}))
		s.Speaks, s.Sitemap, s.Robots, s.Latency = false, false, "", time.Second
	}
	number := map[string]uint32{}
	c := opened(t, scratch(t), w, func(o *crawl.Options) {
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
	defer c.Collection.Close()
	c.Memory.Step = step
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range w.Log() {
		if p, ok := number[a.Site.Origin+a.Path]; ok { // not robots.txt, nor a page that does not exist
			pages = append(pages, p)
		}
	}
	return pages
}

// A crawl fetches the pages of three real docroots in the order that the simulator predicts on the graph of their links. With one robot that
// chooses one page at a time, one freedom is left: a page is chosen when the one before has been fetched, but before it is committed. So
// the crawler knows the links of all pages but the last; if it knows no page to fetch, it waits for them.
func TestOrderIsAsSimulated(t *testing.T) {
	noRace(t)
	d := readDocs(t)
	for _, name := range []string{"breadth-first", "larger-sites-first", "opic", "backlink-count"} {
		t.Run(name, func(t *testing.T) {
			want, err := order.Run{Web: d.Web, Order: name, Ahead: 1}.Pages(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				got := d.fetched(t, name, 1)
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("fetch %d is of %s, and of %s in the simulator", i, urlOf(d.Graph, got[i]), urlOf(d.Graph, want[i]))
					}
				}
				if len(got) != len(want) {
					t.Fatalf("%d pages are fetched, and %d in the simulator", len(got), len(want))
				}
				exact, err := order.Run{Web: d.Web, Order: name}.Pages(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d pages; area under the curve %.4f, and %.4f if all links are known at once", len(got), d.Score(got).Area, d.Score(exact).Area)
			})
		})
	}
}
