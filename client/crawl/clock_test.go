package crawl_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/must"
)

// A copy that ran while the clock was ahead continues once the clock is right:
// its site, its sources and its pages are not left alone until that future time.
func TestClockWasAhead(t *testing.T) {
	dir := t.TempDir()
	in := func(m *crawl.Copy) {
		m.Dir, m.State, m.Delay = filepath.Join(dir, "copy"), filepath.Join(dir, "state"), -1
	}
	var before *speaker
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(365 * 24 * time.Hour) // every synctest bubble begins at the same time
		s := pipe(t, map[string]string{"a.html": "A", "b.html": "B"})
		c := s.follow(t, in)
		c.equal()
		s.with(func() {
			s.odd["b.html"] = func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
				http.Error(w, "not now", http.StatusServiceUnavailable)
			}
		})
		s.edit("b.html", "B, other than it was")
		time.Sleep(time.Minute)
		if _, owed, _, faults := c.counts(); owed != 1 || len(faults) != 1 {
			t.Errorf("%d pages are pending, %q", owed, faults)
		}
		c.stop()
		stopped, err := c.m.Open()
		must.OK(t, err)
		for site := range stopped.Collection.Sites() {
			site.Quiet = time.Now().Add(time.Minute) // as after several pages in a row without a response
			_, err = stopped.Collection.Commit(&collection.Commit{Sites: []collection.Site{site}})
		}
		must.OK(t, errors.Join(err, stopped.Collection.Close()))
		before = s
	})
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, before.live())
		s.journal = before.journal
		c := s.follow(t, in)
		c.equal()
		s.edit("a.html", "A once more")
		c.equal()
		s.with(func() {
			if len(s.times["robots.txt"]) == 0 {
				t.Error("robots.txt, which was last fetched at a future time, is not fetched")
			}
		})
	})
}
