package crawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/must"
)

// Two sites say in Expires when their pages will change. One is right, at each midnight; the pages of the other never change. Visits find
// out which, and that is stored.
func TestExpiresIsJudged(t *testing.T) {
	noRace(t)
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := newHosts(t)
		site := func(changes bool) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				day := time.Now().UTC().Truncate(aDay)
				if path := strings.Trim(r.URL.Path, "/"); len(path) > 1 {
					http.NotFound(rw, r)
					return
				}
				rw.Header().Set("Expires", day.Add(aDay).Format(http.TimeFormat))
				var links []string
				for i := range 10 {
					links = append(links, fmt.Sprint("/", i))
				}
				body := page(r.Host+r.URL.Path, links...)
				if changes {
					body += day.Format(time.DateOnly)
				}
				html(rw, body)
			})
		}
		w.set("right.test", site(true))
		w.set("wrong.test", site(false))
		revisit := crawl.Revisit{Policy: fresh.Priced{Shortest: time.Hour}, PerPage: 3}
		settings := crawl.Settings{Revisit: &revisit, Start: []string{"http://right.test/", "http://wrong.test/"}}
		c := open(t, dir, w.web.Options, settings)
		col := c.Collection
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
		must.OK(t, col.Close())
		col = open(t, dir, w.web.Options, settings).Collection
		if p := pageOf(t, col, "http://right.test/3"); judgedOf(t, col, "http://right.test") != right || p.Heard.Expires.Before(p.Last) {
			t.Errorf("after a restart: %+v; a page expires %v", judgedOf(t, col, "http://right.test"), p.Heard.Expires)
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
