package docroot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

func TestReadReturnsFeatures(t *testing.T) {
	d := newDisk(t, "a.html", "a.xhtml", "a.pdf")
	big := strings.Repeat("0123456789", 300_000)
	d.write("big.html", big)
	var seen []string
	d.site.Settings.Features = func(_ string, b []byte, whole bool) (inventory.Features, error) {
		seen = append(seen, string(b))
		if whole == (len(b) == 2<<20) {
			t.Errorf("%d bytes are whole: %v", len(b), whole)
		}
		return inventory.Features{Title: " a\x00b\xff\n" + strings.Repeat("ä", 1000)}, nil
	}
	for _, c := range []struct{ place, want string }{
		{"a.html", "content of a.html"}, {"a.xhtml", "content of a.xhtml"}, {"a.pdf", ""}, {"big.html", big[:2<<20]}, {"a.html", "content of a.html"},
	} {
		seen = nil
		o := must.Get(d.site.Read(t.Context(), d.offer(c.place)))
		if got := strings.Join(seen, "|"); got != c.want {
			t.Errorf("%s: asked with %.100q (%d bytes)", c.place, got, len(got))
		}
		title := "a b\uFFFD " + strings.Repeat("ä", 508)
		if c.want == "" {
			title = ""
		}
		if o.Title != title {
			t.Errorf("%s: title %q (%d bytes)", c.place, o.Title, len(o.Title))
		}
	}

	broken := errors.New("cannot tell")
	d.site.Settings.Features = func(string, []byte, bool) (inventory.Features, error) { return inventory.Features{}, broken }
	if _, err := d.site.Read(t.Context(), d.offer("a.html")); !errors.Is(err, broken) {
		t.Errorf("features fail, and Read says %v", err)
	}
}

// A page's metadata is used only as far as it is valid.
func TestFeaturesAreCleaned(t *testing.T) {
	d := newDisk(t, "d/a.html")
	own := base + "d/a.html"
	for _, c := range []struct{ language, canonical, wantLanguage, wantCanonical string }{
		{"en", "", "en", ""},
		{" pt-BR ", own, "pt-BR", ""},
		{"de_DE", "a.html#top", "", ""},
		{"zh-Hant-419", "../b.html", "zh-Hant-419", base + "b.html"},
		{"1x", "HTTPS://Other.Example:443/x", "", "https://other.example/x"},
		{"-en", "javascript:alert(1)", "", ""},
		{strings.Repeat("x", 36), "http://user@site.example/", "", ""},
		{`en"><script>`, strings.Repeat("x", protocol.MaxURL+1), "", ""},
	} {
		text := protocol.Sum([]byte("text"))
		d.site.Settings.Features = func(string, []byte, bool) (inventory.Features, error) {
			return inventory.Features{Language: c.language, Canonical: c.canonical, Text: text, Sketch: []byte("sketch")}, nil
		}
		o := must.Get(d.site.Read(t.Context(), d.offer("d/a.html")))
		if o.Language != c.wantLanguage || o.Canonical != c.wantCanonical || o.Text != text || string(o.Sketch) != "sketch" {
			t.Errorf("%.50q %.50q: %q %q", c.language, c.canonical, o.Language, o.Canonical)
		}
	}
}
