package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// A running site has a sitemap and a robots.txt in its docroot, where other programs also write: an output
// that they remove or replace is restored although no page has changed, and these writes do not wake Parley
// for ever.
func TestRunRestoresOutputs(t *testing.T) {
	d := newDocroot(t, "a.html", "b/c.html")
	d.write("robots.txt", "User-agent: *\nDisallow: /secret/\n")
	sitemap := &static.Sitemap{Path: d.path("sitemap.xml"), Base: base, Public: d.site.Public}
	lines := &static.Robots{Path: d.path("robots.txt"), Base: base, Sitemaps: []string{sitemap.URL()}, Manifest: base + "robots.rdf"}
	d.site.Files.Own = sitemap.Own()
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	pub := &server.Publisher{Inventory: d.site, Journal: j, Outputs: []server.Output{sitemap, lines}, Pace: server.Pace{WriteEvery: time.Millisecond}, Log: testLog(t),
		Snapshot: &manifest.Snapshot{Path: d.path("robots.rdf"), Manifest: doors.Describe(base), Public: d.site.Public}}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer stop()
	run.Go(func() {
		if err := pub.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	has := func(place, text string) func() bool {
		return func() bool {
			b, err := os.ReadFile(d.path(place))
			return err == nil && strings.Contains(string(b), text)
		}
	}
	const robotsLine = "Sitemap: " + base + "sitemap.xml"
	// quiet waits until nothing has been scanned or written for a while. It fails if every write triggers a
	// scan and every scan a write.
	quiet := func() (looks int) {
		t.Helper()
		var last server.Status
		since := time.Now()
		until(t, "quiet", func() bool {
			s := pub.Status()
			if s.Looks != last.Looks || s.Writes != last.Writes {
				last, since = s, time.Now()
			}
			return s.Looks > 0 && time.Since(since) > 300*time.Millisecond
		})
		return last.Looks
	}
	until(t, "the first sitemap", has("sitemap.xml", base+"b/c.html"))
	until(t, "lines in robots.txt", has("robots.txt", robotsLine))
	looks := quiet()

	// A build that deletes foreign files and recreates the same pages.
	d.must(os.Remove(d.path("sitemap.xml")))
	d.must(os.Remove(d.path("robots.rdf")))
	d.write("a.html", "content of a.html")
	until(t, "the removed sitemap is restored", has("sitemap.xml", base+"b/c.html"))
	until(t, "the removed manifest is restored", has("robots.rdf", base+"b/c.html"))
	d.write("new.txt", "User-agent: *\nDisallow: /other/\n")
	d.must(os.Rename(d.path("new.txt"), d.path("robots.txt")))
	until(t, "lines in the new robots.txt", has("robots.txt", robotsLine))
	if !has("robots.txt", "Disallow: /other/")() {
		t.Error("the rules of the new robots.txt are missing")
	}
	if n := quiet() - looks; n > 20 {
		t.Errorf("%d scans after other programs wrote three files", n)
	}
	if at := j.Head(); at.Seq != 0 || pub.Published() != at {
		t.Errorf("head %v, published %v", at, pub.Published())
	}
}

// Without an event, the regular scan or a requested one finds that an output is missing.
func TestTurnRestoresOutputs(t *testing.T) {
	d := newDocroot(t, "a.html")
	sitemap := &static.Sitemap{Path: d.path("sitemap.xml"), Base: base, Public: d.site.Public}
	d.site.Files.Own = sitemap.Own()
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(t.TempDir(), "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	pub := &server.Publisher{Inventory: d.site, Journal: j, Outputs: []server.Output{sitemap}}
	for range 3 {
		_, err := pub.Turn(t.Context())
		d.must(err)
		b, err := os.ReadFile(d.path("sitemap.xml"))
		if err != nil || !strings.Contains(string(b), base+"a.html") {
			t.Fatalf("sitemap: %v %s", err, b)
		}
		d.must(os.Remove(d.path("sitemap.xml")))
	}
}
