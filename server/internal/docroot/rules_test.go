package docroot_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/server/inventory"
)

func TestRulesTable(t *testing.T) {
	d := newDisk(t,
		"a.html", "b.HTM", "c.xhtml", "d.PDF", "e.txt", "f.html.gz", "g.htm.inc", "h.php", "noext", "i.html5",
		"a.html~", "a.html.bak", "a.html.orig", "a.html.swp", "a.old", "#a.html#", ".#a.html", ".a.html.swp", "4913", "x.tmp", "~destructor.html",
		"data.sql", "data.sql.gz", "data.DUMP", "dir/core", "core.1234", "core.html",
		".hidden.html", ".git/x.html", "v/.git/y.html", ".well-known/security.txt", ".well-known/a.html",
		"img/logo.png", "img/deep/photo.png", "img/deep/secret.png", "drafts/one.html", "x/drafts/two.html",
		"notes/readme.txt", "site.bak/a.html", "core/lib.html",
		"robots.rdf", "sub/robots.rdf", "state/db.pdf", "out.html",
	)
	d.must(os.Truncate(d.path("a.html"), 100))
	d.write("huge.html", string(make([]byte, 101)))
	d.site.Settings.MaxFile = 100
	d.site.Settings.Include = []string{"img/**/*.png", "*.rdf", "robots.rdf", "notes/", "**/*.bak", "noext", "data.*", ".hidden.html", "core*", "#a*", "4913"}
	d.site.Settings.Exclude = []string{"secret.*", "drafts"}
	d.site.Settings.Own = []string{d.path("state"), d.path("out.html")}
	want := map[string]string{
		"a.html": "", "b.HTM": "", "c.xhtml": "", "d.PDF": "", "~destructor.html": "", "core.html": "", "noext": "",
		"img/logo.png": "", "img/deep/photo.png": "", "notes/readme.txt": "", "core/lib.html": "", "sub/robots.rdf": "",
		"e.txt": "not included", "f.html.gz": "not included", "g.htm.inc": "not included", "h.php": "not included", "i.html5": "not included",
		"a.html~": "backup", "a.html.bak": "backup", "a.html.orig": "backup", "a.html.swp": "backup", "a.old": "backup",
		"#a.html#": "backup", "4913": "backup", "x.tmp": "backup", "site.bak/a.html": "backup",
		".#a.html": "hidden", ".a.html.swp": "hidden", ".hidden.html": "hidden", ".git/": "hidden", "v/.git/": "hidden", ".well-known/": "hidden",
		"data.sql": "dump", "data.sql.gz": "dump", "data.DUMP": "dump", "dir/core": "dump", "core.1234": "dump",
		"img/deep/secret.png": "excluded", "drafts/one.html": "excluded", "x/drafts/two.html": "excluded",
		"robots.rdf": "own output", "state/": "own output", "out.html": "own output",
		"huge.html": "too large",
	}
	list := d.look()
	for _, o := range list {
		w, ok := want[o.Place]
		if !ok || o.LeftOut != w {
			t.Errorf("%s: left out %q, want %q", o.Place, o.LeftOut, w)
		}
		delete(want, o.Place)
		if o.URL != "" && w != "too large" && d.site.Public(o.URL) != (w == "") {
			t.Errorf("%s: public is %v", o.URL, w != "")
		}
	}
	if len(want) > 0 {
		t.Errorf("never seen: %v", want)
	}
	if d.site.Public(base+".git/x.html") || d.site.Public(base+".well-known/a.html") {
		t.Error("a hidden file is public")
	}
}

// A backup or dump that is named like a page is not published unless it is included explicitly.
func TestBackupsNamedLikePagesAreLeftOut(t *testing.T) {
	want := map[string]string{
		"a.bak.html": "backup", "a.html.orig.html": "backup", "a.old.htm": "backup", "a.bak2.html": "backup", "a~.html": "backup",
		"a copy.html": "backup", "a copy 2.html": "backup", "a - Copy.HTML": "backup", "a - Copy (3).html": "backup",
		"a (copy).html": "backup", "a (3rd copy).pdf": "backup", "Copy of a.html": "backup",
		"dump.sql.html": "dump", "d/x.SQL.xhtml": "dump", "x.dmp.html": "dump",
		"copy.html": "", "hardcopy.html": "", "copyright 2024.html": "", "old.html": "", "bak.html": "", "sql.html": "",
		"json.dump.html": "", "System.Core.html": "", "v1.old.2.html": "", "pyspark.sql.html": "",
	}
	d := newDisk(t)
	d.site.Settings.Include = []string{"pyspark.sql.html", "*.html"}
	for name := range want {
		d.write(name, name)
	}
	for _, o := range d.look() {
		if w, ok := want[o.Place]; !ok || o.LeftOut != w || d.site.Public(o.URL) != (w == "") {
			t.Errorf("%s: left out %q, public %v, want %q", o.Place, o.LeftOut, d.site.Public(o.URL), w)
		}
		delete(want, o.Place)
	}
	if len(want) > 0 {
		t.Errorf("never seen: %v", want)
	}
}

// Pages named by their language are pages of that language, at URLs of their own; templates and programs are not.
func TestPagesNamedByLanguage(t *testing.T) {
	names := []string{"a.html", "a.html.en", "a.html.pt-BR.utf8", "a.HTM.po", "a.xhtml.ja.euc-kr", "says.html.de",
		"a.html.in", "a.html.pl", "a.html.sh", "a.html.gz", "a.html.utf8", "a.html.en.bak", "en", "a.en", "a.php.en", "html.en", "a.html.english", "a.bak.html.en", "a.sql.html.fr", "404.html.en", "d/drafts/a.html.en"}
	d := newDisk(t, names...)
	d.site.Settings.CleanURLs = true
	d.site.Settings.Exclude = []string{"404.html", "d/drafts/*.html"}
	d.site.Settings.Features = func(url string, _ []byte, _ bool) (f inventory.Features, err error) {
		if url == base+"says.html.de" {
			f.Language = "de-AT"
		}
		return f, nil
	}
	var got []string
	for _, o := range d.look() {
		if o.LeftOut != "" {
			continue
		}
		o := must.Get(d.site.Read(t.Context(), o))
		got = append(got, strings.TrimPrefix(o.URL, base)+" "+o.Type+" "+o.Language)
		if !d.site.Public(o.URL) {
			t.Errorf("%s is not public", o.URL)
		}
	}
	want := []string{"a text/html ", "a.HTM.po text/html pl", "a.html.en text/html en", "a.html.pt-BR.utf8 text/html pt-br",
		"a.xhtml.ja.euc-kr application/xhtml+xml ja", "says.html.de text/html de-AT"}
	if !slices.Equal(got, want) {
		t.Errorf("published %q, want %q", got, want)
	}
	if left := sitetest.LeftOut(d.look()); left["a.bak.html.en"] != "backup" || left["a.html.in"] != "not included" || left["404.html.en"] != "excluded" {
		t.Errorf("left out: %q", left)
	}
}

func TestRulesWellKnown(t *testing.T) {
	d := newDisk(t, ".well-known/security.txt", ".well-known/a.html", ".well-known/.b.html", "x/.well-known/c.html")
	d.site.Settings.Include = []string{".well-known/*.txt"}
	d.wantOffered(".well-known/a.html", ".well-known/security.txt")
	if !d.site.Public(base + ".well-known/security.txt") {
		t.Error("not public")
	}
	if got := offered(d.look(inventory.Scope{Prefix: base + ".well-known/"})); len(got) != 2 {
		t.Errorf("as a scope: %q", got)
	}
}

func TestRulesCleanURLs(t *testing.T) {
	d := newDisk(t, "a.html", "b.htm", "c.html", "c", "d.html", "d/index.html", "index", "index.html", ".html", "e.html.html", "f", "f.html")
	d.site.Settings.CleanURLs = true
	d.site.Settings.Include = []string{"c", "index"}
	d.wantOffered("", "a", "b.htm", "c", "d", "e.html", "f", "index", "d/")
	want := map[string]string{"c.html": "same URL as another: c", "f": "not included", ".html": "hidden"}
	for place, left := range want {
		if got := sitetest.LeftOut(d.look())[place]; got != left {
			t.Errorf("%s: left out %q, want %q", place, got, left)
		}
	}
	if o := d.offer("f"); o.Place != "f.html" {
		t.Errorf("f is %s", o.Place)
	}
	for url, public := range map[string]bool{"a": true, "": true, "index": true, "a%2Ehtml": false, "x%2Fy.pdf": false, "d": true, "d/": true, "none": true, "none.txt": true, "b.htm": true, "x.pdf": true} {
		if d.site.Public(base+url) != public {
			t.Errorf("public %q is %v", url, !public)
		}
	}
}

// An own output is not published under another path that leads to it.
func TestOwnOutputUnderAnotherPathIsLeftOut(t *testing.T) {
	d := newDisk(t, "a.html", "out.html")
	d.link("out.html", "other.html")
	d.must(os.Symlink(d.dir, filepath.Join(filepath.Dir(d.dir), "alias")))
	d.site.Settings.Own = []string{filepath.Join(filepath.Dir(d.dir), "alias", "out.html")}
	d.wantOffered("a.html")
	if got := sitetest.LeftOut(d.look()); got["other.html"] != "own output" || got["out.html"] != "own output" {
		t.Errorf("left out: %v", got)
	}
	if d.site.Public(base + "out.html") {
		t.Error("public")
	}
}

func TestRulesReasonsAreStable(t *testing.T) {
	d := newDisk(t, "b.html")
	d.link("/etc/hostname", "a.html")
	first := d.look()
	if !slices.EqualFunc(first, d.look(), func(a, b inventory.Offer) bool { return a.URL == b.URL && a.LeftOut == b.LeftOut }) {
		t.Error("two scans differ")
	}
}
