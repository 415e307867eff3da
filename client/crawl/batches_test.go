package crawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
)

// Batches are stored as files that a harvester can read: each page is in exactly one (V15).
func TestBatchFiles(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home", "/a", "/b"), "/a": page("a", "/c"), "/b": page("b"), "/c": page("c")})
	c := crawler(t, "", w.URL+"/")
	c.Batches = t.TempDir()
	finish(t, c)
	names, _ := filepath.Glob(filepath.Join(c.Batches, "*"))
	pages := map[string]int{}
	for _, name := range names {
		text := must.Get(os.ReadFile(name))
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, line := range lines[1 : len(lines)-1] {
			var s harvest.SiteBatch
			must.OK(t, json.Unmarshal([]byte(line), &s))
			for _, task := range s.Tasks {
				if task.Page != 0 {
					pages[task.URL]++
				}
			}
		}
	}
	if len(pages) != 4 || pages[w.URL+"/c"] != 1 {
		t.Errorf("%d files have %v", len(names), pages)
	}
}

// A small site goes on while a batch has many pages of a large one: its pages, each of which is named by the one before, are fetched
// about as fast as the wait between requests allows. And the large one gets no second batch until it has few pages left.
func TestSmallSiteBesideALargeOne(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
		var paths []string
		for i := range 400 {
			paths = append(paths, fmt.Sprintf("/%d.html", i))
		}
		w.plain(paths...)
		small := w.quiet()
		small.Put("/", page("home", "/0.html"))
		for i := range 9 {
			small.Put(fmt.Sprintf("/%d.html", i), page(fmt.Sprint(i), fmt.Sprintf("/%d.html", i+1)))
		}
		c, _ := w.open(t, time.Second, crawl.Settings{Once: true, NoFeeds: true})
		c.Batch.SameSite = 100
		finish(t, c)
		log := w.Log()
		after := func(a fakeweb.Access) time.Duration { return a.Begin.Sub(log[0].Begin) }
		for _, a := range log {
			if a.Site == small && a.Path == "/8.html" && after(a) > 40*time.Second {
				t.Errorf("the last page of the small site is fetched after %v", after(a))
			}
		}
		if last := after(log[len(log)-1]); last > 410*time.Second {
			t.Errorf("the last page is fetched after %v", last)
		}
		if n := c.Status().Batches; n > 40 {
			t.Errorf("%d batches", n)
		}
	})
}

// Sites that have asked for a long rest, with pages that wait, take no room of others, however many they are.
func TestRestingSitesTakeNoRoom(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		good := w.quiet() // of which each page names the next one
		for i := range 60 {
			good.Put(fmt.Sprintf("/%d.html", i), page(fmt.Sprint(i), fmt.Sprintf("/%d.html", i+1)))
		}
		good.Put("/", page("home", "/0.html"))
		for range 12 {
			w.plain("/a.html", "/b.html").Handler = func(rw http.ResponseWriter, r *http.Request) bool {
				rests := strings.HasSuffix(r.URL.Path, ".html")
				if rests {
					rw.Header().Set("Retry-After", "86400")
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
				return rests
			}
		}
		c, col := w.open(t, time.Second, crawl.Settings{NoFeeds: true})
		c.Harvester.Options.Sites = 10
		runFor(t, c, time.Hour, nil)
		if site, _ := col.Site(good.Origin); site.Held != 61 {
			t.Errorf("%d pages are stored", site.Held)
		}
	})
}

// An announced page with the content of a stored one is stored at once, though its site has many tasks: it needs no request, unless it is audited.
func TestEqualPageDoesNotWaitForTheBatch(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		s := speaking(w, 400)
		c, col := w.open(t, 15*time.Second, crawl.Settings{NoFeeds: true, Bulk: -1}, archiving)
		c.Batch.SameSite = 200
		stored := 0
		runFor(t, c, time.Hour, func(ctx context.Context) {
			pause.For(ctx, 10*time.Minute)
			from := ""
			for i := range 400 {
				if pageOf(t, col, s.Origin+nth(i)).State == collection.Held {
					from = nth(i)
				}
			}
			for i := range 6 {
				body, _ := s.Body(from)
				path := fmt.Sprintf("/equal%d.html", i)
				s.Put(path, body)
				if pause.For(ctx, 30*time.Second); pageOf(t, col, s.Origin+path).State == collection.Held {
					stored++
				}
			}
		})
		if stored < 4 {
			t.Errorf("%d of 6 equal pages are stored within 30 s", stored)
		}
	})
}
