package static_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

func (w *web) sitemap() *static.Sitemap {
	return &static.Sitemap{Path: filepath.Join(w.root, "sitemap.xml"), Base: webBase, Public: w.site.Public}
}

// A site changes, and its sitemap follows.
func TestSitemapFollowsTheSite(t *testing.T) {
	w := newWeb(t)
	w.write("index.html", "Home")
	w.write("a.html", "A")
	w.write("d/b.html", "B")
	w.write("d/secret.html", "S\nnoindex")
	w.write("d/copy.html", "C\ncanonical="+webBase+"a.html")
	w.write("d/self.html", "C\ncanonical="+webBase+"d/self.html")
	w.write("private/p.html", "P")
	w.write("robots.txt", "User-agent: *\nDisallow: /private/\n")
	if n := w.turn(w.sitemap()); n != 1 {
		t.Errorf("%d outputs written", n)
	}
	w.wantListed("at first", "d/copy.html")
	if all := w.listed(); len(all) != 4 || all[webBase+"a.html"] == "" || all[webBase] == "" {
		t.Errorf("%v", all)
	}
	w.validate("sitemap.xml")

	was := w.look()
	if n := w.turn(w.sitemap()); n != 0 || len(was.touched(w.look())) > 0 {
		t.Errorf("nothing changed, and %d outputs were written: %v", n, was.touched(w.look()))
	}
	w.write("a.html", "other")
	w.write("new.html", "new")
	w.turn(w.sitemap())
	w.wantListed("after a change", "d/copy.html")
	if w.listed()[webBase+"new.html"] == "" {
		t.Error("the new page is not listed")
	}

	w.remove("new.html")
	w.turn(w.sitemap())
	if _, ok := w.listed()[webBase+"new.html"]; !ok {
		t.Error("a page that has just vanished is no longer listed")
	}
	w.accept(w.sitemap())
	if _, ok := w.listed()[webBase+"new.html"]; ok {
		t.Error("a deleted page is listed")
	}
	w.write("robots.txt", "User-agent: *\nDisallow: /d/\n")
	w.site.AcceptRobots() // which forbade /private/
	w.turn(w.sitemap())
	if all := w.listed(); len(all) != 3 || all[webBase+"private/p.html"] == "" {
		t.Errorf("after a new rule: %v", all)
	}
	w.wantNames("at the end", "sitemap.xml")
}

// Independent tools accept it as a sitemap.
func (w *web) validate(names ...string) {
	w.Helper()
	t, ok := w.TB.(*testing.T)
	if !ok {
		return
	}
	for _, name := range names {
		t.Run("xmllint/"+name, func(t *testing.T) {
			xmllint, path := machine.Tool(t, "xmllint"), filepath.Join(w.root, name)
			if filepath.Ext(name) == ".gz" {
				out := must.Get(exec.Command(machine.Tool(t, "gzip"), "-dc", path).Output())
				path = filepath.Join(t.TempDir(), "part.xml")
				w.must(os.WriteFile(path, out, 0o600))
			}
			b := must.Get(os.ReadFile(path))
			schema := "sitemap.xsd"
			if bytes.Contains(b, []byte("<sitemapindex")) {
				schema = "siteindex.xsd"
			}
			if out, err := exec.Command(xmllint, "--noout", "--schema", filepath.Join("../../sitemap/testdata", schema), path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Hostile file names come back from the sitemap as their URLs.
func TestSitemapOfHostileNames(t *testing.T) {
	w := newWeb(t)
	names := []string{"a&b.html", "a b.html", "a'b\".html", "<a>.html", "ä.html", "%41.html", "a?b#c.html", "a\nb.html", "]]>.html", "[a].html"}
	for _, n := range names {
		w.write(n, n)
	}
	w.turn(w.sitemap())
	w.wantListed("hostile names")
	if n := len(w.listed()); n != len(names) {
		t.Errorf("%d of %d names are listed", n, len(names))
	}
	w.validate("sitemap.xml")
}

// While nothing changes, Public is not called for any page, and nothing is written; this also holds for a new
// process.
func TestUnchangedSitemapCostsNothing(t *testing.T) {
	w := newWeb(t)
	w.pages(100)
	asked := 0
	out := func() *static.Sitemap {
		s := w.sitemap()
		s.MaxURLs = 30
		s.Public = func(string) bool { asked++; return true }
		return s
	}
	run := func(what string, wrote, read bool) {
		t.Helper()
		asked = 0
		w.open()
		did := must.Get(out().Write(t.Context(), w.journal))
		if did != wrote || asked > 0 != read {
			t.Errorf("%s: wrote %v, called Public for %d pages", what, did, asked)
		}
		w.wantListed(what)
	}
	run("at first", true, true)
	was := w.look()
	run("again", false, false)
	w.must(w.journal.SetNotes(map[string][]byte{"other/note": []byte("x")}))
	run("after another's note", false, false)
	if n := was.touched(w.look()); len(n) > 0 {
		t.Errorf("touched %v", n)
	}
	w.must(w.journal.SetNotes(map[string][]byte{"output/sitemap": nil}))
	run("after its note was lost", false, true)
	w.must(w.journal.SetNotes(map[string][]byte{"output/sitemap": []byte(`{"parts":1000000000}`)}))
	run("after its note was spoiled", false, true)
	if n := was.touched(w.look()); len(n) > 0 {
		t.Errorf("touched %v", n)
	}

	part := filepath.Join(w.root, "sitemap-0002.xml")
	for what, spoil := range map[string]func(){
		"after a part was removed":    func() { w.must(os.Remove(part)) },
		"after a part was emptied":    func() { w.must(os.Truncate(part, 0)) },
		"after a part grew":           func() { w.must(appendTo(part, "<!-- -->")) },
		"after the index was removed": func() { w.must(os.Remove(filepath.Join(w.root, "sitemap.xml"))) },
		"after a part was exchanged":  func() { w.must(os.Rename(filepath.Join(w.root, "sitemap-0001.xml"), part)) },
		"after a part was linked": func() {
			w.must(os.Rename(part, filepath.Join(w.dir, "x")))
			w.must(os.Symlink(filepath.Join(w.dir, "x"), part))
			w.must(os.Truncate(filepath.Join(w.dir, "x"), 5))
		},
	} {
		spoil()
		run(what, true, true)
		run(what+", again", false, false)
	}
	w.step(protocol.Update, webBase+"p/a/x.html", "", -1, "other")
	run("after a change", true, true)
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return cmpOr(err, f.Close())
}

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A change rewrites only the files that it must.
func TestSitemapRewritesOnlyChangedFiles(t *testing.T) {
	w := newWeb(t)
	w.pages(100)
	s := w.sitemap()
	s.MaxURLs = 26
	write := func(want ...string) {
		t.Helper()
		was := w.look()
		must.Get(s.Write(t.Context(), w.journal))
		if got := was.touched(w.look()); !slices.Equal(got, want) {
			t.Errorf("touched %v, want %v", got, want)
		}
	}
	write("sitemap-0001.xml", "sitemap-0002.xml", "sitemap-0003.xml", "sitemap-0004.xml", "sitemap.xml")
	// The index says that the part has changed, also where the date of the page is not its latest.
	e, ok, err := w.journal.Get(webBase + "p/a/xx.html")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	e.Item.Digest, e.Item.Modified = protocol.Sum([]byte("other")), e.Item.Modified.Add(time.Second)
	w.append(journal.Step{Op: protocol.Update, Entry: e})
	write("sitemap-0001.xml", "sitemap.xml")
	w.wantListed("at the end")
}

// A site outgrows one file and shrinks again, with every kind of output file.
func TestSitemapGrowsAndShrinks(t *testing.T) {
	w := newWeb(t)
	must.Write(w, filepath.Join(w.root, "sitemap-0009.xml"), "somebody's")
	must.Write(w, filepath.Join(w.root, "sitemap-0001.xml.gz"), "somebody's")
	must.Write(w, filepath.Join(w.root, ".sitemap-0001.xml.123.tmp"), "of one who was killed")
	must.Write(w, filepath.Join(w.root, ".sitemap-x.xml.123.tmp"), "somebody's")
	theirs := []string{".sitemap-x.xml.123.tmp", "sitemap-0001.xml.gz", "sitemap-0009.xml"}
	var said strings.Builder
	s := w.sitemap()
	s.MaxURLs, s.Log = 5, slog.New(slog.NewTextHandler(&said, nil))
	for i := range 4 {
		w.write(fmt.Sprintf("%d.html", i), "x")
	}
	at := time.Now()
	s.Now = func() time.Time { return at }
	step := func(what string, ours ...string) {
		t.Helper()
		w.accept(s)
		w.wantListed(what)
		at = at.Add(6 * time.Hour) // old parts go
		w.turn(s)
		w.wantListed(what)
		all := append(slices.Clone(theirs), ours...)
		slices.Sort(all)
		w.wantNames(what, slices.Compact(all)...)
		var own []string
		for _, p := range s.Own() {
			own = append(own, filepath.Base(p))
		}
		for _, n := range ours {
			if !slices.Contains(own, n) {
				t.Errorf("%s: %s is not among its own", what, n)
			}
		}
	}
	step("at first", "sitemap.xml")
	if !strings.Contains(said.String(), "sitemap-0009.xml") {
		t.Errorf("leftover files were not logged: %s", said.String())
	}
	for i := range 12 {
		w.write(fmt.Sprintf("%d.html", i), "x")
	}
	step("with 12 pages", "sitemap.xml", "sitemap-0001.xml", "sitemap-0002.xml", "sitemap-0003.xml")
	w.validate("sitemap.xml", "sitemap-0001.xml", "sitemap-0002.xml", "sitemap-0003.xml")
	w.remove("11.html")
	w.remove("10.html")
	step("with 10 pages", "sitemap.xml", "sitemap-0001.xml", "sitemap-0002.xml")

	s.Precompress = true
	if _, err := s.Write(t.Context(), w.journal); err == nil || !strings.Contains(err.Error(), "sitemap-0001.xml.gz: "+another) {
		t.Errorf("another program's file is replaced: %v", err)
	}
	w.remove("sitemap-0001.xml.gz")
	theirs = slices.DeleteFunc(theirs, func(s string) bool { return s == "sitemap-0001.xml.gz" })
	step("with siblings", "sitemap.xml", "sitemap.xml.gz", "sitemap.xml.zst", "sitemap-0001.xml", "sitemap-0001.xml.gz",
		"sitemap-0001.xml.zst", "sitemap-0002.xml", "sitemap-0002.xml.gz", "sitemap-0002.xml.zst")
	for _, n := range []string{"sitemap.xml", "sitemap-0001.xml", "sitemap-0002.xml"} {
		w.wantSiblings(n)
	}
	s.Gzip = true
	step("with parts that are compressed", "sitemap.xml", "sitemap.xml.gz", "sitemap.xml.zst", "sitemap-0001.xml.gz", "sitemap-0002.xml.gz")
	w.validate("sitemap.xml", "sitemap-0001.xml.gz", "sitemap-0002.xml.gz")
	w.wantSiblings("sitemap.xml")
	s.Precompress = false
	step("without siblings", "sitemap.xml", "sitemap-0001.xml.gz", "sitemap-0002.xml.gz")
	for i := range 9 {
		w.remove(fmt.Sprintf("%d.html", i))
	}
	step("with one page", "sitemap.xml")
	w.remove("9.html")
	step("with none", "sitemap.xml")
	if n := len(w.listed()); n != 0 {
		t.Errorf("%d pages are listed of a site without any", n)
	}
}

// An error leaves every file as it was, and no others.
func TestFailedSitemapWriteChangesNothing(t *testing.T) {
	w := newWeb(t)
	w.pages(20)
	s := w.sitemap()
	s.MaxURLs = 5
	must.Get(s.Write(t.Context(), w.journal))
	w.step(protocol.Create, webBase+"0.html", "", -1, "x")
	was := w.look()
	w.must(os.Rename(filepath.Join(w.root, "sitemap-0004.xml"), filepath.Join(w.dir, "x")))
	w.must(os.Mkdir(filepath.Join(w.root, "sitemap-0004.xml"), 0o755))
	if wrote, err := s.Write(t.Context(), w.journal); err == nil || wrote || !strings.Contains(err.Error(), "sitemap-0004.xml") {
		t.Errorf("%v, %v", wrote, err)
	}
	w.must(os.Remove(filepath.Join(w.root, "sitemap-0004.xml")))
	w.must(os.Rename(filepath.Join(w.dir, "x"), filepath.Join(w.root, "sitemap-0004.xml")))
	if n := was.touched(w.look()); len(n) > 0 {
		t.Errorf("touched %v", n)
	}
	must.Get(s.Write(t.Context(), w.journal))
	w.wantListed("afterwards")
}

// A page that rules withhold for a while, without a change of the journal, is listed again by a later Write.
func TestSitemapWhileRulesChange(t *testing.T) {
	w := newWeb(t)
	w.pages(100)
	s := w.sitemap()
	s.MaxURLs = 30
	s.Begin(10)
	hidden := ""
	s.Public = func(url string) bool { return url != hidden }
	write := func(edit string) {
		t.Helper()
		w.step(protocol.Update, webBase+edit, "", -1, w.now.String())
		must.Get(s.Write(t.Context(), w.journal))
	}
	write("p/a/x.html")
	hidden = webBase + "p/z/x.html"
	write("p/z/x.html")
	w.wantListed("while a page is withheld", "p/z/x.html")
	if _, ok := w.listed()[hidden]; ok {
		t.Error("a page is listed that is not public")
	}
	hidden = ""
	write("p/a/x.html")
	w.wantListed("afterwards")
}

func TestNoSitemapBeforeFirstScanIsComplete(t *testing.T) {
	w := newWeb(t)
	if wrote, err := w.sitemap().Write(t.Context(), w.journal); wrote || err != nil || len(w.names()) > 0 {
		t.Errorf("%v, %v, %v", wrote, err, w.names())
	}
}

// A URL that a sitemap may not list is left out, and logged.
func TestSitemapOmitsUnlistableURLs(t *testing.T) {
	w := newWeb(t)
	w.pages(2)
	long := webBase + strings.Repeat("x", 2100)
	w.step(protocol.Create, long, "", -1, "x")
	w.step(protocol.Create, "https://elsewhere.example/", "", -1, "x")
	var said strings.Builder
	s := w.sitemap()
	s.Log, s.Public = slog.New(slog.NewTextHandler(&said, nil)), nil
	must.Get(s.Write(t.Context(), w.journal))
	if n := len(w.listed()); n != 2 || !strings.Contains(said.String(), "too_long=1 not_below_it=1") {
		t.Errorf("%d pages, %s", n, said.String())
	}
	if u := (&static.Sitemap{Path: "/srv/www/site map.xml", Base: "https://e.example/d"}).URL(); u != "https://e.example/d/site%20map.xml" {
		t.Error(u)
	}
}

// A sitemap whose location allows none of the site's pages is an error, not an empty file.
func TestSitemapInTheWrongDirectory(t *testing.T) {
	w := newWeb(t)
	w.write("index.html", "Home")
	w.write("a.html", "A")
	w.write("docs/s/secret.html", "S\nnoindex")
	s := &static.Sitemap{Path: filepath.Join(w.root, "docs", "s", "sitemap.xml"), Base: webBase + "docs/s/", Public: w.site.Public}
	_, err := w.publisher([]server.Output{s}).Turn(t.Context())
	if err == nil || !strings.Contains(err.Error(), "none of the 2 pages is at or below "+webBase+"docs/s/") || !strings.Contains(err.Error(), "root") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(s.Path); err == nil {
		t.Error("the sitemap was written")
	}
	w.write("docs/s/b.html", "B")
	w.turn(s)
	if all, err := readSitemap(filepath.Dir(s.Path), "sitemap.xml"); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A new sitemap has the mode of the old one, and an mtime in a later second.
func TestSitemapKeepsItsMode(t *testing.T) {
	w := newWeb(t)
	w.pages(2)
	s := w.sitemap()
	path := s.Path
	must.Get(s.Write(t.Context(), w.journal))
	info := must.Get(os.Stat(path))
	if info.Mode().Perm() != 0o644 {
		t.Errorf("%v", info.Mode())
	}
	w.must(os.Chmod(path, 0o640))
	w.step(protocol.Create, webBase+"a.html", "", -1, "x")
	s.Precompress = true
	must.Get(s.Write(t.Context(), w.journal))
	now := must.Get(os.Stat(path))
	if now.Mode().Perm() != 0o640 || !now.ModTime().Truncate(time.Second).After(info.ModTime().Truncate(time.Second)) {
		t.Errorf("%v %v, before %v", now.Mode(), now.ModTime(), info.ModTime())
	}
	w.wantSiblings("sitemap.xml")
}
