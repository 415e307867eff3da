package crawl_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// A crawler that is ended while it fetches several pages at once, and begins again, waits first.
func TestPagesAtOnceAndRestarts(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 3, Own: true}, func(t *testing.T, w *bubble) {
		s := numbered(w, 30)
		for run := range 4 { // each but the last ends at its eighth request for a page
			ctx, end := context.WithCancel(t.Context())
			left := 8
			s.Handler = func(_ http.ResponseWriter, r *http.Request) bool {
				if left--; left == 0 && run < 3 {
					end()
				}
				return false
			}
			c, col := w.open(t, 0, crawl.Settings{Once: true, NoManifests: true, NoSitemaps: true, NoFeeds: true})
			c.Harvester.Options.Private, c.Harvester.Options.AtOnce = true, 4
			must.OK(t, c.Run(ctx))
			end()
			must.OK(t, col.Close())
		}
		for _, fault := range w.Impolite(fakeweb.Manners{Gap: harvest.DefaultWait, AtOnce: 4, Robots: true}) {
			t.Error(fault)
		}
		if n := len(w.Log()); n < 31 {
			t.Errorf("%d requests", n)
		}
	})
}

// By pages a second, the pages of the fast site come first as soon as one page of each has been fetched. A crawler that starts again knows
// the speeds from the collection.
func TestFastSiteComesFirst(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 3}, func(t *testing.T, w *bubble) {
		slow, fast := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		slow.Latency, fast.Latency = 2*time.Second, 200*time.Millisecond
		for _, s := range []*fakeweb.Site{slow, fast} {
			s.Put("/", "<title>"+s.Host+"</title><a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a> <a href=/4>4</a>")
			for _, path := range []string{"/1", "/2", "/3", "/4"} {
				s.Put(path, "<title>"+s.Host+path+"</title>")
			}
		}
		for _, pages := range []int{4, 0} { // until a restart, and to the end
			c, col := w.open(t, 0, crawl.Settings{Strategy: frontier.Performance{}, Once: true, Stop: crawl.Stop{Pages: pages},
				NoManifests: true, NoSitemaps: true, NoFeeds: true, Batch: frontier.BatchOptions{Size: 1}})
			finish(t, c)
			for _, s := range []*fakeweb.Site{slow, fast} {
				if site, _ := col.Site(s.Origin); site.Speed.Response < s.Latency.Seconds() || site.Speed.Response > 1.2*s.Latency.Seconds() {
					t.Errorf("%s: %+v", s.Origin, site.Speed)
				}
			}
			must.OK(t, col.Close())
		}
		var order []string
		for _, a := range w.Log() {
			if a.Path != "/robots.txt" {
				order = append(order, strings.TrimSuffix(strings.TrimPrefix(a.Site.Host, "honest"), ".example")+a.Path)
			}
		}
		if want := []string{"1/1", "1/2", "1/3", "1/4", "0/1", "0/2", "0/3", "0/4"}; len(order) != 10 || !slices.Equal(order[2:], want) {
			t.Errorf("after one page of each site the order is %v, want %v", order, want)
		}
	})
}
