package crawl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// inLinks runs a test with a site that announces nothing, of pages by path with their links.
func inLinks(t *testing.T, pages map[string][]string, test func(*testing.T, *bubble, *fakeweb.Site)) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) { test(t, w, w.linked(pages)) })
}

func (w *bubble) linked(pages map[string][]string) *fakeweb.Site {
	s := w.quiet()
	for path, links := range pages {
		s.Put(path, page(path, links...))
	}
	return s
}

// fetched crawls, and returns the paths of the pages in the order in which they were fetched.
func (w *bubble) fetched(t *testing.T, pages map[string][]string, set func(o *crawl.Options)) (paths []string) {
	t.Helper()
	w.Forget()
	c := w.opened(t, func(o *crawl.Options) {
		o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds, o.Fetch.WaitBig = true, true, true, 15*time.Second
		set(o)
	})
	finish(t, c)
	must.OK(t, c.Collection.Close())
	for _, a := range w.Log() {
		if _, ok := pages[a.Path]; ok {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

// By Pagerank of the pages known so far, computed after every few pages, a page to which all fetched pages link is soon fetched: with
// batch-pagerank once it is computed, with partial-pagerank as soon as its parents have passed on theirs (L04, L05). It is found last.
func TestPagerankOrders(t *testing.T) {
	pages := map[string][]string{"/": nil, "/hub.html": nil}
	for i := range 24 {
		pages["/"] = append(pages["/"], nth(i))
		pages[nth(i)] = []string{"/hub.html"}
	}
	for _, c := range []struct {
		strategy   string
		every      int
		from, upTo int // its place in the order of fetches
	}{
		{"breadth-first", 0, 25, 25},
		{"batch-pagerank", 1000, 25, 25}, // it has no rank before that
		{"batch-pagerank", 4, 5, 7},
		{"partial-pagerank", 1000, 3, 5},
		{"partial-pagerank", 2, 3, 5},
	} {
		t.Run(fmt.Sprint(c.strategy, c.every), func(t *testing.T) {
			inLinks(t, pages, func(t *testing.T, w *bubble, _ *fakeweb.Site) {
				got := w.fetched(t, pages, func(o *crawl.Options) { o.Order.Strategy, o.Order.RankEvery, o.Order.Batch = c.strategy, c.every, 1 })
				if at := slices.Index(got, "/hub.html"); at < c.from || at > c.upTo || len(got) != len(pages) {
					t.Errorf("it is fetched after %d of %d pages, want %d to %d: %v", at, len(got), c.from, c.upTo, got)
				}
			})
		})
	}
}

// Ranks of an earlier crawl order pages; new ones have 0, one of the ranks, or a share of the rank of their first parent (L09-L11). A crawl
// that was stopped goes on in the same order. Scores count in other orders, too (V01).
func TestHistoryOrders(t *testing.T) {
	pages := map[string][]string{
		"/": {"/a.html", "/b.html", "/c.html", "/d.html", "/e.html"}, "/a.html": {"/f.html"}, "/b.html": nil, "/c.html": {"/g.html", "/h.html"},
		"/d.html": nil, "/e.html": nil, "/f.html": nil, "/g.html": nil, "/h.html": nil,
	}
	ranks := map[string]float64{"/": 5, "/a.html": 3, "/c.html": 6, "/e.html": .5, "/f.html": .1}
	for _, c := range []struct{ strategy, score, want string }{
		{"historical-pagerank-zero", "", "/ c a e f b d g h"},
		{"historical-pagerank-parent", "", "/ c a g h b d e f"}, // g and h have 3, b and d 1
		{"historical-pagerank-random", "", "/ c"},
		{"opic", "", "/ c a"}, // then all that links give counts
		{"profit", "history=1", "/ c a e f b d g h"},
	} {
		t.Run(c.strategy, func(t *testing.T) {
			inLinks(t, pages, func(t *testing.T, w *bubble, s *fakeweb.Site) {
				history, lines := filepath.Join(w.dir, "ranks.txt"), ""
				for path, rank := range ranks {
					lines += fmt.Sprintf("%s %g\n", s.Origin+path, rank)
				}
				must.Write(t, history, lines)
				set := func(o *crawl.Options) {
					o.Order.Strategy, o.Order.Score, o.Order.History, o.Order.Batch = c.strategy, c.score, history, 1
				}
				whole := w.fetched(t, pages, set)
				short := func(paths []string) string {
					return strings.ReplaceAll(strings.ReplaceAll(strings.Join(paths, " "), ".html", ""), " /", " ")
				}
				if got := short(whole); len(whole) != len(pages) || !strings.HasPrefix(got, c.want) {
					t.Errorf("the order is %s, want %s", got, c.want)
				}
				var parts []string
				for len(parts) < len(pages) {
					part := w.fetched(t, pages, func(o *crawl.Options) {
						set(o)
						o.Collection.Into, o.Stop.Pages = filepath.Join(w.dir, "parts"), 2
					})
					if len(part) == 0 || len(part) > 2 {
						t.Fatalf("%v are fetched, want 2 pages", part)
					}
					parts = append(parts, part...)
				}
				if got := short(parts); len(parts) != len(pages) || !strings.HasPrefix(got, c.want) {
					t.Errorf("with restarts the order is %s, want %s", got, c.want)
				}
			})
		})
	}
}

// Pages that were known before are ordered by a history, too: here by that of the crawl itself.
func TestHistoryOfKnownPages(t *testing.T) {
	pages := map[string][]string{"/": {"/a.html", "/b.html", "/c.html"}, "/a.html": {"/c.html"}, "/b.html": {"/c.html"}, "/c.html": {"/"}}
	inLinks(t, pages, func(t *testing.T, w *bubble, _ *fakeweb.Site) {
		if got := w.fetched(t, pages, func(o *crawl.Options) { o.Order.Strategy = "breadth-first" }); len(got) != 4 || got[3] != "/c.html" {
			t.Fatalf("breadth-first: %v", got)
		}
		got := w.fetched(t, pages, func(o *crawl.Options) {
			o.Order.Strategy, o.Order.History, o.Again = "historical-pagerank-zero", w.dir, true
		})
		if want := []string{"/c.html", "/", "/a.html", "/b.html"}; !slices.Equal(got, want) {
			t.Errorf("the second crawl fetches %v, want %v", got, want)
		}
	})
}

// fetchedAgain crawls a Web, and then by a score all its pages again, so late that it hardly matters when they were fetched. A crawl of a second
// in between, which is long enough for the score and too short for pages, has ordered them.
func (w *bubble) fetchedAgain(t *testing.T, pages map[string][]string, score string) []string {
	t.Helper()
	set := func(o *crawl.Options) {
		o.Order.Strategy, o.Order.Score, o.Order.Batch, o.Fetch.InFlight, o.Fetch.MinInFlight = "profit", score, 1, 1, 1
	}
	w.fetched(t, pages, set)
	time.Sleep(300 * 24 * time.Hour)
	w.fetched(t, pages, func(o *crawl.Options) {
		set(o)
		o.Stop.After = time.Second
	})
	return w.fetched(t, pages, set)
}

// Each score by links alone orders the pages that wait, as soon as it is computed (V14).
func TestScoresByLinks(t *testing.T) {
	pages := map[string][]string{
		"/": {"/a.html", "/b.html", "/c.html"}, "/a.html": {"/x.html"}, "/b.html": {"/x.html", "/y.html", "/z.html"}, "/c.html": {"/x.html", "/y.html"},
		"/x.html": nil, "/y.html": nil, "/z.html": nil,
	}
	for score, want := range map[string]string{"static=1": "", "pagerank=1": "x y", "weighted=1": "x y", "authority=1": "x y z", "hub=1": "b c a"} {
		inLinks(t, pages, func(t *testing.T, w *bubble, _ *fakeweb.Site) {
			got := strings.NewReplacer(".html", "", "/", "").Replace(strings.Join(w.fetchedAgain(t, pages, score), " "))
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s: the order is %s, want %s first", score, got, want)
			}
		})
	}
}

// By Siterank the pages of the site to which most sites link come first (V14).
func TestSiterank(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		pages, linked := map[string][]string{}, ""
		for _, site := range []string{"c", "b", "a"} { // a links to b and c, and b to c
			here := map[string][]string{"/": {}}
			for i := range 4 {
				path := fmt.Sprintf("/%s%d.html", site, i)
				here["/"], here[path], pages[path] = append(here["/"], path), []string{"/"}, nil
			}
			here["/"] = append(here["/"], strings.Fields(linked)...)
			linked += w.linked(here).Origin + "/ "
		}
		got := w.fetchedAgain(t, pages, "siterank=1")
		sites := func(a, b string) int { return strings.Compare(b[:2], a[:2]) }
		if len(got) != len(pages) || !slices.IsSortedFunc(got, sites) {
			t.Errorf("the order is %v, want the pages of c, then of b, then of a", got)
		}
	})
}

// A crawl that goes on with the ranks of another history forgets those of the first: a page that the new one lacks has no rank.
func TestAnotherHistory(t *testing.T) {
	pages := map[string][]string{"/": {"/a.html", "/b.html", "/c.html", "/d.html"}, "/a.html": nil, "/b.html": nil, "/c.html": nil, "/d.html": nil}
	inLinks(t, pages, func(t *testing.T, w *bubble, s *fakeweb.Site) {
		fetched := func(lines string, most int) []string {
			history := filepath.Join(w.dir, "ranks.txt")
			must.Write(t, history, strings.ReplaceAll(lines, "/", s.Origin+"/"))
			return w.fetched(t, pages, func(o *crawl.Options) {
				o.Order.Strategy, o.Order.History, o.Order.Batch, o.Stop.Pages = "historical-pagerank-zero", history, 1, most
			})
		}
		if got, want := fetched("/c.html 8\n/b.html 9\n", 2), []string{"/", "/b.html"}; !slices.Equal(got, want) {
			t.Fatalf("by the first history %v are fetched, want %v", got, want)
		}
		if got, want := fetched("/d.html 3\n", 0), []string{"/d.html", "/a.html", "/c.html"}; !slices.Equal(got, want) {
			t.Errorf("by the second history %v are fetched, want %v", got, want)
		}
	})
}

// A site gives as many pages as Round says before the next one; with 0 the largest gives them until it is no larger than the next (L07).
func TestRound(t *testing.T) {
	sizes := []int{8, 3}
	for round, want := range map[int]string{0: "aaaaa", 1: "ababa", 2: "aabba"} {
		inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
			pages, first := map[string][]string{}, ""
			for site, n := range sizes {
				here := map[string][]string{"/": nil}
				for i := range n {
					path := fmt.Sprintf("/%c%d.html", 'a'+site, i)
					here["/"], here[path], pages[path] = append(here["/"], path), nil, nil
				}
				w.linked(here)
			}
			batches := filepath.Join(w.dir, "batches")
			w.fetched(t, pages, func(o *crawl.Options) { o.Stop.Pages = len(sizes) }) // the home pages, so that all links are known
			w.fetched(t, pages, func(o *crawl.Options) {
				o.Order.Strategy, o.Order.Round, o.Order.Batch, o.Order.Batches = "larger-sites-first", round, 5, batches
			})
			names, _ := filepath.Glob(filepath.Join(batches, "*"))
			for _, name := range names { // the first batch of five pages
				text := must.Get(os.ReadFile(name))
				if n := strings.Count(string(text), ".html"); n == 5 && first == "" {
					first = strings.Repeat("a", strings.Count(string(text), "/a")) + strings.Repeat("b", strings.Count(string(text), "/b"))
				}
			}
			sorted := []byte(want)
			if slices.Sort(sorted); first != string(sorted) {
				t.Errorf("round %d: the first five pages are of %q, want %q", round, first, sorted)
			}
		})
	}
}
