package crawl_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// crawlOnePage continues a crawl until one more page has been fetched.
func crawlOnePage(t *testing.T, o *crawl.Options) {
	t.Helper()
	c := openOptions(t, o)
	defer c.Collection.Close()
	c.Memory = frontier.Options{Step: 1}
	finish(t, c)
}

// OPIC fetches the page that has most cash: the start pages have equal parts of it, and a redirect passes it on. Each page is fetched
// by a new run, which knows what the runs before have stored.
func TestRichestPageIsFetchedFirst(t *testing.T) {
	const n, starts = 24, 3
	rng := rand.New(rand.NewPCG(1, 2))
	path := func(i int) string { return fmt.Sprintf("/%c.html", 'a'+i) }
	links, pages := map[string][]string{}, map[string]string{}
	for i := range n {
		var to []string
		for len(to) < 1+rng.IntN(5) {
			if p := path(rng.IntN(n)); p != path(i) && !slices.Contains(to, p) {
				to = append(to, p)
			}
		}
		links[path(i)], pages[path(i)] = to, page(path(i), to...)
	}
	links[path(1)] = []string{path(n - 1)} // a redirect
	w := newWeb(t, pages)
	w.redirect(map[string]string{path(1): path(n - 1)})
	o := ownSite(t)
	for i := range starts {
		o.Start = append(o.Start, w.URL+path(i))
	}
	o.Order.Strategy, o.Scope.TrapShare, o.Stop.Pages = "opic", 1, 1
	o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds = true, true, true
	var fetched []string
	for before := -1; before < len(fetched); {
		before = len(fetched)
		crawlOnePage(t, o)
		fetched = slices.DeleteFunc(w.requests(), func(p string) bool { return links[p] == nil })
	}

	cash, known, done := map[string]float64{}, []string{}, map[string]bool{}
	for i := range starts {
		known = append(known, path(i))
		cash[path(i)] = 1
	}
	for i, p := range fetched {
		best := p
		for _, q := range known {
			if !done[q] && cash[q] > cash[best] {
				best = q
			}
		}
		if !slices.Contains(known, p) || done[p] || math.Abs(cash[best]-cash[p]) > 1e-6 {
			t.Fatalf("page %d was %s with %g, when %s had %g: %s", i, p, cash[p], best, cash[best], strings.Join(fetched, " "))
		}
		for _, q := range links[p] {
			if cash[q] += cash[p] / float64(len(links[p])); !slices.Contains(known, q) {
				known = append(known, q)
			}
		}
		cash[p], done[p] = 0, true
	}
	if len(fetched) < n/2 || len(fetched) != len(known) {
		t.Errorf("%d pages were fetched, of %d known: %s", len(fetched), len(known), strings.Join(fetched, " "))
	}
}
