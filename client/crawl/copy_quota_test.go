package crawl_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/protocol"
)

// endless is the manifest of a site that names more pages than any copy accepts, different ones each time.
func endless(s *speaker, asked *int) func(http.ResponseWriter, *http.Request, http.HandlerFunc) {
	return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		s.mu.Lock()
		*asked++
		n := *asked
		s.mu.Unlock()
		w.Header().Set("Content-Type", protocol.ManifestType)
		m := protocol.Manifest{URL: s.base + "robots.rdf", Base: s.base, Cursor: protocol.Cursor{Epoch: "other", Seq: 1}, Items: 10_000, Complete: true}
		protocol.WriteManifest(w, m, func(yield func(protocol.Item, error) bool) {
			for i := range m.Items {
				u := fmt.Sprintf("%s%d/%05d.html", s.base, n, i)
				if !yield(protocol.Item{URL: u, Length: 7, Digest: protocol.Sum([]byte(u)), Modified: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}, nil) {
					return
				}
			}
		}, nil)
	}
}

// A site that never stops naming pages uses a copy's quota, not the disk. The stored pages stay,
// the site is retried now and then, and once it is normal again so is the copy.
func TestEndlessSiteHitsQuota(t *testing.T) {
	noTotals(t)
	synctest.Test(t, func(t *testing.T) {
		s, web := pipe(t, map[string]string{"": "home", "a.html": "A", "b.html": "B"})
		c := newCopy(t, s, func(m *crawl.Copy) {
			m.Harvester, m.Delay, m.MaxPages, m.NoChanges, m.Poll = web, -1, 3000, true, time.Minute
		})
		c.start()
		time.Sleep(time.Minute)
		c.want(s.live())
		asked := 0
		s.with(func() { s.odd["robots.rdf"] = endless(s, &asked) })
		time.Sleep(25 * time.Hour)
		s.with(func() {
			if asked < 3 || asked > 10 {
				t.Errorf("the manifest was fetched %d times in a day", asked)
			}
		})
		if offered, _, _, _ := c.counts(); offered != 3 {
			t.Errorf("%d pages are offered, want the 3 of the last complete manifest", offered)
		}
		if n := c.c.Collection.Len(); n > asked*4000 {
			t.Errorf("%d pages are known after %d fetches of the manifest", n, asked)
		}
		site := protocol.Origin(s.base)
		is, _ := c.c.Collection.Site(site)
		list, err := c.c.Collection.Sources(is.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range list {
			if src.URL == s.base+"robots.rdf" && src.Fault != "the site names more than 3000 pages" {
				t.Errorf("the source's fault is %q", src.Fault)
			}
		}
		c.want(s.live())
		s.with(func() { delete(s.odd, "robots.rdf") })
		s.edit("a.html", "edited")
		time.Sleep(25 * time.Hour)
		c.want(s.live())
		c.stop()
	})
}
