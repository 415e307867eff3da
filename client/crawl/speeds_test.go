package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// A crawler that is ended while it fetches several pages at once, and begins again, waits first.
func TestPagesAtOnceAndRestarts(t *testing.T) {
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 3, Pages: 1, Own: true})
		defer w.Close()
		s, list := w.Add(fakeweb.Honest), ""
		for i := range 30 {
			list += fmt.Sprintf("<a href=/%d>%[1]d</a> ", i)
			s.Put(fmt.Sprintf("/%d", i), fmt.Sprintf("<title>%d</title>", i))
		}
		s.Put("/", list)
		for run := range 4 { // each but the last ends at its eighth request for a page
			ctx, end := context.WithCancel(t.Context())
			left := 8
			s.Handler = func(_ http.ResponseWriter, r *http.Request) bool {
				if left--; left == 0 && run < 3 {
					end()
				}
				return false
			}
			col, err := collection.Open(dir, &collection.Options{Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality.Of})
			if err != nil {
				t.Fatal(err)
			}
			c := crawl.NewEngine(col, &harvest.Harvester{Options: harvest.Options{Agent: "ParleyTest/1", Resolver: w, Dial: w.Dial, Private: true, AtOnce: 4}},
				crawl.Settings{Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality, Once: true, NoManifests: true, NoSitemaps: true, NoFeeds: true, Start: []string{s.Origin + "/"}})
			if err := c.Run(ctx); err != nil {
				t.Fatal(err)
			}
			end()
			if err := col.Close(); err != nil {
				t.Fatal(err)
			}
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
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 3, Pages: 1})
		defer w.Close()
		slow, fast := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		slow.Latency, fast.Latency = 2*time.Second, 200*time.Millisecond
		for _, s := range []*fakeweb.Site{slow, fast} {
			s.Put("/", "<title>"+s.Host+"</title><a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a> <a href=/4>4</a>")
			for _, path := range []string{"/1", "/2", "/3", "/4"} {
				s.Put(path, "<title>"+s.Host+path+"</title>")
			}
		}
		for _, pages := range []int{4, 0} { // until a restart, and to the end
			col, err := collection.Open(dir, &collection.Options{Strategy: frontier.Performance{}, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality.Of})
			if err != nil {
				t.Fatal(err)
			}
			c := crawl.NewEngine(col, &harvest.Harvester{Options: harvest.Options{Agent: "ParleyTest/1", Resolver: w, Dial: w.Dial}},
				crawl.Settings{Strategy: frontier.Performance{}, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality, Once: true, Stop: crawl.Stop{Pages: pages},
					NoManifests: true, NoSitemaps: true, NoFeeds: true, Batch: frontier.BatchOptions{Size: 1}, Start: []string{slow.Origin + "/", fast.Origin + "/"}})
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*fakeweb.Site{slow, fast} {
				if site, _ := col.Site(s.Origin); site.Speed.Response < s.Latency.Seconds() || site.Speed.Response > 1.2*s.Latency.Seconds() {
					t.Errorf("%s: %+v", s.Origin, site.Speed)
				}
			}
			if err := col.Close(); err != nil {
				t.Fatal(err)
			}
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
