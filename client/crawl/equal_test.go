package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// translated is a manual with almost no translated pages.
func translated(pages int) map[string]string {
	files := map[string]string{"index.html": page("home", "en/", "de/", "fr/")}
	for _, lang := range []string{"en", "de", "fr"} {
		files[lang+"/index.html"] = page("contents in " + lang)
		for i := range pages {
			files[fmt.Sprintf("%s/p%02d.html", lang, i)] = page(fmt.Sprint("page ", i), fmt.Sprintf("p%02d.html", (i+1)%pages))
		}
	}
	return files
}

// asked returns the paths of the pages that were requested since the last call.
func asked(s *sitetest.Site) (paths []string) {
	for _, q := range s.Requests() {
		if strings.HasSuffix(q.Path, "/") || strings.HasSuffix(q.Path, ".html") {
			paths = append(paths, q.Path)
		}
	}
	s.ForgetRequests()
	slices.Sort(paths)
	return paths
}

// once crawls a site until no fetch is pending.
func once(t *testing.T, dir string, s *sitetest.Site) (*collection.Collection, crawl.Status) {
	t.Helper()
	c := crawler(t, dir, s.Base)
	c.Patience, c.Bulk = 100*time.Millisecond, -1
	finish(t, c)
	return c.Collection, c.Status()
}

// holdsAll fails the test unless each page of the site is stored, and can be read.
func holdsAll(t *testing.T, col *collection.Collection, s *sitetest.Site) {
	t.Helper()
	for u, text := range s.Pages() {
		p := pageOf(t, col, u)
		if p.State != collection.Held || p.Told {
			t.Errorf("%s is %v, told %v", u, p.State, p.Told)
			continue
		}
		c, err := col.Contents().Content(p.URL, p.Stored)
		must.OK(t, err)
		body, err := io.ReadAll(c)
		must.OK(t, err)
		if string(body) != text || c.Status != http.StatusOK {
			t.Errorf("%s is stored as %q with the status %d, want %q", u, body, c.Status, text)
		}
		must.OK(t, c.Close())
	}
}

// Pages that have the same bytes according to their site are fetched once, in a first crawl as in a later one:
// the stored content of one is used for the others.
func TestEqualPagesAreFetchedOnce(t *testing.T) {
	const pages = 20
	s := sitetest.NewSite(t, translated(pages))
	dir := t.TempDir()
	col, status := once(t, dir, s)
	holdsAll(t, col, s)
	contents, dirs := 4+pages, 3
	if got := asked(s); len(got) < contents || len(got) > contents+dirs+int(status.Audits)+1 { // one requests a missing page
		t.Errorf("%d requests for %d contents in %d directories: %v", len(got), contents, dirs, got)
	}
	if total := int64(len(s.Pages())); status.Delivered+status.Fetched != total || status.Delivered < 2*pages-int64(dirs)-status.Audits {
		t.Errorf("%d pages were fetched and %d were not, of %d", status.Fetched, status.Delivered, total)
	}
	for _, lang := range []string{"en", "de", "fr"} { // each links to its siblings
		p := pageOf(t, col, s.Base+lang+"/p03.html")
		links := must.Get(col.Links(p.ID))
		if len(links) != 1 {
			t.Fatalf("%s leads to %v", p.URL, links)
		}
		if to, _, err := col.PageByID(links[0]); err != nil || to.URL != s.Base+lang+"/p04.html" {
			t.Errorf("%s leads to %s: %v", p.URL, to.URL, err)
		}
		if v := must.Get(col.Contents().Versions(p.URL)); len(v) != 1 || v[0].Digest != p.Digest {
			t.Errorf("the archive has of %s: %v", p.URL, v)
		}
	}
	must.OK(t, col.Close())

	for i := range 10 {
		s.Write(fmt.Sprintf("en/copy%d.html", i), s.Pages()[s.Base+"en/p05.html"])
	}
	s.Write("en/p07.html", s.Pages()[s.Base+"en/p06.html"])
	s.Write("en/p08.html", page("really new"))
	s.Publish()
	col, status = once(t, dir, s)
	holdsAll(t, col, s)
	if got := asked(s); len(got) > 2+int(status.Audits) || !slices.Contains(got, "/en/p08.html") {
		t.Errorf("fetched %v, %d of them as checks, want only new contents", got, status.Audits)
	}
}

// If the first of several equal pages fails, or differs from its digest, each of the others is fetched
// separately.
func TestFirstOfEqualPagesFails(t *testing.T) {
	for name, fault := range map[string]sitetest.Fault{
		"not found": sitetest.Status(http.StatusNotFound, 0), "broken": sitetest.Status(http.StatusInternalServerError, 0), "other bytes": sitetest.Bytes(page("other")),
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t, translated(5))
			s.Break("/de/p02.html", fault) // the first, in the order of the manifest
			col, _ := once(t, "", s)
			got := asked(s)
			for _, u := range []string{"en/p02.html", "fr/p02.html"} {
				p := pageOf(t, col, s.Base+u)
				if p.State != collection.Held || p.Digest != protocol.Sum([]byte(s.Pages()[s.Base+u])) {
					t.Errorf("%s is %v", u, p.State)
				}
				if !slices.Contains(got, "/"+u) {
					t.Errorf("%s was not fetched", u)
				}
			}
		})
	}
}

// If one directory is refused to us, its pages are still requested, though others have their bytes: nothing
// of it is stored.
func TestRefusedEqualPagesAreNotStored(t *testing.T) {
	s := sitetest.NewSite(t, translated(5))
	for u := range s.Pages() {
		if path := "/" + strings.TrimPrefix(u, s.Base); strings.HasPrefix(path, "/fr/") {
			s.Break(path, sitetest.Status(http.StatusForbidden, 0))
		}
	}
	col, _ := once(t, "", s)
	for u := range s.Pages() {
		p := pageOf(t, col, u)
		if want := !strings.Contains(u, "/fr/"); want != (p.State == collection.Held) || want == p.Digest.IsZero() {
			t.Errorf("%s is %v", u, p.State)
		}
	}
}

// A copy of a site fetches equal pages once, too, even if it is stopped in between; a file that was removed
// causes no fetch while another page has the same bytes.
func TestCopyOfEqualPages(t *testing.T) {
	const pages = 20
	x := &teller{Site: sitetest.NewSite(t, translated(pages))}
	x.copied = newCopy(t, x.Base, func(m *crawl.Copy) { m.Bulk = -1 })
	x.start()
	until(t, crawl.EngineOf(x.c), "five pages are copied", func() bool { return len(x.files()) >= 5 })
	x.stop()
	x.start()
	x.want(x.live())
	contents, dirs := 4+pages, 3
	if got := asked(x.Site); len(got) > contents+2*dirs+4 { // requests that were under way are repeated
		t.Errorf("%d requests for %d contents: %v", len(got), contents, got)
	}
	x.stop()
	x.Write("en/copy.html", x.live()["en/p05.html"])
	x.Publish()
	x.start()
	x.want(x.live())
	if got := asked(x.Site); len(got) > 0 {
		t.Errorf("requested %v", got)
	}
}

// A site that claims that pages have the bytes of another one, and serves something else, is detected by the
// pages that are fetched nevertheless: after that its claim is no longer used to skip fetches.
func TestFalseEqualPagesAreDetected(t *testing.T) {
	noTotals(t)
	const lies = 150
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := speaking(w, 5)
		s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			lies := strings.Contains(req.URL.Path, "/lie")
			if lies {
				html(rw, fmt.Sprintf("<title>a lie</title><p>Nobody was told of this, %s.", req.URL.Path))
			}
			return lies
		}
		revisit := eager(0)
		c, col := w.open(t, time.Second, crawl.Settings{Revisit: &revisit, NoFeeds: true, Bulk: -1}, archiving)
		var body string
		lie := func(ctx context.Context, round int) (believed, seen int) {
			for i := range lies {
				s.Put(fmt.Sprintf("/lie%d-%d.html", round, i), body)
			}
			pause.For(ctx, 6*time.Hour)
			for i := range lies {
				if p := pageOf(t, col, fmt.Sprintf("%s/lie%d-%d.html", s.Origin, round, i)); p.Title == "a lie" {
					seen++
				} else if p.State == collection.Held {
					believed++
				}
			}
			return believed, seen
		}
		runFor(t, c, 3*aDay, func(ctx context.Context) {
			pause.For(ctx, aDay)
			body, _ = s.Body(nth(1))
			believed, seen := lie(ctx, 1)
			t.Logf("at first %d lies were believed, %d seen", believed, seen)
			if believed == 0 || seen == 0 {
				t.Errorf("of %d lies %d were believed at first, and %d seen", lies, believed, seen)
			}
			if believed, seen = lie(ctx, 2); believed > 0 || seen < lies {
				t.Errorf("of %d lies of a liar %d were believed, and %d seen", lies, believed, seen)
			}
		})
	})
}
