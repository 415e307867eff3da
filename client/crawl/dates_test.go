package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
)

// Sitemap dates that never change while pages do cannot prevent visits to these
// pages, and are detected; honest dates are recognized as honest.
func TestFrozenSitemapDatesAreDetected(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 3, Pages: 12}, func(t *testing.T, w *bubble) {
		honest, frozen := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		for _, s := range w.Sites() {
			s.Sitemap, s.Speaks, s.Robots = true, false, "User-agent: *\nDisallow: /cgi-bin/\n"
		}
		frozen.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/sitemap.xml" {
				return false
			}
			rw.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(rw, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for i, path := range frozen.Paths() {
				fmt.Fprintf(rw, "<url><loc>%s%s</loc><lastmod>1999-01-%02dT10:00:00Z</lastmod></url>", frozen.Origin, path, 1+i)
			}
			fmt.Fprint(rw, "</urlset>")
			return true
		}
		policy := fresh.Thesis{MaxPeriod: 12 * time.Hour, Periods: fresh.Periods{Page: time.Hour}}
		c, col := w.open(t, 5*time.Second, crawl.Settings{Policy: policy, SitemapEvery: time.Hour})
		const edits, rest = 6 * aDay, 36 * time.Hour
		runFor(t, c, edits+rest, func(ctx context.Context) {
			for i, began := 0, time.Now(); time.Since(began) < edits && pause.For(ctx, 2*time.Hour); i++ {
				for _, s := range w.Sites() {
					s.Edit(s.Paths()[i%len(s.Paths())])
				}
			}
		})

		for s, want := range map[*fakeweb.Site]trust.Worth{honest: trust.Good, frozen: trust.Frozen} {
			st, _ := col.Site(s.Origin)
			rec := must.Get(trust.Parse(st.Trust))
			// An edit between the reading of the sitemap and the visit of the page counts as missed: that is one of ten at most.
			if d := rec.Date("sitemap"); d.Worth() != want && !(want == trust.Good && d.Worth() == trust.Unproved && d.Right > 5 && d.Missed <= 1) {
				t.Errorf("%s, want %v", d, want)
			}
			for _, path := range s.Paths() {
				if !current(t, col, s, path) {
					t.Errorf("%s%s differs from its site: %+v", s.Origin, path, pageOf(t, col, s.Origin+path))
				}
			}
			t.Logf("%d requests: %v", st.Requests, rec.Date("sitemap"))
		}
	})
}
