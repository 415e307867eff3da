package protocol_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A document is a whole manifest in memory.
type document struct {
	head  protocol.Manifest
	items []protocol.Item
	gone  []protocol.Tombstone
}

func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (d document) write(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, protocol.WriteManifest(&b, d.head, each(d.items), each(d.gone)))
	return b.Bytes()
}

// read reads a manifest to its end.
func read(r io.Reader, o protocol.ManifestOptions) (d document, skipped []error, err error) {
	m := protocol.NewManifestReader(r, o)
	for {
		rec, err := m.Next()
		if err != nil {
			d.head = m.Head()
			n, first := m.Skipped()
			if n != len(first) && n <= 20 {
				return d, first, fmt.Errorf("%d skipped, %d errors", n, len(first))
			}
			if err == io.EOF {
				err = nil
			}
			return d, first, err
		}
		if rec.Gone != nil {
			d.gone = append(d.gone, *rec.Gone)
		} else {
			d.items = append(d.items, rec.Item)
		}
	}
}

// diff describes the first difference between two documents.
func (d document) diff(o document) string {
	same := func(a, b protocol.Manifest) bool {
		equal := a.Modified.Equal(b.Modified)
		a.Modified, b.Modified = time.Time{}, time.Time{}
		return equal && reflect.DeepEqual(a, b)
	}
	if !same(d.head, o.head) {
		return fmt.Sprintf("head %+v\nand  %+v", d.head, o.head)
	}
	if len(d.items) != len(o.items) || len(d.gone) != len(o.gone) {
		return fmt.Sprintf("%d items, %d tombstones and %d items, %d tombstones", len(d.items), len(d.gone), len(o.items), len(o.gone))
	}
	for i := range d.items {
		if !d.items[i].Equal(o.items[i]) || d.items[i].Importance != o.items[i].Importance {
			return fmt.Sprintf("item %+v\nand  %+v", d.items[i], o.items[i])
		}
	}
	for i, a := range d.gone {
		b := o.gone[i]
		equal := a.At.Equal(b.At)
		a.At, b.At = time.Time{}, time.Time{}
		if !equal || a != b {
			return fmt.Sprintf("tombstone %+v\nand       %+v", d.gone[i], o.gone[i])
		}
	}
	return ""
}

// order sorts the entries so that they can be written.
func (d *document) order() {
	slices.SortStableFunc(d.items, func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
	d.items = slices.CompactFunc(d.items, func(a, b protocol.Item) bool { return a.URL == b.URL })
	if d.head.Items >= 0 {
		d.head.Items = len(d.items)
	}
}

func date(s string) time.Time {
	d, err := protocol.ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d.Time
}

// goldens returns documents that contain every element and every odd character.
func goldens() map[string]document {
	const base = "https://www.example.com/"
	head := protocol.Manifest{URL: base + "robots.rdf", Base: base}
	cursor := protocol.Cursor{Epoch: "k3v7q2m4x5n6p2aa", Seq: 48213}

	site := document{head: head}
	site.head.Title, site.head.Description = "Examples & more", "Pages <about> \"examples\""
	site.head.Modified = date("2026-11-21T05:00:09.250Z")
	site.head.Cursor, site.head.Complete = cursor, true
	site.head.Stream, site.head.Changes, site.head.Discovery = "wss://www.example.com/parley/stream", base+"parley/changes", base+protocol.DiscoveryPath
	site.head.Replaces = []string{"http://www.example.com/", "http://old.example:8080/"}
	site.items = []protocol.Item{
		{URL: base, Title: "Home", Modified: date("2026-11-20T01:02:03Z"), Length: 5120, Type: "text/html", Digest: protocol.Sum([]byte("home")),
			Text: protocol.Sum([]byte("Home")), Language: "en", Importance: 100},
		{URL: base + "a&b.html?x=1&y='2'", Title: "Tom & Jerry <3 \"quoted\" ]]> caf\u00e9 \U0001f600", Modified: date("2026-11-20T01:02:03.004Z"), Length: 0, Type: "text/html", Digest: protocol.Sum(nil)},
		{URL: base + "caf%C3%A9.html", Length: -1, Language: "zh-Hant-TW", Canonical: "https://other.example/caf%C3%A9?a=1&b=2", Importance: 7},
		{URL: base + "old.html", Modified: date("2004-10-01"), Span: 24 * time.Hour, Length: 1 << 40, Type: "application/xhtml+xml"},
		{URL: base + "docs/", Modified: date("2004-10-01T12:05Z"), Span: time.Minute, Length: -1, Canonical: base + "docs/a.html", Importance: 40},
		{URL: base + "docs/a.html", Modified: date("2004-10"), Span: 31 * 24 * time.Hour, Length: -1},
		{URL: base + "docs/b.html", Modified: date("2004"), Span: 366 * 24 * time.Hour, Length: -1},
	}
	site.head.Items = len(site.items)
	site.gone = []protocol.Tombstone{
		{URL: base + "was.html", At: date("2026-11-21T05:00:09.250Z"), Seq: 48213, Prev: protocol.Sum([]byte("was")), To: base + "docs/a.html"},
		{URL: base + "gone.html?a=1&b=2", At: date("2026-11-19T00:00:00Z"), Seq: 48001},
		{URL: base + "nothing.known"},
	}

	empty := document{head: head}
	empty.head.Complete, empty.head.Cursor = true, protocol.Cursor{Epoch: "e"}

	bare := document{head: head, items: []protocol.Item{{URL: base + "x", Length: -1}}}
	bare.head.Items = -1

	parts := smallParts()
	return map[string]document{"site": site, "empty": empty, "bare": bare, "index": parts.index(), "page-part": parts.pages[1], "change-part": parts.changes[0]}
}

func TestGoldenManifests(t *testing.T) {
	for name, d := range goldens() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "golden-"+name+".rdf")
			wrote := d.write(t)
			if *update {
				must.OK(t, os.WriteFile(file, wrote, 0o644))
			}
			want := must.Get(os.ReadFile(file))
			if !bytes.Equal(wrote, want) {
				t.Fatalf("%s differs from what is written:\n%s", file, wrote)
			}
			for _, r := range []io.Reader{bytes.NewReader(want), iotest.OneByteReader(bytes.NewReader(want))} {
				got, skipped, err := read(r, protocol.ManifestOptions{URL: d.head.URL, Origin: "https://www.example.com"})
				if err != nil || len(skipped) > 0 {
					t.Fatal(err, skipped)
				}
				if diff := d.diff(got); diff != "" {
					t.Fatal(diff)
				}
				if again := got.write(t); !bytes.Equal(again, want) {
					t.Fatalf("written again:\n%s", again)
				}
			}
		})
	}
}

// A manifest cut anywhere is an error: it never passes for a shorter one.
func TestManifestCutShort(t *testing.T) {
	whole := goldens()["site"].write(t)
	end := len(bytes.TrimRight(whole, "\n"))
	for n := range end {
		d, _, err := read(bytes.NewReader(whole[:n]), protocol.ManifestOptions{})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d of %d: %d items, error %v", n, len(whole), len(d.items), err)
		}
	}
	broken := errors.New("connection reset")
	_, _, err := read(io.MultiReader(bytes.NewReader(whole[:end/2]), iotest.ErrReader(broken)), protocol.ManifestOptions{})
	if !errors.Is(err, broken) {
		t.Errorf("error of the underlying reader: %v", err)
	}
}

// Former base URLs beyond the limit, and what is no URL, are ignored.
func TestReadReplaces(t *testing.T) {
	const line = `<dcterms:replaces rdf:resource="http://old.example:8080/"/>`
	whole := string(goldens()["site"].write(t))
	many := strings.Replace(whole, line, `<dcterms:replaces rdf:resource="ftp://h/"/><dcterms:replaces>http://h/</dcterms:replaces>`+strings.Repeat(line, 40), 1)
	d, skipped, err := read(strings.NewReader(many), protocol.ManifestOptions{})
	if err != nil || len(skipped) > 0 || len(d.head.Replaces) != 16 || d.head.Replaces[0] != "http://www.example.com/" || d.head.Replaces[15] != "http://old.example:8080/" {
		t.Errorf("%q, %v, %v", d.head.Replaces, skipped, err)
	}
}

// A manifest that claims to be complete with a wrong item count is an error.
func TestManifestWithWrongCount(t *testing.T) {
	whole := string(goldens()["site"].write(t))
	for _, n := range []string{"0", "6", "8", "4000000000"} {
		lying := strings.Replace(whole, "<p:items>7<", "<p:items>"+n+"<", 1)
		d, _, err := read(strings.NewReader(lying), protocol.ManifestOptions{})
		if n == "4000000000" { // no possible count: so not complete
			if err != nil || d.head.Complete || d.head.Items != -1 {
				t.Errorf("%s items: %+v, %v", n, d.head, err)
			}
			continue
		}
		if !errors.Is(err, protocol.ErrTruncated) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s items: %v", n, err)
		}
	}
	partial := strings.Replace(whole, "<p:complete>true<", "<p:complete>false<", 1)
	partial = strings.Replace(partial, "<p:items>7<", "<p:items>9<", 1)
	if d, _, err := read(strings.NewReader(partial), protocol.ManifestOptions{}); err != nil || d.head.Complete || d.head.Items != 9 {
		t.Errorf("partial: %+v, %v", d.head, err)
	}
}

func TestWriterRefuses(t *testing.T) {
	base := goldens()["site"]
	change := func(f func(d *document)) document {
		d := base
		d.items, d.gone = append([]protocol.Item(nil), base.items...), append([]protocol.Tombstone(nil), base.gone...)
		f(&d)
		return d
	}
	for name, d := range map[string]document{
		"out of order":                 change(func(d *document) { d.items[1], d.items[2] = d.items[2], d.items[1] }),
		"twice":                        change(func(d *document) { d.items[1] = d.items[0] }),
		"deep before shallow":          change(func(d *document) { d.items[0], d.items[6] = d.items[6], d.items[0] }),
		"another count":                change(func(d *document) { d.head.Items++ }),
		"complete, no count":           change(func(d *document) { d.head.Items = -1 }),
		"a space":                      change(func(d *document) { d.items[0].URL += "a b" }),
		"a line feed":                  change(func(d *document) { d.items[0].URL += "a\nb" }),
		"not ASCII":                    change(func(d *document) { d.items[0].URL += "\u00e9" }),
		"a fragment":                   change(func(d *document) { d.items[0].URL += "#a" }),
		"a bare per cent":              change(func(d *document) { d.items[0].URL += "100%" }),
		"a dot segment":                change(func(d *document) { d.items[0].URL += "a/../b" }),
		"upper case host":              change(func(d *document) { d.items[0].URL = "https://WWW.example.com/" }),
		"default port":                 change(func(d *document) { d.items[0].URL = "https://www.example.com:443/" }),
		"a user":                       change(func(d *document) { d.items[0].URL = "https://me@www.example.com/" }),
		"another scheme":               change(func(d *document) { d.items[0].URL = "file:///etc/passwd" }),
		"relative":                     change(func(d *document) { d.items[0].URL = "/a" }),
		"no URL":                       change(func(d *document) { d.items[0].URL = "" }),
		"a long URL":                   change(func(d *document) { d.items[0].URL += strings.Repeat("a", protocol.MaxURL) }),
		"no base":                      change(func(d *document) { d.head.Base = "" }),
		"no manifest URL":              change(func(d *document) { d.head.URL = "robots.rdf" }),
		"an unsupported door URL":      change(func(d *document) { d.head.Stream = "javascript:alert(1)" }),
		"a relative former base":       change(func(d *document) { d.head.Replaces = []string{"/docs/"} }),
		"too many former bases":        change(func(d *document) { d.head.Replaces = slices.Repeat([]string{"http://h/"}, 17) }),
		"a bad epoch":                  change(func(d *document) { d.head.Cursor.Epoch = "a b" }),
		"a bad tombstone":              change(func(d *document) { d.gone[1].URL = "gone" }),
		"a move to an unsupported URL": change(func(d *document) { d.gone[0].To = "ftp://www.example.com/" }),
	} {
		err := protocol.WriteManifest(io.Discard, d.head, each(d.items), each(d.gone))
		if err == nil || !strings.HasPrefix(err.Error(), "write manifest ") {
			t.Errorf("%s: %v", name, err)
		}
	}

	// The site changes between the two passes over its items.
	for name, second := range map[string][]protocol.Item{
		"fewer":  base.items[:6],
		"others": change(func(d *document) { d.items[3].URL += "x" }).items,
	} {
		n := 0
		shifting := func(yield func(protocol.Item, error) bool) {
			list := base.items
			if n++; n == 2 {
				list = second
			}
			each(list)(yield)
		}
		if err := protocol.WriteManifest(io.Discard, base.head, shifting, nil); err == nil {
			t.Errorf("%s in the second pass: no error", name)
		}
	}

	cause := errors.New("disk")
	failing := func(yield func(protocol.Item, error) bool) { yield(protocol.Item{}, cause) }
	if err := protocol.WriteManifest(io.Discard, base.head, failing, nil); !errors.Is(err, cause) {
		t.Errorf("error of the items: %v", err)
	}
	if err := protocol.WriteManifest(brokenWriter{cause}, base.head, each(base.items), nil); !errors.Is(err, cause) {
		t.Errorf("error of the writer: %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// Characters that XML cannot carry are removed; all others survive.
func TestTitles(t *testing.T) {
	const url = "https://h/docs/a%20b.html?q"
	for in, want := range map[string]string{
		"":                                       "",
		"/docs/a%20b.html?q":                     "",
		" a\tb\r\n c ":                           "a b c",
		"nul\x00 and esc\x1b[31m":                "nul and esc [31m",
		"bad \xff\xfe utf-8":                     "bad \ufffd\ufffd utf-8",
		"non\uffffcharacter":                     "non character",
		"a\u00a0b\u2028c\u0085":                  "a b c",
		"<![CDATA[&amp;]]>":                      "<![CDATA[&amp;]]>",
		strings.Repeat("x", 1023) + "\u00e9tude": strings.Repeat("x", 1023),
		strings.Repeat("\u4e2d", 600):            strings.Repeat("\u4e2d", 341),
	} {
		d := document{
			head:  protocol.Manifest{URL: "https://h/robots.rdf", Base: "https://h/", Items: 1},
			items: []protocol.Item{{URL: url, Title: in, Length: -1}},
		}
		got, _, err := read(bytes.NewReader(d.write(t)), protocol.ManifestOptions{})
		if err != nil || len(got.items) != 1 || got.items[0].Title != want {
			t.Errorf("title %.40q came back as %.60q, %v; want %.60q", in, got.items[0].Title, err, want)
		}
	}
}
