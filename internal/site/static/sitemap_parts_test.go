package static_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// index returns the date of each part that the index names, as an XML parser reads it; none if the sitemap is one file.
func (w *web) index() map[string]string {
	w.Helper()
	var index struct {
		Parts []struct {
			Loc     string `xml:"loc"`
			Lastmod string `xml:"lastmod"`
		} `xml:"sitemap"`
	}
	w.must(xml.Unmarshal(w.read("sitemap.xml"), &index))
	dates := make(map[string]string)
	for _, p := range index.Parts {
		dates[strings.TrimPrefix(p.Loc, webBase)] = p.Lastmod
	}
	return dates
}

// named returns the names of the parts.
func (w *web) named() (names []string) {
	w.Helper()
	for name := range w.index() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// partsOf returns the contents of the parts of a sitemap, sorted.
func (w *web) partsOf() (all []string) {
	w.Helper()
	for _, name := range w.named() {
		all = append(all, string(w.read(name)))
	}
	slices.Sort(all)
	return all
}

// Pages come, change, move and go, one by one: only parts with a touched page are read and written, their dates in the
// index tell it, and all other parts keep their names, dates and bytes. The parts depend on the present pages alone.
func TestSitemapWritesOnlyTouchedParts(t *testing.T) {
	w := newWeb(t)
	w.pages(300)
	at, asked := time.Now().UTC().Truncate(time.Second), 0
	s := w.sitemap()
	s.MaxURLs = 60
	s.Begin(16)
	s.Now = func() time.Time { return at }
	s.Public = func(string) bool { asked++; return true }
	must.Get(s.Write(t.Context(), w.journal))
	w.wantListed("at first")
	if n := len(w.named()); n < 10 {
		t.Fatalf("%d parts", n)
	}
	r := rand.New(rand.NewPCG(3, 4))
	present := func() (urls []string) {
		for url := range w.listed() {
			urls = append(urls, url)
		}
		slices.Sort(urls)
		return urls
	}
	most, moved := 0, 0
	for i := range 120 {
		was, look, urls := w.index(), w.look(), present()
		some := urls[r.IntN(len(urls))]
		other := fmt.Sprintf("%sp/%c/n%d.html", webBase, 'a'+rune(r.IntN(26)), i)
		text := fmt.Sprint(i)
		switch r.IntN(4) {
		case 0:
			w.step(protocol.Create, other, "", -1, text)
		case 1:
			w.step(protocol.Update, some, "", -1, text)
		case 2:
			w.append(journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: some}}})
		case 3:
			w.step(protocol.Move, other, some, -1, text)
			moved++
		}
		at, asked = at.Add(time.Minute), 0
		wrote := must.Get(s.Write(t.Context(), w.journal))
		what := fmt.Sprint("after edit ", i)
		w.wantListed(what)
		touched, now := look.touched(w.look()), w.index()
		for name, date := range now {
			changed := slices.Contains(touched, name)
			if before, ok := was[name]; ok && changed != (date == at.Format(time.RFC3339)) || ok && !changed && before != date {
				t.Fatalf("%s: %s was written: %v, and the index has %s, before %s", what, name, changed, date, before)
			}
		}
		if !wrote || len(touched) > 6 || asked > 150 { // a page goes from one range to another, and both may lose or get their first page
			t.Fatalf("%s: wrote %v; %d pages were read", what, touched, asked)
		}
		most = max(most, asked)
	}
	t.Logf("%d parts; at most %d of %d pages were read for an edit; %d moves", len(w.named()), most, len(present()), moved)
	for _, name := range w.named()[:3] {
		w.validate(name)
	}
	w.validate("sitemap.xml")

	as := w.partsOf()
	w.must(w.journal.SetNotes(map[string][]byte{"output/sitemap": nil}))
	must.Get(s.Write(t.Context(), w.journal))
	if !slices.Equal(as, w.partsOf()) {
		t.Error("without its notes it cuts the pages in another way")
	}
}

// A crawler reads the index, and fetches the parts hours later: they are there, although the site has outgrown one
// file, or has become small again, in between. Then they go.
func TestOldSitemapPartsStay(t *testing.T) {
	w := newWeb(t)
	at := time.Now()
	write := func(what string) {
		t.Helper()
		s := w.sitemap()
		s.MaxURLs, s.Precompress = 40, true
		s.Begin(10)
		s.Now = func() time.Time { return at }
		must.Get(s.Write(t.Context(), w.journal))
		w.wantListed(what)
	}
	w.pages(100)
	write("at first")
	held := w.named()
	there := func() (n int) {
		for _, name := range held {
			if _, err := os.Stat(filepath.Join(w.root, name)); err == nil {
				n++
			}
		}
		return n
	}
	cut := func(left int) {
		var steps []journal.Step
		all := w.listed()
		for url := range all {
			if len(all)-len(steps) > left {
				steps = append(steps, journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: url}}})
			}
		}
		w.append(steps...)
	}
	cut(30)
	write("with less pages than fit one file")
	if len(w.named()) < 2 {
		t.Error("it does not stay in parts")
	}
	cut(10)
	write("with few pages")
	if len(w.named()) > 0 || there() != len(held) {
		t.Errorf("it is in the parts %v; %d of %v are there", w.named(), there(), held)
	}
	at = at.Add(5 * time.Hour)
	write("five hours later")
	if there() != len(held) {
		t.Errorf("%d of %v are there", there(), held)
	}
	at = at.Add(2 * time.Hour)
	write("seven hours later")
	w.wantNames("seven hours later", "sitemap.xml", "sitemap.xml.gz", "sitemap.xml.zst")
	for i := range 60 {
		w.step(protocol.Create, fmt.Sprintf("%sn/%d.html", webBase, i), "", -1, "x")
	}
	write("grown again")
	var want []string
	for _, name := range append(w.named(), "sitemap.xml") {
		w.wantSiblings(name)
		want = append(want, name, name+".gz", name+".zst")
	}
	slices.Sort(want)
	w.wantNames("grown again", want...)
}

// No file names a page that a rule has withdrawn, also none that only an old index names.
func TestWithdrawnPageLeavesOldParts(t *testing.T) {
	w := newWeb(t)
	w.pages(100)
	secret := webBase + "p/c/x.html"
	hidden := ""
	write := func() {
		t.Helper()
		s := w.sitemap()
		s.MaxURLs, s.Public = 20, func(url string) bool { return url != hidden }
		s.Begin(10)
		must.Get(s.Write(t.Context(), w.journal))
	}
	write()
	before := len(w.names())
	gone := func(urls ...string) {
		var steps []journal.Step
		for _, url := range urls {
			steps = append(steps, journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: url}}})
		}
		w.append(steps...)
	}
	var most []string
	for url := range w.listed() {
		if url != secret {
			most = append(most, url)
		}
	}
	gone(most[:95]...)
	write()
	if len(w.named()) > 0 || len(w.names()) != before {
		t.Errorf("after most pages have gone: %v", w.names())
	}
	hidden = secret
	gone(secret)
	write()
	w.wantNames("after a page was withdrawn", "sitemap.xml")
	if bytes.Contains(w.read("sitemap.xml"), []byte(secret)) {
		t.Error("the page is listed")
	}
}

// The pages of a group, which differ in their language, are in one part, and linked with each other after each edit.
func TestLanguagesAreOfOnePart(t *testing.T) {
	w := newWeb(t)
	w.pages(60)
	s := w.sitemap()
	s.MaxURLs = 40
	s.Begin(2)
	page := func(tag string) journal.Step {
		x := w.stepOf(protocol.Create, webBase+"p/c/page.html."+tag, "", -1, tag)
		x.Entry.Item.Language = tag
		return x
	}
	for i, tag := range []string{"fr", "de", "en", "cs"} {
		w.append(page(tag))
		must.Get(s.Write(t.Context(), w.journal))
		links := 0
		for _, name := range w.named() {
			links += strings.Count(string(w.read(name)), "hreflang=")
		}
		if n := i + 1; n > 1 && links != n*n {
			t.Errorf("%d links among %d languages", links, n)
		}
		w.wantListed(tag)
	}
}
