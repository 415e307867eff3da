package gather_test

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
)

// counts returns what a page refers to, and fails if counting changes anything else.
func counts(t testing.TB, g gather.Gatherer, body string, headers ...string) references.Counts {
	t.Helper()
	h := header(append([]string{"Content-Type: text/html; charset=utf-8"}, headers...)...)
	without := read(t, &g, h, body)
	was := slices.Clone(without.Links)
	g.References = true
	p := read(t, &g, h, body)
	if !slices.Equal(p.Links, was) || p.Parsed != without.Parsed || p.Canonical != without.Canonical || without.References != nil {
		t.Errorf("the page has the links %s, and without references %+v", links(p), was)
	}
	if p.References == nil {
		return references.Counts{}
	}
	c, ok := references.Parse(p.References)
	if !ok {
		t.Fatalf("references %x", p.References)
	}
	return *c
}

func hashes(urls ...string) (list []uint32) {
	for _, u := range urls {
		list = append(list, crc32.Checksum([]byte(u), crc32.MakeTable(crc32.Castagnoli)))
	}
	slices.Sort(list)
	return list
}

func TestReferences(t *testing.T) {
	const body = `<!DOCTYPE html><link rel=stylesheet href=style.css?v=1><link rel=alternate type=application/atom+xml href=//feeds.example/f.xml>
<img src=logo.GIF><img src="./logo.GIF#x"><a href=/docs/logo.GIF>the same</a> <img src="https://cdn.example/i?id=1" srcset="logo.GIF 1x, big.png 2x">
<video src=v.mp4 poster=p.jpg></video><object data=f.swf></object><script src=s.js></script>
<a href=a.html>a</a> <a href=paper.pdf>b</a> <a href="paper.pdf?page=2" rel=nofollow>b</a> <a href=../x.tar.gz>c</a> <a href=https://www.example.org/z.zip>d</a>
<a href=https://b.example/>e</a> <a href=http://b.example:81/x.php>f</a> <a href="mailto:x@c.example">g</a> <a href=/wiki/A.B.C.>h</a>`
	want := references.Counts{
		Kinds: []references.Count{{Name: "css", N: 1}, {Name: "gif", N: 1}, {Name: "gz", N: 1}, {Name: "jpg", N: 1}, {Name: "js", N: 1}, {Name: "mp4", N: 1},
			{Name: "pdf", N: 2}, {Name: "png", N: 1}, {Name: "swf", N: 1}, {Name: "xml", N: 1}, {Name: "zip", N: 1}},
		Hosts: []references.Count{{Name: "b.example", N: 2}, {Name: "feeds.example", N: 1}},
		Media: hashes("https://example.org/docs/logo.GIF", "https://cdn.example/i?id=1", "https://example.org/docs/big.png", "https://example.org/docs/v.mp4",
			"https://example.org/docs/p.jpg", "https://example.org/docs/f.swf"),
	}
	for _, embedded := range []bool{false, true} {
		if got := counts(t, gather.Gatherer{Embedded: embedded}, body); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("embedded %v:\n got %+v\nwant %+v", embedded, got, want)
		}
	}

	// One image has one hash, from wherever it is referred to.
	for _, other := range []string{"<img src=../docs/logo.GIF>", "<base href=/docs/x/y><img src=../logo.GIF>", "<img src=https://EXAMPLE.org:443/docs/logo.GIF>"} {
		if got := counts(t, gather.Gatherer{}, other); !slices.Equal(got.Media, hashes("https://example.org/docs/logo.GIF")) {
			t.Errorf("%s: %+v", other, got)
		}
	}
	if got := counts(t, gather.Gatherer{}, "<a href=b.html>c</a>"); got.Kinds != nil || got.Hosts != nil || got.Media != nil {
		t.Errorf("%+v", got)
	}
	if got := counts(t, gather.Gatherer{}, "", "Link: <https://b.example/c.pdf>; rel=next"); fmt.Sprint(got) != "{[{pdf 1}] [{b.example 1}] []}" {
		t.Errorf("of a header: %+v", got)
	}

	// The memory of one page is not that of the next.
	g := &gather.Gatherer{References: true}
	first := read(t, g, asHTML, body).References
	text := read(t, g, header("Content-Type: text/plain"), "text").References
	if second := read(t, g, asHTML, "<img src=x.png>").References; text != nil || string(second) == string(first) {
		t.Errorf("references %x, %x, %x", first, text, second)
	}
	if again := read(t, &gather.Gatherer{References: true}, asHTML, body).References; string(again) != string(first) {
		t.Errorf("references have become %x", first)
	}
}

// A page with endless images, hosts and kinds is read in time, and its links are found.
func TestHostileReferences(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `<img src="%d/x.e%d">`, i, i)
	}
	b.WriteString("<img src='data:image/png;base64," + strings.Repeat("A", 1<<20) + "'><img srcset='" + strings.Repeat("y.png 1x,", 100_000) + "'>")
	for i := range 10_000 {
		fmt.Fprintf(&b, `<a href="https://h%d.example/%d.k%d">`, i, i, i)
	}
	begun := time.Now()
	got := counts(t, gather.Gatherer{}, b.String())
	if took := time.Since(begun); took > 10*time.Second { // twice a twentieth of a second
		t.Errorf("it took %v", took)
	}
	if len(got.Kinds) != 256 || len(got.Hosts) != 64 || len(got.Media) != 256 {
		t.Errorf("%d kinds, %d hosts, %d media", len(got.Kinds), len(got.Hosts), len(got.Media))
	}
	g := &gather.Gatherer{References: true}
	if p := read(t, g, asHTML, b.String()); len(p.Links) != html.MaxLinks || p.Links[9_999].URL != "https://h9999.example/9999.k9999" || len(p.References) > 8<<10 {
		t.Errorf("%d links, %d bytes of references", len(p.Links), len(p.References))
	}
	long := "<base href=/" + strings.Repeat("x", 4000) + "/>" + strings.Repeat("z", 3) + b.String()
	if p := read(t, g, asHTML, long); len(p.References) > 8<<10 {
		t.Errorf("%d bytes of references", len(p.References))
	}
}

// On real pages, counting changes no links.
func TestReferencesOfRealPages(t *testing.T) {
	n, files := 0, 0
	for _, body := range machine.Pages(t, machine.GitDoc(t)) {
		for _, k := range counts(t, gather.Gatherer{}, string(body)).Kinds {
			files += k.N
		}
		if n++; n == 300 {
			break
		}
	}
	if files == 0 {
		t.Errorf("%d pages refer to no files", n)
	}
}
