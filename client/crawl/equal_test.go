package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
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
	col := open(t, dir)
	t.Cleanup(func() { col.Close() })
	c := crawler(col, s.Base)
	c.Patience = 100 * time.Millisecond
	c.Bulk = -1
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return col, c.Status()
}

// holdsAll fails the test unless each page of the site is stored, and can be read.
func holdsAll(t *testing.T, col *collection.Collection, s *sitetest.Site) {
	t.Helper()
	for u, text := range s.Pages() {
		p, ok, err := col.Page(u)
		if err != nil || !ok || p.State != collection.Held || p.Told {
			t.Errorf("%s is %v, told %v: %v %v", u, p.State, p.Told, ok, err)
			continue
		}
		c, err := col.Contents().Content(p.URL, p.Stored)
		if err != nil {
			t.Error(err)
			continue
		}
		body, err := io.ReadAll(c)
		if err := errors.Join(err, c.Close()); err != nil || string(body) != text {
			t.Errorf("%s is stored as %q, want %q: %v", u, body, text, err)
		}
	}
}

// Pages that have the same bytes according to their site are fetched once, in a first crawl as in a later one:
// the stored content of one is used for the others.
func TestEqualPagesAreFetchedOnce(t *testing.T) {
	const pages = 20
	s := sitetest.NewSite(t, translated(pages))
	dir := filepath.Join(t.TempDir(), "crawl")
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
		p, _, err := col.Page(s.Base + lang + "/p03.html")
		if err != nil {
			t.Fatal(err)
		}
		links, err := col.Links(p.ID)
		if err != nil || len(links) != 1 {
			t.Fatalf("%s leads to %v: %v", p.URL, links, err)
		}
		if to, _, err := col.PageByID(links[0]); err != nil || to.URL != s.Base+lang+"/p04.html" {
			t.Errorf("%s leads to %s: %v", p.URL, to.URL, err)
		}
		if v, err := col.Contents().Versions(p.URL); err != nil || len(v) != 1 || v[0].Digest != p.Digest {
			t.Errorf("the archive has of %s: %v, %v", p.URL, v, err)
		}
	}
	if err := col.Close(); err != nil {
		t.Fatal(err)
	}

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
			col, _ := once(t, filepath.Join(t.TempDir(), "crawl"), s)
			got := asked(s)
			for _, u := range []string{"en/p02.html", "fr/p02.html"} {
				p, _, err := col.Page(s.Base + u)
				if err != nil || p.State != collection.Held || p.Digest != protocol.Sum([]byte(s.Pages()[s.Base+u])) {
					t.Errorf("%s is %v, %v", u, p.State, err)
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
	col, _ := once(t, filepath.Join(t.TempDir(), "crawl"), s)
	for u := range s.Pages() {
		p, _, err := col.Page(u)
		if want := !strings.Contains(u, "/fr/"); err != nil || want != (p.State == collection.Held) || want == p.Digest.IsZero() {
			t.Errorf("%s is %v, %v", u, p.State, err)
		}
	}
}

// A copy of a site fetches equal pages once, too, even if it is stopped in between; a file that was removed
// causes no fetch while another page has the same bytes.
func TestCopyOfEqualPages(t *testing.T) {
	const pages = 20
	x := &teller{Site: sitetest.NewSite(t, translated(pages))}
	x.copied = newCopy(t, &speaker{base: x.Base}, func(m *crawl.Copy) { m.Bulk = -1 })
	x.start()
	for deadline := time.Now().Add(20 * time.Second); len(x.files()) < 5 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	x.start()
	x.want(x.live())
	contents, dirs := 4+pages, 3
	if got := asked(x.Site); len(got) > contents+2*dirs+4 { // requests that were under way are repeated
		t.Errorf("%d requests for %d contents: %v", len(got), contents, got)
	}
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
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
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 6, Pages: 1})
		defer w.Close()
		s := numbered(w, 5)
		s.Speaks = true
		s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			if strings.Contains(req.URL.Path, "/lie") {
				rw.Header().Set("Content-Type", "text/html; charset=utf-8")
				fmt.Fprintf(rw, "<title>a lie</title><p>Nobody was told of this, %s.", req.URL.Path)
				return true
			}
			return false
		}
		revisit := crawl.Revisit{Policy: fresh.Priced{Eager: true}}
		col, err := collection.Open(dir, &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: revisit.Policy, Quality: crawl.DefaultQuality.Of, Contents: collection.WARC})
		if err != nil {
			t.Fatal(err)
		}
		defer col.Close()
		c := crawler(col, s.Origin+"/")
		c.Once, c.Policy, c.Revisit, c.NoFeeds, c.Bulk = false, revisit.Policy, &revisit, true, -1
		c.Harvester = &harvest.Harvester{Options: harvest.Options{Agent: "ParleyTest/1", From: "test@example.net", Resolver: w, Dial: w.Dial, Wait: time.Second}}
		var body string
		lie := func(ctx context.Context, round int) (believed, seen int) {
			for i := range lies {
				s.Put(fmt.Sprintf("/lie%d-%d.html", round, i), body)
			}
			pause.For(ctx, 6*time.Hour)
			for i := range lies {
				p, _, err := col.Page(fmt.Sprintf("%s/lie%d-%d.html", s.Origin, round, i))
				switch {
				case err != nil:
					t.Error(err)
				case p.Title == "a lie":
					seen++
				case p.State == collection.Held:
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
