package census_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

func document(title string) string {
	return "<!doctype html><title>" + title + "</title><p>" + strings.Repeat("This is about "+title+". ", 20)
}

// follow crawls a site until it is up to date, and returns what the crawler counted.
func follow(t *testing.T, dir string, s *sitetest.Site) crawl.Status {
	t.Helper()
	o := crawl.DefaultOptions()
	o.Once, o.Collection.Into, o.Fetch.Contact, o.Start = true, dir, "test@example.net", []string{s.Base}
	o.Fetch.AllowPrivate = true
	c := must.Get(o.Open(t.Context()))
	h := &c.Harvester.Options
	h.Wait, h.Slow = -1, -1
	must.OK(t, c.Run(t.Context()))
	must.OK(t, c.Collection.Close())
	return c.Status()
}

// What the cooperation of a site has saved is no more than the site's own log proves: of the visits that brought content, those without a
// request to the site for that page. How pages came is as the crawler counted while they did.
func TestSavedByCooperation(t *testing.T) {
	files := map[string]string{"index.html": document("home"), "c.html": document("what will be gone")}
	for i := range 40 {
		files[fmt.Sprintf("a/p%02d.html", i)] = document(fmt.Sprint("page ", i))
		files[fmt.Sprintf("b/p%02d.html", i)] = document(fmt.Sprint("page ", i)) // equal to the one in a/
	}
	s := sitetest.NewSite(t, files)
	dir := filepath.Join(t.TempDir(), "crawl")
	first := follow(t, dir, s)
	for i := range 10 {
		s.Write(fmt.Sprintf("a/p%02d.html", i), document(fmt.Sprint("an edit of page ", i)))
	}
	s.Remove("c.html")
	s.Publish()
	second := follow(t, dir, s)
	requests := 0
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.Path, ".html") || r.Path == "/" {
			requests++
		}
	}
	c := taken(t, dir, census.Options{})
	visits := int(first.Fetched + first.Delivered + second.Fetched + second.Delivered)
	if first.Copied < 20 || visits-int(first.Copied) > requests { // the log has requests for robots.txt beside
		t.Fatalf("%d visits and %d requests: %+v", visits, requests, first)
	}
	visits-- // that of the page that is gone is no longer known, and its request is
	rows := map[string][]any{}
	for _, row := range tableOf(t, c, "saved").Rows {
		rows[row[0].(string)] = row[1:]
	}
	if row, want := rows["visits without a request of their own"], visits-int(first.Fetched+second.Fetched); row[0] != int64(want) || row[2] != int64(visits) {
		t.Errorf("%v, want %d of %d visits", row, want, visits)
	}
	if row := rows["sampled pages that are copies of equal pages"]; row[0] != first.Copied || row[1] != first.DeliveredBytes {
		t.Errorf("copies %v, want %d with %d bytes", row, first.Copied, first.DeliveredBytes)
	}
	wantText(t, c, "dead", "with a manifest 81 0 1 0\n")
}

// Of two sites that lose the same pages, the crawler knows which are gone where a manifest says so, and keeps copies of all of them where
// none does, until it visits them (F17).
func TestDeadShare(t *testing.T) {
	const lost = 8
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 6, Pages: 1})
		defer w.Close()
		telling, silent := w.Add(fakeweb.Honest), w.Add(fakeweb.Honest)
		start := []string{telling.Origin + "/", silent.Origin + "/"}
		for _, s := range []*fakeweb.Site{telling, silent} {
			s.Sitemap, s.Robots, s.Speaks = false, "", s == telling
			for i := range 40 {
				s.Edit(fmt.Sprintf("/p%02d.html", i))
			}
		}
		crawled(t, w, dir, start, nil)
		for _, s := range []*fakeweb.Site{telling, silent} {
			for i := range lost {
				s.Delete(fmt.Sprintf("/p%02d.html", i))
			}
		}
		time.Sleep(2 * time.Hour) // virtual: manifests are not polled all the time
		crawled(t, w, dir, start, nil)
	})
	c := taken(t, dir, census.Options{})
	wantText(t, c, "dead", fmt.Sprintf("without a manifest 41 0 0 0\nwith a manifest %d 0 %d 0\n", 41-lost, lost))
	wantText(t, c, "states", fmt.Sprintf("gone %d\nheld %d\n", lost, 2*41-lost))
}
