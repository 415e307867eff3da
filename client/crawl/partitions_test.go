package crawl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/protocol"
)

// Three crawlers share a crawl of sites that each link to the next one, and are told of the first site only. They are stopped at some moment
// and started again. Then there is a fourth, which gets its sites from the others. Each page is fetched by the crawler of its partition, none is
// missed, and no host gets requests faster than from one crawler. (V29)
func TestCrawlersOfPartitions(t *testing.T) {
	noRace(t)
	t.Parallel()
	const sites = 30
	inBubble(t, fakeweb.Options{Seed: 7, Share: 3}, func(t *testing.T, w *bubble) {
		for i := range sites {
			w.quiet().Speaks = i%3 == 0
		}
		all := w.Sites()
		for i, s := range all {
			s.Put("/", page("home", "/a.html", all[0].Origin+"/", all[(i+1)%sites].Origin+"/"))
			s.Put("/a.html", page("a", "/", all[(i+1)%sites].Origin+"/b.html"))
			s.Put("/b.html", page("b"))
		}
		run := func(of int, d time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			var running sync.WaitGroup
			for i := 1; i <= of; i++ {
				c := w.opened(t, func(o *crawl.Options) {
					o.Collection.Into, o.Fetch.Agent = filepath.Join(w.dir, fmt.Sprint("crawl", i)), fmt.Sprintf("Crawler%d/1", i)
					o.Once, o.Start, o.Scope.Domain = false, []string{all[0].Origin + "/"}, []string{"example"}
					o.Scope.Partition, o.Scope.Exchange = fmt.Sprintf("%d/%d", i, of), filepath.Join(w.dir, "exchange")
				})
				running.Go(func() {
					if err := c.Run(ctx); err != nil {
						t.Error(err)
					}
					c.Collection.Close()
				})
			}
			running.Wait()
			time.Sleep(harvest.DefaultWait) // starting again takes as long
		}
		// fetched returns how many pages were fetched, and checks who did it.
		fetched := func(of int) int {
			t.Helper()
			pages := map[string]bool{}
			for _, a := range w.Log() {
				owner := partition.Partition{Of: of}.Foreign(a.Site.Origin)
				if !strings.HasPrefix(a.Agent, fmt.Sprintf("Crawler%d/1 ", owner)) {
					t.Errorf("%v: by %s, want that of partition %d", a, a.Agent, owner)
				}
				if strings.HasSuffix(a.Path, "/") || strings.HasSuffix(a.Path, ".html") {
					pages[a.Site.Origin+a.Path] = true
				}
			}
			return len(pages)
		}
		run(3, 7*time.Minute) // in the midst of it
		some := fetched(3)
		run(3, 3*time.Hour)
		if n := fetched(3); n != 3*sites || some == 0 || some == n {
			t.Errorf("%d pages fetched in all, want %d; %d of them before the crawlers were stopped", n, 3*sites, some)
		}
		for _, fault := range w.Impolite(fakeweb.Manners{Gap: harvest.DefaultWait, Robots: true}) {
			t.Error(fault)
		}
		w.Forget()
		run(4, 3*time.Hour)
		fetched(4)
		for i := 1; i <= 4; i++ {
			if files, err := os.ReadDir(filepath.Join(w.dir, "exchange", fmt.Sprint(i))); err != nil || len(files) > 0 {
				t.Errorf("URLs for partition %d are left: %v, %v", i, files, err)
			}
			c := crawler(t, filepath.Join(w.dir, fmt.Sprint("crawl", i)))
			held := map[string]int{}
			for p, err := range c.Collection.Pages(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if p.State == collection.Held {
					held[protocol.Origin(p.URL)]++
				}
			}
			for _, s := range all {
				want := 0
				if (partition.Partition{Number: i, Of: 4}).Foreign(s.Origin) == 0 {
					want = 3
				}
				if held[s.Origin] != want {
					t.Errorf("of 4 crawlers, %d has %d pages of %s, want %d", i, held[s.Origin], s.Origin, want)
				}
			}
		}
	})
}
