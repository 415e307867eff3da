package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func readFile(t *testing.T, name string, o protocol.ManifestOptions) (document, []error) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	d, skipped, err := read(bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return d, skipped
}

// The thesis's own figure, faults and all (C18, E01): if a URL has two times, the later one is kept and the
// other is counted as skipped.
func TestFigure65(t *testing.T) {
	got, skipped := readFile(t, "figure-6.5.rdf", protocol.ManifestOptions{URL: "http://www.example.com/robots.rdf", Origin: "http://www.example.com"})
	want := document{
		head:  protocol.Manifest{URL: "http://www.example.com/", Base: "http://www.example.com/", Items: -1},
		items: []protocol.Item{{URL: "http://www.example.com/one.html", Modified: date("2004-11-21T07:01:00Z"), Span: time.Minute, Length: -1}},
	}
	if diff := want.diff(got); diff != "" {
		t.Error(diff)
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0].Error(), "the same URL again") || !strings.Contains(skipped[0].Error(), "one.html") {
		t.Errorf("skipped: %v", skipped)
	}
}

func TestUnusualManifests(t *testing.T) {
	got, skipped := readFile(t, "odd-prefixes.rdf", protocol.ManifestOptions{URL: "http://www.example.com/d/robots.rdf"})
	want := document{
		head: protocol.Manifest{
			URL: "http://www.example.com/d/robots.rdf", Base: "http://www.example.com/docs/",
			Title: "A <site> & its pages", Modified: date("2004-10-02"), Items: -1,
			Cursor: protocol.Cursor{Epoch: "e", Seq: 17}, Stream: "http://other.example/stream",
		},
		items: []protocol.Item{
			{URL: "http://www.example.com/d/a.html?x=1&y=2", Title: "one two", Modified: date("2004-10-01T10:05Z"), Span: time.Minute, Length: 123, Type: "text/html"},
			{URL: "http://www.example.com/b.html?x=1&y=2", Modified: date("2004-11"), Span: 30 * 24 * time.Hour, Length: -1},
		},
	}
	if diff := want.diff(got); diff != "" || len(skipped) > 0 {
		t.Error(diff, skipped)
	}

	got, skipped = readFile(t, "odd-feed.rdf", protocol.ManifestOptions{})
	want = document{
		head: protocol.Manifest{
			URL: "http://www.example.com/news.rdf", Base: "http://www.example.com/", Title: "News",
			Description: "Plain RSS 1.0, the channel at its end.", Modified: date("2004-10-03"), Items: -1,
		},
		items: []protocol.Item{
			{URL: "http://www.example.com/z.html", Title: "The last first", Modified: date("2004-10-01T12:05:06.5Z"), Length: -1},
			{URL: "http://www.example.com/a.html", Title: "The first last", Length: -1},
		},
	}
	if diff := want.diff(got); diff != "" || len(skipped) > 0 {
		t.Error(diff, skipped)
	}
}

// manifest wraps entries in a document of the right form.
func manifest(entries string) string {
	return `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"` +
		` xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:p="urn:parley:1#">` +
		`<channel rdf:about="https://h/robots.rdf"/>` + entries + `</rdf:RDF>`
}

// A useless entry is skipped with its reason, and the others are kept.
func TestUselessEntriesAreSkipped(t *testing.T) {
	const good = `<item rdf:about="https://h/good"/>`
	for entry, why := range map[string]string{
		`<item/>`: "no URL",
		`<item rdf:about=" "><link> </link></item>`:                       "no URL",
		`<item rdf:about="https://elsewhere/a"/>`:                         "foreign origin",
		`<item rdf:about="https://h.elsewhere/a"/>`:                       "foreign origin",
		`<item rdf:about="http://h/a"/>`:                                  "foreign origin",
		`<item rdf:about="https://h:8443/a"/>`:                            "foreign origin",
		`<item rdf:about="//elsewhere/a"/>`:                               "foreign origin",
		`<item rdf:about="\\elsewhere\a"/>`:                               "",
		`<item rdf:about="https://h@elsewhere/"/>`:                        "user name in URL",
		`<item rdf:about="https://me@h/a"/>`:                              "user name in URL",
		`<item rdf:about="javascript:alert(1)"/>`:                         "scheme",
		`<item rdf:about="file:///etc/passwd"/>`:                          "scheme",
		`<item rdf:about="https://h/a&#10;b"/>`:                           "control character",
		`<item rdf:about="https://h/a&#127;b"/>`:                          "control character",
		`<item><link>https://h/a&#13;b</link></item>`:                     "control character",
		`<item rdf:about="https://h/` + strings.Repeat("a", 8184) + `"/>`: "longer than",
		`<p:Tombstone rdf:about="https://elsewhere/a"/>`:                  "foreign origin",
		`<p:Tombstone/>`:                             "no URL",
		`<item rdf:about="https://h/good"/>`:         "the same URL again",
		`<rdf:Description rdf:about="https://h/a"/>`: "", // no entry
	} {
		d, skipped, err := read(strings.NewReader(manifest(good+entry)), protocol.ManifestOptions{URL: "https://h/robots.rdf", Origin: "HTTPS://h:443"})
		if err != nil {
			t.Errorf("%.80s: %v", entry, err)
			continue
		}
		if why == "" {
			if len(skipped) > 0 {
				t.Errorf("%.80s: %v", entry, skipped)
			}
			continue
		}
		if len(skipped) != 1 || !strings.Contains(skipped[0].Error(), why) || len(skipped[0].Error()) > 600 {
			t.Errorf("%.80s: skipped %v, want %q", entry, skipped, why)
		}
		if len(d.items) != 1 || d.items[0].URL != "https://h/good" || len(d.gone) > 0 {
			t.Errorf("%.80s: %+v", entry, d)
		}
	}
}

// An element that cannot be parsed is unknown; its item is still returned.
func TestUnparsableElementsAreUnknown(t *testing.T) {
	for part, want := range map[string]protocol.Item{
		`<dcterms:extent>-5</dcterms:extent>`:                                            {Length: -1},
		`<dcterms:extent>12 bytes</dcterms:extent>`:                                      {Length: -1},
		`<dcterms:extent>9223372036854775808</dcterms:extent>`:                           {Length: -1},
		`<dcterms:extent>99999999999999999999</dcterms:extent>`:                          {Length: -1},
		`<dcterms:extent/>`:                                                              {Length: -1},
		`<dcterms:extent> 9223372036854775807 </dcterms:extent>`:                         {Length: 1<<63 - 1},
		`<dcterms:modified>yesterday</dcterms:modified>`:                                 {Length: -1},
		`<dc:format>html</dc:format>`:                                                    {Length: -1},
		`<dc:format>text/ht ml</dc:format>`:                                              {Length: -1},
		`<p:digest>md5=:AA==:</p:digest>`:                                                {Length: -1},
		`<dc:language>e n</dc:language>`:                                                 {Length: -1},
		`<dc:language>` + strings.Repeat("a", 36) + `</dc:language>`:                     {Length: -1},
		`<dc:language> ` + strings.Repeat("a", 35) + ` </dc:language>`:                   {Length: -1, Language: strings.Repeat("a", 35)},
		`<dc:language>en</dc:language><dc:language>d&#233;</dc:language>`:                {Length: -1},
		`<p:canonical rdf:resource="javascript:alert(1)"/>`:                              {Length: -1},
		`<p:canonical rdf:resource="https://h/` + strings.Repeat("a", 8184) + `"/>`:      {Length: -1},
		`<p:canonical rdf:resource="https://h/a"/>`:                                      {Length: -1},
		`<p:canonical rdf:resource="HTTPS://h:443/./a#b"/>`:                              {Length: -1},
		`<p:canonical>https://h/b</p:canonical>`:                                         {Length: -1},
		`<p:canonical rdf:resource="https://elsewhere/ b"><p:x/></p:canonical>`:          {Length: -1, Canonical: "https://elsewhere/%20b"},
		`<p:text>md5=:AA==:</p:text>`:                                                    {Length: -1},
		`<p:importance>0</p:importance>`:                                                 {Length: -1},
		`<p:importance>-0.5</p:importance>`:                                              {Length: -1},
		`<p:importance>1.001</p:importance>`:                                             {Length: -1},
		`<p:importance>0x1</p:importance>`:                                               {Length: -1},
		`<p:importance>high</p:importance>`:                                              {Length: -1},
		`<p:importance>0.0.1</p:importance>`:                                             {Length: -1},
		`<p:importance>.28</p:importance>`:                                               {Length: -1, Importance: 28},
		`<p:importance> 0.001 </p:importance>`:                                           {Length: -1, Importance: 1},
		`<p:future rdf:resource="x"><p:more/></p:future>`:                                {Length: -1},
		`<dc:date>2004-10-01T00:00:00Z</dc:date><dc:date>2005-10-01T00:00:00Z</dc:date>`: {Length: -1, Modified: date("2004-10-01")},
		`<title> </title>`:                                                               {Length: -1},
		`<title>/a</title>`:                                                              {Length: -1},
	} {
		d, skipped, err := read(strings.NewReader(manifest(`<item rdf:about="https://h/a">`+part+`</item>`)), protocol.ManifestOptions{})
		want.URL = "https://h/a"
		if err != nil || len(skipped) > 0 || len(d.items) != 1 || !d.items[0].Equal(want) || d.items[0].Importance != want.Importance {
			t.Errorf("%s: %+v, %v, %v", part, d.items, skipped, err)
		}
	}
	// A tombstone whose replacement lies outside the site is a deletion.
	d, _, err := read(strings.NewReader(manifest(`<p:Tombstone rdf:about="https://h/a"><p:seq>-1</p:seq>`+
		`<dcterms:isReplacedBy rdf:resource="https://elsewhere/"/></p:Tombstone>`)), protocol.ManifestOptions{Origin: "https://h"})
	if err != nil || !reflect.DeepEqual(d.gone, []protocol.Tombstone{{URL: "https://h/a"}}) {
		t.Errorf("%+v, %v", d.gone, err)
	}
}

func TestReaderLimits(t *testing.T) {
	three := manifest(`<item rdf:about="https://h/a"/><item/><p:Tombstone rdf:about="https://h/b"/>`)
	for max, over := range map[int]bool{0: false, 2: true, 3: false} {
		d, _, err := read(strings.NewReader(three), protocol.ManifestOptions{MaxItems: max})
		if errors.Is(err, protocol.ErrLimit) != over || !over && err != nil || len(d.items) != 1 {
			t.Errorf("at most %d entries: %v", max, err)
		}
	}
	for max, over := range map[int]bool{0: false, len(three) - 1: true, len(three): false} {
		_, _, err := read(strings.NewReader(three), protocol.ManifestOptions{MaxBytes: int64(max)})
		if errors.Is(err, protocol.ErrLimit) != over || !over && err != nil {
			t.Errorf("at most %d bytes: %v", max, err)
		}
	}
	r := protocol.NewManifestReader(strings.NewReader("<a/>"), protocol.ManifestOptions{URL: "https://h/robots.rdf"})
	_, first := r.Next()
	_, second := r.Next()
	if first == nil || first == io.EOF || first != second || !strings.HasPrefix(first.Error(), "read manifest https://h/robots.rdf: ") {
		t.Errorf("errors %v, then %v", first, second)
	}
}

// Elements that Parley does not know are available to callers that ask for them.
func TestExtensions(t *testing.T) {
	const ns = `xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"`
	doc := strings.Replace(manifest(
		`<item rdf:about="https://h/a"><dc:creator>Ada</dc:creator><sy:x `+ns+` y="1">z<sy:deep/></sy:x></item>`+
			`<item rdf:about="https://h/b"><dc:rights>`+strings.Repeat("x", 70<<10)+`</dc:rights><dc:creator>late</dc:creator></item>`+
			`<item rdf:about="https://h/c"><dc:creator>Eve</dc:creator></item>`),
		`robots.rdf"/>`, `robots.rdf"><sy:updatePeriod `+ns+`>daily</sy:updatePeriod></channel>`, 1)
	r := protocol.NewManifestReader(strings.NewReader(doc), protocol.ManifestOptions{Extensions: true})
	var got []string
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, el := range rec.Extensions {
			got = append(got, rec.Item.URL+" "+el.NamespaceURI()+" "+el.Tag+" "+el.Text())
		}
	}
	want := []string{
		"https://h/a http://purl.org/dc/elements/1.1/ creator Ada",
		"https://h/a http://purl.org/rss/1.0/modules/syndication/ x z",
		"https://h/c http://purl.org/dc/elements/1.1/ creator Eve",
	}
	if !slices.Equal(got, want) {
		t.Errorf("of items: %q", got)
	}
	if e := r.Extensions(); len(e) != 1 || e[0].Text() != "daily" || e[0].NamespaceURI() != "http://purl.org/rss/1.0/modules/syndication/" {
		t.Errorf("of the channel: %v", e)
	}
}

// In Parley's own form the channel comes first, so the head is known with the first entry.
func TestHeadComesFirst(t *testing.T) {
	d := goldens()["site"]
	r := protocol.NewManifestReader(bytes.NewReader(d.write(t)), protocol.ManifestOptions{})
	if _, err := r.Next(); err != nil || r.Head().Cursor != d.head.Cursor || r.Head().Items != len(d.items) {
		t.Errorf("%+v, %v", r.Head(), err)
	}
}

func FuzzManifest(f *testing.F) {
	files, err := filepath.Glob("testdata/*.rdf")
	if err != nil || len(files) < 6 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b := must.Get(os.ReadFile(name))
		f.Add(b)
	}
	f.Add([]byte(manifest(`<item rdf:about="/%"><title>a&#9;</title></item><p:Tombstone rdf:about="b"/>`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := protocol.ManifestOptions{URL: "https://www.example.com/d/robots.rdf", Extensions: true, MaxItems: 10_000}
		if _, ok := roundTrip(t, b, o); !ok {
			// Readers without extensions get the same error.
			o.Extensions = false
			if _, _, err := read(bytes.NewReader(b), o); err == nil {
				t.Fatal("an error occurs only with extensions")
			}
		}
	})
}

// ReadManifestHead finds the same head as a full read, and of a manifest in Parley's own form it reads no
// more than the head.
func TestReadManifestHead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.rdf")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o := protocol.ManifestOptions{URL: "http://www.example.com/d/robots.rdf"}
		whole, _, err := read(bytes.NewReader(b), o)
		if err != nil {
			t.Fatal(err)
		}
		head, err := protocol.ReadManifestHead(bytes.NewReader(b), o)
		if diff := whole.diff(document{head: head, items: whole.items, gone: whole.gone}); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", name, err, diff)
		}
		// A manifest cut short is an error or gives the full head, never a shorter one.
		for n := 0; n < len(b); n += 1 + len(b)/1500 {
			if cut, err := protocol.ReadManifestHead(bytes.NewReader(b[:n]), o); err == nil && !reflect.DeepEqual(cut, head) {
				t.Fatalf("%s cut at %d: %+v", name, n, cut)
			}
		}
	}
	d := document{head: goldens()["site"].head}
	for i := range 20_000 {
		d.items = append(d.items, protocol.Item{URL: fmt.Sprintf("https://www.example.com/%05d", i), Length: -1})
	}
	d.head.Items = len(d.items)
	b := d.write(t)
	left := bytes.NewReader(b)
	head, err := protocol.ReadManifestHead(left, protocol.ManifestOptions{})
	if err != nil || head.Items != len(d.items) || head.Cursor != d.head.Cursor || left.Len() < len(b)-256<<10 {
		t.Errorf("%+v, %v, and %d of %d bytes are unread", head, err, left.Len(), len(b))
	}
}
