package check_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// published returns a site with all of Parley's outputs, after some history: pages were written over a year,
// some were changed, moved and deleted.
func published(t *testing.T, base string) (root string, paths []string) {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o755))
	root = filepath.Join(dir, "root")
	write := func(name, text string, age int) {
		t.Helper()
		p := filepath.Join(root, name)
		must.Write(t, p, "<!doctype html><title>"+text+"</title><p>"+strings.Repeat(text+" and so on. ", 200))
		at := time.Now().Add(-time.Duration(age) * 31 * time.Hour)
		must.OK(t, os.Chtimes(p, at, at))
	}
	for i := range 120 {
		write(fmt.Sprintf("%c/page %d & more.html", 'a'+i%5, i), fmt.Sprintf("Page %d", i), 20+i)
	}
	write("index.html", "Home", 400)
	must.Write(t, filepath.Join(root, "robots.txt"), "User-agent: *\nDisallow: /e/\n")

	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	s := &server.Site{Docroot: root, Base: base}
	snapshot := &manifest.Snapshot{Path: filepath.Join(root, "robots.rdf"), Manifest: doors.Describe(base), Public: s.Public}
	snapshot.Manifest.Stream, snapshot.Manifest.Changes, snapshot.Manifest.Discovery = "", "", ""
	sitemap := &static.Sitemap{Path: filepath.Join(root, "sitemap.xml"), Base: base, Public: s.Public}
	p := &server.Publisher{Inventory: s, Journal: j, Pace: server.Pace{Once: true}, Snapshot: snapshot, Outputs: []server.Output{
		sitemap,
		&static.Feeds{RSS: filepath.Join(root, "feed.xml"), Atom: filepath.Join(root, "atom.xml"), JSON: filepath.Join(root, "feed.json"), Base: base, Title: "Site", Public: s.Public},
		&static.Robots{Path: filepath.Join(root, "robots.txt"), Base: base, Sitemaps: []string{sitemap.URL()}, Manifest: base + "robots.rdf"},
		&static.Nginx{Path: filepath.Join(dir, "gone.conf"), Base: base, Docroot: root, Public: s.Public},
	}}
	must.Get(p.Turn(t.Context()))
	write("a/page 0 & more.html", "Another text", 2)
	must.OK(t, os.Rename(filepath.Join(root, "b/page 1 & more.html"), filepath.Join(root, "b/moved.html")))
	must.OK(t, os.Remove(filepath.Join(root, "c/page 2 & more.html")))
	must.Get(p.AcceptDeletions(t.Context()))
	for _, o := range p.Outputs {
		must.Get(o.Write(t.Context(), j))
	}
	must.Get(snapshot.Write(t.Context(), j))
	return root, []string{"robots.txt", "robots.rdf", "sitemap.xml", "feed.xml", "atom.xml", "feed.json"}
}

// The check finds no fault in Parley's own outputs, as files and behind a real nginx, with its 410 and 308
// responses in place.
func TestOwnOutputsHaveNoFindings(t *testing.T) {
	machine.Tool(t, "nginx")
	const base = "http://site.example/"
	root, paths := published(t, base)
	for _, p := range paths {
		r, err := new(check.Checker).File(t.Context(), filepath.Join(root, p), false)
		if err != nil || r.Kind == "unknown" || p != "robots.txt" && r.Entries == 0 {
			t.Errorf("%s: %v, %+v", p, err, r)
			continue
		}
		for _, f := range r.Findings {
			t.Errorf("%s: %+v", p, f)
		}
	}

	dir := t.TempDir()
	sock := filepath.Join(dir, "sock")
	machine.Nginx(t, sock, "master_process off;", fmt.Sprintf("types { text/html html; application/xml xml; application/rdf+xml rdf; application/feed+json json; text/plain txt; }\n"+
		"gzip on; gzip_types *; gzip_http_version 1.0;\nserver {\nlisten unix:%s;\nserver_name site.example;\nroot %s;\nindex index.html;\ninclude %s;\n}",
		sock, root, filepath.Join(filepath.Dir(root), "gone.conf")))
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sock)
	}}
	defer tr.CloseIdleConnections()
	c := &check.Checker{Client: &http.Client{Transport: tr}, Every: time.Nanosecond, Sample: 40}
	for _, p := range paths {
		r, err := c.URL(t.Context(), base+p)
		if err != nil || p != "robots.txt" && r.Sampled < 2 {
			t.Errorf("%s: %v, %+v", p, err, r)
			continue
		}
		for _, f := range r.Findings {
			t.Errorf("%s: %+v", p, f)
		}
	}
	// The sitemap from before the changes lists deleted and moved pages.
	old := filepath.Join(dir, "old.xml")
	must.Write(t, old, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`+base+`c/page%202%20&amp;%20more.html</loc><lastmod>2026-01-01T10:00:00Z</lastmod></url>`+
		`<url><loc>`+base+`b/page%201%20&amp;%20more.html</loc><lastmod>2026-01-02T10:00:00Z</lastmod></url></urlset>`)
	r := must.Get(c.File(t.Context(), old, true))
	if f, ok := has(r, "page-gone"); !ok || !strings.Contains(f.Message, "410") {
		t.Errorf("%+v", r.Findings)
	}
	if f, ok := has(r, "redirect-other"); !ok || !strings.Contains(f.Message, "redirects to http://site.example/b/moved.html") {
		t.Errorf("%+v", r.Findings)
	}
}
