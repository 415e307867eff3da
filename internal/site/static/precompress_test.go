package static_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// A real Publisher creates compressed siblings of the manifest, and removes them again.
func TestCompressedManifest(t *testing.T) {
	w := newWeb(t)
	w.write("index.html", "Home")
	out := filepath.Join(w.root, "robots.rdf")
	turn := func(off bool) int {
		t.Helper()
		c := &static.Compressed{Path: out, Off: off}
		p := w.publisher([]server.Output{c})
		p.Snapshot = &manifest.Snapshot{Path: out, Manifest: doors.Describe(webBase), Public: w.site.Public}
		must.Get(p.Turn(t.Context()))
		return p.Status().Outputs[0].Writes
	}
	if n := turn(false); n != 1 {
		t.Errorf("%d writes", n)
	}
	w.wantSiblings("robots.rdf")
	was := w.look()
	if n := turn(false); n != 0 || len(was.touched(w.look())) > 0 {
		t.Errorf("nothing changed, %d writes, touched %v", n, was.touched(w.look()))
	}
	w.write("a.html", "A")
	if n := turn(false); n != 1 {
		t.Errorf("%d writes", n)
	}
	w.wantSiblings("robots.rdf")

	// Another file with the same content, as after a restore.
	at := time.Now().Add(-time.Hour)
	w.must(os.Chtimes(out, at, at))
	turn(false)
	w.wantSiblings("robots.rdf")
	// A sibling made by another program.
	w.must(os.WriteFile(out+".gz", []byte("other"), 0o600))
	turn(false)
	w.wantSiblings("robots.rdf")

	turn(true)
	w.wantNames("switched off", ".robots.rdf.mark", "robots.rdf")
	must.Write(w, out+".gz", "somebody's")
	turn(true)
	w.wantNames("another program's file", ".robots.rdf.mark", "robots.rdf", "robots.rdf.gz")
	for range 2 {
		if _, err := (&static.Compressed{Path: out}).Write(t.Context(), w.journal); err == nil || !strings.Contains(err.Error(), another) {
			t.Errorf("another program's file is replaced: %v", err)
		}
	}
	if got := string(w.read("robots.rdf.gz")); got != "somebody's" {
		t.Errorf("another program's file is %q", got)
	}
	w.remove("robots.rdf.gz")
	turn(false)
	w.wantSiblings("robots.rdf")
}

// A sibling older than its file is removed while the new one is made.
func TestStaleSiblingsAreRemoved(t *testing.T) {
	w := newWeb(t)
	w.pages(1)
	path := filepath.Join(w.root, "f.txt")
	c := &static.Compressed{Path: path}
	if wrote, err := c.Write(t.Context(), w.journal); wrote || err != nil {
		t.Errorf("without a file: %v, %v", wrote, err)
	}
	must.Write(w, path+".gz", "somebody's")
	if wrote, err := c.Write(t.Context(), w.journal); wrote || err != nil {
		t.Errorf("without a file: %v, %v", wrote, err)
	}
	must.Write(w, path, "one")
	must.Write(w, path+".gz", "\x1f\x8b of another time")
	must.Get(c.Write(t.Context(), w.journal))
	w.wantSiblings("f.txt")

	later := time.Now().Add(time.Hour)
	must.Write(w, path, "two")
	w.must(os.Chtimes(path, later, later))
	w.must(os.Remove(path + ".gz"))
	w.must(os.Mkdir(path+".gz", 0o755)) // the new ones cannot be made
	w.must(os.WriteFile(filepath.Join(path+".gz", "x"), nil, 0o644))
	if _, err := c.Write(t.Context(), w.journal); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(path + ".zst"); err == nil {
		t.Error("the old sibling is still there")
	}
	w.must(os.RemoveAll(path + ".gz"))
	must.Get(c.Write(t.Context(), w.journal))
	w.wantSiblings("f.txt")
	w.must(os.Remove(path))
	must.Get(c.Write(t.Context(), w.journal))
	w.wantNames("after the file went")
}

// nginx serves the siblings, with the same Last-Modified for both.
func TestNginxSendsSiblings(t *testing.T) {
	g := newGone(t)
	g.create(nginxBase + "a.html")
	s := &static.Sitemap{Path: filepath.Join(g.root, "sitemap.xml"), Base: nginxBase, Precompress: true}
	must.Get(s.Write(t.Context(), g.journal))
	g.write()
	r := g.serve("gzip_static on;")
	var modified []string
	for _, accept := range []string{"identity", "gzip"} {
		req := must.Get(http.NewRequestWithContext(t.Context(), "GET", nginxBase+"sitemap.xml", nil))
		req.Header.Set("Accept-Encoding", accept)
		resp := must.Get(r.client.Do(req))
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); (got == "gzip") != (accept == "gzip") {
			t.Errorf("accepts %s, got %q", accept, got)
		}
		body := must.Get(coding.NewReader(resp.Body))
		b := must.Get(io.ReadAll(body))
		if !strings.Contains(string(b), "<loc>"+nginxBase+"a.html</loc>") {
			t.Errorf("%s: %s", accept, b)
		}
		modified = append(modified, resp.Header.Get("Last-Modified"))
	}
	if modified[0] != modified[1] || modified[0] == "" {
		t.Errorf("modified %q", modified)
	}
}
