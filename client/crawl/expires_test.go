package crawl_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
)

// Two sites say in Expires when their pages will change. One is right, at each midnight; the pages of the other never change. Visits find
// out which, and that is stored.
func TestExpiresIsJudged(t *testing.T) {
	noRace(t)
	dir := filepath.Join(scratch(t), "crawl")
	synctest.Test(t, func(t *testing.T) {
		w, h := newHosts(t)
		site := func(changes bool) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				day := time.Now().UTC().Truncate(aDay)
				if path := strings.Trim(r.URL.Path, "/"); len(path) > 1 {
					http.NotFound(rw, r)
					return
				}
				rw.Header().Set("Content-Type", "text/html")
				rw.Header().Set("Expires", day.Add(aDay).Format(http.TimeFormat))
				var links []string
				for i := range 10 {
					links = append(links, fmt.Sprint("/", i))
				}
				body := page(r.Host+r.URL.Path, links...)
				if changes {
					body += day.Format(time.DateOnly)
				}
				fmt.Fprint(rw, body)
			})
		}
		w.set("right.test", site(true))
		w.set("wrong.test", site(false))
		revisit := crawl.Revisit{Policy: fresh.Priced{Shortest: time.Hour}, PerPage: 3}
		options := &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: revisit.Policy, Quality: crawl.DefaultQuality.Of}
		col, err := collection.Open(dir, options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { col.Close() }()
		c := crawl.NewEngine(col, &harvest.Harvester{Options: h.Options}, crawl.Settings{Strategy: frontier.BreadthFirst{}, Policy: revisit.Policy,
			Quality: crawl.DefaultQuality, Revisit: &revisit, Start: []string{"http://right.test/", "http://wrong.test/"}})
		runFor(t, c, 6*aDay, nil)
		right, wrong := judgedOf(t, col, "http://right.test"), judgedOf(t, col, "http://wrong.test")
		if right.Right < 30 || right.Wrong > 0 {
			t.Errorf("predictions that come true: %+v", right)
		}
		if wrong.Wrong < 10 {
			t.Errorf("predictions that do not: %+v", wrong)
		}
		if s := c.Status().Predictions; s.Right != right.Right+wrong.Right || s.Wrong != wrong.Wrong {
			t.Errorf("the status has %+v, the sites have %+v and %+v", s, right, wrong)
		}
		if err := col.Close(); err != nil {
			t.Fatal(err)
		}
		if col, err = collection.Open(dir, options); err != nil {
			t.Fatal(err)
		}
		if p, _, err := col.Page("http://right.test/3"); judgedOf(t, col, "http://right.test") != right || err != nil || p.Heard.Expires.Before(p.Last) {
			t.Errorf("after a restart: %+v; a page expires %v, %v", judgedOf(t, col, "http://right.test"), p.Heard.Expires, err)
		}
	})
}

func judgedOf(t *testing.T, col *collection.Collection, origin string) fresh.Predictions {
	t.Helper()
	s, ok := col.Site(origin)
	if !ok || s.Belief == nil {
		t.Fatalf("nothing is known of %s", origin)
	}
	return s.Belief.Predictions
}
