package static_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// Pages whose names differ only in their language are linked with each other and with themselves, and no other page is.
func TestSitemapLinksLanguages(t *testing.T) {
	w := newWeb(t)
	var steps []journal.Step
	for name, language := range map[string]string{
		"a.html.de": "de", "a.html.en": "en-US", "a.html.pt-br": "pt-BR", "a.html": "fr", "a-z.html.de": "de",
		"b.de.html": "de", "b.en.html": "en", "b.min.html": "en",
		"c.html.en": "en", "c.en.html": "en", "c.html.de": "de", // which of the two is English?
		"d.html.en": "en", "d/a.html.en": "en", "e.html.de?x=1.en": "en", "f.html.de": "en", "f.html.en": "en",
		"it's.html.it": "it", "it's.html.de": "de",
		"p.html.po": "pl", "p.html.cz": "cs", "p.html.dk": "da-DK", // as Apache names them
	} {
		s := w.stepOf(protocol.Create, webBase+name, "", -1, name)
		s.Entry.Item.Language = language
		steps = append(steps, s)
	}
	w.append(steps...)
	w.must(w.journal.EndBaseline())
	out := w.sitemap()
	out.Public = nil
	must.Get(out.Write(t.Context(), w.journal))
	text := must.Get(os.ReadFile(filepath.Join(w.root, "sitemap.xml")))
	links := map[string]string{}
	for entry := range strings.SplitSeq(string(text), "<url><loc>"+webBase) {
		name, rest, _ := strings.Cut(entry, "<")
		for i, link := range strings.Split(rest, "<xhtml:link ") {
			if i > 0 {
				_, link, _ = strings.Cut(link, `hreflang="`)
				tag, href, _ := strings.Cut(link, `" href="`+webBase)
				href, _, _ = strings.Cut(href, `"/>`)
				links[name] += tag + "=" + href + " "
			}
		}
	}
	a, b, it := "de=a.html.de en-US=a.html.en pt-BR=a.html.pt-br ", "de=b.de.html en=b.en.html ", "de=it&apos;s.html.de it=it&apos;s.html.it "
	p := "cs=p.html.cz da-DK=p.html.dk pl=p.html.po "
	want := map[string]string{"a.html.de": a, "a.html.en": a, "a.html.pt-br": a, "b.de.html": b, "b.en.html": b, "it&apos;s.html.de": it, "it&apos;s.html.it": it, "p.html.po": p, "p.html.cz": p, "p.html.dk": p}
	if fmt.Sprint(links) != fmt.Sprint(want) {
		t.Errorf("links\n%v, want\n%v", links, want)
	}
	if all := w.listed(); len(all) != len(steps) {
		t.Errorf("%d of %d pages are listed", len(all), len(steps))
	}
	if out, err := exec.Command(machine.Tool(t, "xmllint"), "--noout", filepath.Join(w.root, "sitemap.xml")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
