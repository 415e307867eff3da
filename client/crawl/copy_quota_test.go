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
		var items []protocol.Item
		for i := range m.Items {
			u := fmt.Sprintf("%s%d/%05d.html", s.base, n, i)
			items = append(items, protocol.Item{URL: u, Length: 7, Digest: protocol.Sum([]byte(u)), Modified: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)})
		}
		protocol.WriteManifest(w, m, each(items), nil)
	}
}

// A site that never stops naming pages uses a copy's quota, not the disk. The stored pages stay,
// the site is retried now and then, and once it is normal again so is the copy.
func TestEndlessSiteHitsQuota(t *testing.T) {
	noTotals(t)
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, map[string]string{"": "home", "a.html": "A", "b.html": "B"})
		c := s.follow(t, func(m *crawl.Copy) {
			m.Delay, m.MaxPages, m.NoChanges, m.Poll = -1, 3000, true, time.Minute
		})
		c.equalAfter(time.Minute)
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
		if src := c.manifest(); src.Fault != "the site names more than 3000 pages" {
			t.Errorf("the source's fault is %q", src.Fault)
		}
		c.equal()
		s.with(func() { delete(s.odd, "robots.rdf") })
		s.edit("a.html", "edited")
		c.equalAfter(25 * time.Hour)
	})
}
