package crawl_test

import (
	"context"
	"fmt"
	"net/http"
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
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// Sitemap dates that never change while pages do cannot prevent visits to these
// pages, and are detected; honest dates are recognized as honest.
func TestFrozenSitemapDatesAreDetected(t *testing.T) {
	noRace(t)
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 3, Pages: 12})
		defer w.Close()
		honest, frozen := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		for _, s := range w.Sites() {
			s.Sitemap, s.Speaks, s.Robots = true, false, "User-agent: *\nDisallow: /cgi-bin/\n"
		}
		frozen.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/sitemap.xml" {
				return false
			}
			var b strings.Builder
			b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for i, path := range frozen.Paths() {
				fmt.Fprintf(&b, "<url><loc>%s%s</loc><lastmod>1999-01-%02dT10:00:00Z</lastmod></url>", frozen.Origin, path, 1+i)
			}
			b.WriteString("</urlset>")
			rw.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(rw, b.String())
			return true
		}
		policy := fresh.Thesis{MaxPeriod: 12 * time.Hour, Periods: fresh.Periods{Page: time.Hour}}
		col, err := collection.Open(dir, &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: policy, Quality: crawl.DefaultQuality.Of})
		if err != nil {
			t.Fatal(err)
		}
		defer col.Close()
		c := crawl.NewEngine(col, &harvest.Harvester{Options: harvest.Options{Agent: "ParleyTest/1", From: "test@example.net", Resolver: w, Dial: w.Dial, Wait: 5 * time.Second}}, crawl.Settings{Strategy: frontier.BreadthFirst{}, Policy: policy, Quality: crawl.DefaultQuality, SitemapEvery: time.Hour,
			Start: []string{honest.Origin + "/", frozen.Origin + "/"}})
		const edits, rest = 6 * 24 * time.Hour, 36 * time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), edits+rest)
		defer cancel()
		var beside sync.WaitGroup
		beside.Go(func() {
			for i, began := 0, time.Now(); time.Since(began) < edits && pause.For(ctx, 2*time.Hour); i++ {
				for _, s := range w.Sites() {
					s.Edit(s.Paths()[i%len(s.Paths())])
				}
			}
		})
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		beside.Wait()
		for s, want := range map[*fakeweb.Site]trust.Worth{honest: trust.Good, frozen: trust.Frozen} {
			st, _ := col.Site(s.Origin)
			rec, err := trust.Parse(st.Trust)
			if err != nil {
				t.Fatal(err)
			}
			// An edit between the reading of the sitemap and the visit of the page counts as missed: that is one of ten at most.
			if d := rec.Date("sitemap"); d.Worth() != want && !(want == trust.Good && d.Worth() == trust.Unproved && d.Right > 5 && d.Missed <= 1) {
				t.Errorf("%s, want %v", d, want)
			}
			for _, path := range s.Paths() {
				body, _ := s.Body(path)
				if p, _, err := col.Page(s.Origin + path); err != nil || p.Digest != protocol.Sum([]byte(body)) {
					t.Errorf("%s%s differs from its site: visited %d times, at %v, %v", s.Origin, path, p.Visits, p.Last, err)
				}
			}
			t.Logf("%d requests: %v", st.Requests, rec.Date("sitemap"))
		}
	})
}
