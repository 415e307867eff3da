package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// What an index says is either usable or an error that says why: it is never read as a small site, nor as none.
func TestHostileIndexes(t *testing.T) {
	const dir = partsBase + "robots.rdf.parts/"
	s := smallParts()
	good := string(s.index().write(t))
	parts, changed := s.whole.Parts, s.whole.Changed
	about := func(p protocol.Part) string { return `rdf:about="` + p.URL + `"` }
	line := func(p protocol.Part) string {
		_, after, _ := strings.Cut(good, "<rdf:li><p:Part "+about(p))
		return "<rdf:li><p:Part " + about(p) + after[:strings.Index(after, "\n")+1]
	}
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(`<rdf:Seq xmlns="urn:parley:1#" xmlns:d="http://purl.org/dc/terms/">`)
		for i := range n {
			fmt.Fprintf(&b, `<Part rdf:about="a%x"><seq>5</seq><items>1</items><d:extent>1</d:extent><digest>%s</digest></Part>`, i, parts[0].Digest)
		}
		return b.String() + `</rdf:Seq>`
	}
	for name, c := range map[string]struct {
		old, new string
		err      string
		limit    bool
	}{
		"another origin":               {about(parts[1]), `rdf:about="https://elsewhere.example/robots.rdf.parts/a.rdf"`, "is not below", false},
		"another scheme":               {about(parts[1]), `rdf:about="file:///etc/passwd"`, "scheme", false},
		"above the manifest":           {`rdf:about="` + partsBase + `robots.rdf"`, `rdf:about="` + partsBase + `docs/robots.rdf"`, "is not below", false},
		"a manifest of another origin": {`rdf:about="` + partsBase + `robots.rdf"`, `rdf:about="https://elsewhere.example/robots.rdf"`, "origin", false},
		"no URL":                       {about(parts[1]), "", "no URL", false},
		"the index as a part":          {about(parts[1]), `rdf:about="` + partsBase + `robots.rdf"`, "index itself", false},
		"the index as a change part":   {about(changed[1]), `rdf:about="robots.rdf#part"`, "index itself", false},
		"no epoch":                     {"<p:epoch>k3v7q2m4x5n6p2aa</p:epoch>", "", "epoch", false},
		"a bad epoch":                  {"k3v7q2m4x5n6p2aa", "0", "epoch", false},
		"no seq":                       {"      <p:seq>5</p:seq>\n", "", "no p:seq", false},
		"no items":                     {"      <p:items>6</p:items>\n", "", "-1 items", false},
		"items of an impossible count": {"      <p:items>6</p:items>\n", "<p:items>4000000000</p:items>", "-1 items", false},
		"too many items":               {"      <p:items>6</p:items>\n", "<p:items>10</p:items>", "10 items", false},
		"too few items":                {"      <p:items>6</p:items>\n", "<p:items>0</p:items>", "0 items", false},
		"complete":                     {"<p:complete>false<", "<p:complete>true<", "complete", false},
		"a cursor of its own":          {"<p:complete>", "<p:epoch>e</p:epoch><p:seq>5</p:seq><p:complete>", "cursor of its own", false},
		"half a cursor of its own":     {"<p:complete>", "<p:seq>5</p:seq><p:complete>", "cursor of its own", false},
		"two wholes":                   {"</p:whole>", `</p:whole><p:whole></p:whole>`, "two", false},
		"an empty whole":               {good[strings.Index(good, "<p:whole"):strings.Index(good, "<items>")], "<p:whole/>", "no p:seq", false},
		"no part":                      {line(parts[0]) + "          " + line(parts[1]) + "          " + line(parts[2]), "", "6 items of the site", false},
		"a part after the cursor":      {about(parts[0]) + "><p:seq>2", about(parts[0]) + "><p:seq>6", "after the cursor", false},
		"a part without seq":           {about(parts[0]) + "><p:seq>2</p:seq>", about(parts[0]) + ">", "without a number as its seq", false},
		"a part of a negative seq":     {about(parts[0]) + "><p:seq>2", about(parts[0]) + "><p:seq>-2", "without a number as its seq", false},
		"a part of no entries":         {"<p:items>3</p:items><dcterms", "<p:items>0</p:items><dcterms", "0 entries", false},
		"more entries than bytes":      {"<p:items>3</p:items><dcterms", "<p:items>99999999999</p:items><dcterms", "entries in", false},
		"a part of no bytes":           {fmt.Sprintf("extent>%d<", parts[0].Length), "extent>0<", "0 bytes", false},
		"a part without extent":        {fmt.Sprintf("<dcterms:extent>%d</dcterms:extent>", parts[0].Length), "", "as its extent", false},
		"a part of 17 MiB":             {fmt.Sprintf("extent>%d<", parts[0].Length), fmt.Sprintf("extent>%d<", 17<<20), "bytes, more than", true},
		"a part without digest":        {parts[0].Digest.String(), "", "no digest", false},
		"a digest of another kind":     {parts[0].Digest.String(), "md5=:AAAA:", "no digest", false},
		"the oldest changes missing":   {line(changed[0]), "\n", "change parts begin after change 4, and a page part is as of 2", false},
		"the newest changes missing":   {line(changed[1]), "\n", "end at change 4", false},
		"all changes missing":          {line(changed[0]) + "          " + line(changed[1]), "\n", "no change parts", false},
		"changes that begin late":      {"<p:after>2", "<p:after>3", "begin after change 3, and a page part is as of 2", false},
		"a gap between changes":        {"<p:after>4", "<p:after>3", "not after 4", false},
		"changes backwards":            {"<p:after>4", "<p:after>5", "ends at 5", false},
		"a change part without after":  {"<p:after>4</p:after>", "", "as its after", false},
		"100,001 parts":                {line(parts[0]), many(100_001), "more than 100000 parts", true},
		"17 MiB of parts":              {line(parts[0]), "<!--" + strings.Repeat("0123456789abcde\n", 1<<16) + "-->", "", false},
		"deep":                         {line(parts[0]), strings.Repeat("<rdf:li>", 100), "over the limit", true},
		"a huge property of a part":    {about(parts[0]) + ">", about(parts[0]) + "><p:later>" + strings.Repeat("a", 2<<20) + "</p:later>", "over the limit", true},
		"cut short":                    {good[strings.Index(good, "<p:changed>"):], "", "ends", false},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.new, 1)
			if c.err == "" { // as often as it takes
				bad = strings.Replace(good, c.old, strings.Repeat(c.new, 17)+c.old, 1)
				c.err, c.limit = "index of more than 16777216 bytes", true
			}
			if bad == good {
				t.Fatal("nothing replaced")
			}
			o := protocol.ManifestOptions{URL: partsBase + "robots.rdf", Origin: partsBase}
			d, _, err := read(strings.NewReader(bad), o)
			if err == nil || !strings.Contains(err.Error(), c.err) || errors.Is(err, protocol.ErrLimit) != c.limit || len(err.Error()) > 700 {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if d.head.Whole != nil || d.head.Complete || len(d.items) > 0 {
				t.Errorf("%+v, %d items", d.head, len(d.items))
			}
			if _, err := protocol.ReadManifestHead(strings.NewReader(bad), o); err == nil {
				t.Error("the head alone is read without an error")
			}
		})
	}

	// An index of many items of its own is too long as well.
	long := strings.Replace(good, "</rdf:RDF>", strings.Repeat("<item rdf:about='"+partsBase+"'/>\n", 400_000)+"</rdf:RDF>", 1)
	if _, _, err := read(strings.NewReader(long), protocol.ManifestOptions{}); !errors.Is(err, protocol.ErrLimit) {
		t.Errorf("an index of %d bytes: %v", len(long), err)
	}
	// What is unknown is ignored, and URLs may be relative to the manifest.
	odd := strings.NewReplacer(`rdf:about="`+dir, `rdf:about="robots.rdf.parts/`, "<p:parts>", `<p:later><p:seq>7</p:seq></p:later><x xmlns="urn:x"/><p:parts>`,
		"</p:Part>", "<p:later>1</p:later></p:Part>").Replace(good)
	if d, _, err := read(strings.NewReader(odd), protocol.ManifestOptions{URL: partsBase + "robots.rdf"}); err != nil || s.index().diff(d) != "" {
		t.Error(err, s.index().diff(d))
	}
}

// The writer refuses what a reader would refuse.
func TestIndexWriterRefuses(t *testing.T) {
	for name, change := range map[string]func(m *protocol.Manifest){
		"a cursor of its own":   func(m *protocol.Manifest) { m.Cursor = m.Whole.Cursor },
		"complete":              func(m *protocol.Manifest) { m.Complete = true },
		"foreign":               func(m *protocol.Manifest) { m.Whole.Parts[0].URL = "https://elsewhere.example/a.rdf" },
		"not canonical":         func(m *protocol.Manifest) { m.Whole.Parts[0].URL = partsBase + "a b.rdf" },
		"no cursor":             func(m *protocol.Manifest) { m.Whole.Cursor = protocol.Cursor{} },
		"a gap":                 func(m *protocol.Manifest) { m.Whole.Changed = m.Whole.Changed[1:] },
		"the head has moved on": func(m *protocol.Manifest) { m.Whole.Cursor.Seq++ },
		"too much changed": func(m *protocol.Manifest) {
			m.Whole.Changed[0].Items, m.Whole.Changed[0].Length = protocol.MaxChangedItems, protocol.MaxPart
		},
		"long change parts": func(m *protocol.Manifest) {
			w := m.Whole
			for range 5 {
				p := protocol.Part{URL: partsBase + "x", After: w.Cursor.Seq, Seq: w.Cursor.Seq + 1, Items: 1, Length: protocol.MaxPart, Digest: w.Parts[0].Digest}
				w.Changed, w.Cursor.Seq = append(w.Changed, p), p.Seq
			}
		},
		"100,001 parts": func(m *protocol.Manifest) { m.Whole.Parts = slices.Repeat(m.Whole.Parts[:1], 100_001) },
		"long": func(m *protocol.Manifest) {
			m.Whole.Parts = slices.Repeat(m.Whole.Parts[:1], 60_000)
			m.Whole.Items = 120_000
		},
	} {
		d := smallParts().index()
		change(&d.head)
		if err := protocol.WriteManifest(io.Discard, d.head, each(d.items), nil); err == nil || !strings.HasPrefix(err.Error(), "write manifest ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of parts that are not what the index says, or not what a part may be, nothing may be used: the read ends with
// an error.
func TestHostileParts(t *testing.T) {
	const url = partsBase + "robots.rdf"
	whole := document{head: protocol.Manifest{URL: url, Base: partsBase, Items: 1, Complete: true, Cursor: protocol.Cursor{Epoch: "e", Seq: 5}}, items: []protocol.Item{offered("c.html", "c")}}
	// put replaces the content of page part i (or, if it is negative, of change part ^i), and the index names the new one.
	put := func(s *parted, i int, b []byte, entries int) {
		p := &s.whole.Changed
		if i >= 0 {
			p = &s.whole.Parts
		} else {
			i = ^i
		}
		(*p)[i] = s.file(b, (*p)[i], entries)
	}
	edit := func(s *parted, i int, old, new string, entries int) {
		p := s.whole.Changed
		if i >= 0 {
			p = s.whole.Parts
		} else {
			i = ^i
		}
		b := s.files[p[i].URL]
		edited := bytes.Replace(b, []byte(old), []byte(new), 1)
		if bytes.Equal(b, edited) {
			t.Fatalf("%q is not in\n%s", old, b)
		}
		p[i] = s.file(edited, p[i], entries)
	}
	item := func(d document) string {
		_, s, _ := strings.Cut(string(d.write(t)), "  </channel>\n")
		return strings.TrimSuffix(s, "</rdf:RDF>\n")
	}
	for name, c := range map[string]struct {
		change func(s *parted)
		err    string
		is     error
	}{
		"another content":             {func(s *parted) { s.files[s.whole.Parts[1].URL] = s.files[s.whole.Parts[2].URL] }, "part https://www.example.com/robots.rdf.parts/", protocol.ErrPart},
		"another byte":                {func(s *parted) { s.files[s.whole.Parts[1].URL][700] ^= 1 }, "digest", protocol.ErrPart},
		"cut short":                   {func(s *parted) { b := s.files[s.whole.Changed[0].URL]; s.files[s.whole.Changed[0].URL] = b[:len(b)-1] }, "bytes, not", protocol.ErrPart},
		"no file":                     {func(s *parted) { delete(s.files, s.whole.Parts[2].URL) }, "404", nil},
		"the last page part missing":  {func(s *parted) { s.whole.Parts = s.whole.Parts[:2] }, "4 items, not 6", protocol.ErrTruncated},
		"the first page part missing": {func(s *parted) { s.whole.Parts = s.whole.Parts[1:] }, "4 items, not 6", protocol.ErrTruncated},
		"an item more than stated":    {func(s *parted) { s.whole.Items-- }, "6 items, not 5", protocol.ErrTruncated},
		"an item less than stated":    {func(s *parted) { s.whole.Items++ }, "6 items, not 7", protocol.ErrTruncated},
		"parts swapped":               {func(s *parted) { slices.Reverse(s.whole.Parts) }, "out of order", nil},
		"the same part twice":         {func(s *parted) { s.whole.Parts[2] = s.whole.Parts[1] }, "out of order", nil},
		"more entries than stated":    {func(s *parted) { s.whole.Parts[1].Items-- }, "2 entries", protocol.ErrTruncated},
		"fewer entries than stated":   {func(s *parted) { s.whole.Changed[0].Items++ }, "3 entries", protocol.ErrTruncated},
		"another count in the part":   {func(s *parted) { edit(s, 0, "<p:items>2<", "<p:items>3<", 2) }, "2 items, not 2 with 3", protocol.ErrTruncated},
		"an index as a part":          {func(s *parted) { put(s, 1, s.index().write(t), 1) }, "manifest of its own", nil},
		"an index as a change part":   {func(s *parted) { put(s, ^0, smallParts().index().write(t), 1) }, "manifest of its own", nil},
		"a manifest as a part":        {func(s *parted) { put(s, 1, whole.write(t), 1) }, "manifest of its own", nil},
		"HTML as a part":              {func(s *parted) { put(s, 1, []byte("<html><body>404</body></html>"), 2) }, "root", nil},
		"a part without a channel":    {func(s *parted) { put(s, 1, []byte(hostileHead+`<item rdf:about="`+partsBase+`c.html"/></rdf:RDF>`), 1) }, "1 entries with 1 items, not 1 with -1", protocol.ErrTruncated},
		"not well-formed":             {func(s *parted) { edit(s, 1, "</item>", "<item>", 2) }, "line", nil},
		"a part that ends early":      {func(s *parted) { edit(s, 1, "</rdf:RDF>", "", 2) }, "ends", io.ErrUnexpectedEOF},
		"a tombstone in a page part":  {func(s *parted) { put(s, 1, partOf(nil, protocol.Tombstone{URL: partsBase + "c.html"}).write(t), 1) }, "tombstone", nil},
		"a foreign item": {func(s *parted) {
			edit(s, 1, partsBase+"d.html\">\n    <title", "https://elsewhere.example/\">\n    <title", 2)
		}, "foreign origin", nil},
		"an item without a URL": {func(s *parted) { edit(s, 1, "</rdf:RDF>", "<item/></rdf:RDF>", 3) }, "no URL", nil},
		"an item twice in a row": {func(s *parted) {
			edit(s, 1, "</rdf:RDF>", item(partOf([]protocol.Item{offered("d.html", "d")}))+"</rdf:RDF>", 3)
		}, "the same URL again", nil},
		"an item out of order": {func(s *parted) {
			edit(s, 1, "</rdf:RDF>", item(partOf([]protocol.Item{offered("b.html", "d")}))+"</rdf:RDF>", 3)
		}, "out of order", nil},
		"an item and its tombstone": {func(s *parted) {
			put(s, ^0, partOf([]protocol.Item{offered("f.html", "f")}, protocol.Tombstone{URL: partsBase + "f.html"}).write(t), 2)
		}, "twice", nil},
		"two tombstones of a URL": {func(s *parted) {
			g := protocol.Tombstone{URL: partsBase + "f.html"}
			put(s, ^0, partOf(nil, g, g).write(t), 2)
		}, "twice", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := smallParts()
			c.change(s)
			_, _, err := all(s.whole.Snapshot(s.open, protocol.ManifestOptions{URL: url, Origin: partsBase}))
			if err == nil || !strings.HasPrefix(err.Error(), "read the parts of a manifest: ") || !strings.Contains(err.Error(), c.err) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if c.is != protocol.ErrPart && errors.Is(err, protocol.ErrPart) {
				t.Errorf("error %v: as if another request could help", err)
			}
		})
	}

	// The limits are those of all parts together.
	s := smallParts()
	for _, o := range []protocol.ManifestOptions{{MaxItems: 5}, {MaxBytes: 4000}} {
		if items, _, err := all(s.whole.Snapshot(s.open, o)); !errors.Is(err, protocol.ErrLimit) || len(items) > 0 {
			t.Errorf("%+v: %v", o, err)
		}
	}
	// Nothing of a change part is yielded unless all that are needed are right.
	s.files[s.whole.Changed[1].URL] = nil
	if items, gone, err := all(s.whole.ChangesAfter(protocol.Cursor{Epoch: s.whole.Cursor.Epoch, Seq: 2}, s.open, protocol.ManifestOptions{})); !errors.Is(err, protocol.ErrPart) || len(items)+len(gone) > 0 {
		t.Errorf("%d items, %v", len(items), err)
	}
	// A property that cannot be read is unknown, and a caller may stop at any time.
	s = smallParts()
	edit(s, 1, "<dcterms:extent>1<", "<dcterms:extent>one<", 2)
	for n := range 7 {
		got := 0
		for _, err := range s.whole.Snapshot(s.open, protocol.ManifestOptions{}) {
			if got++; err != nil {
				t.Fatal(err)
			}
			if got > n {
				break
			}
		}
		if got != min(n+1, 6) {
			t.Errorf("%d items, stopped after %d", got, n)
		}
	}
}

// The memory of a read is that of the change parts and of one page part, even where a site means harm.
func TestMemoryOfParts(t *testing.T) {
	s := smallParts()
	// Page parts of the most bytes, of which each comes from the network anew; they hold little, but long.
	const pages = 8
	filler := "<!--" + strings.Repeat("0123456789abcde\n", 60_000) + "-->"
	s.whole.Parts = nil
	made := func(i int) []byte {
		d := partOf([]protocol.Item{offered(fmt.Sprintf("page/%03d.html", i), "x")})
		return append(d.write(t), strings.Repeat(filler, 17)...)
	}
	for i := range pages {
		s.whole.Parts = append(s.whole.Parts, s.file(made(i), protocol.Part{Seq: uint64(i)}, 1))
	}
	byURL := map[string]int{}
	for i, p := range s.whole.Parts {
		byURL[p.URL] = i
	}
	// As many changes as are allowed, as short as they can be.
	s.whole.Changed = nil
	for i := range 4 {
		var b bytes.Buffer
		fmt.Fprintf(&b, `%s<channel><p:items>0</p:items></channel>`, hostileHead)
		for j := range protocol.MaxChangedItems / 4 {
			fmt.Fprintf(&b, `<p:Tombstone rdf:about="https://h/%x.%d"/>`, j, i)
		}
		b.WriteString("</rdf:RDF>")
		s.whole.Changed = append(s.whole.Changed, s.file(b.Bytes(), protocol.Part{After: uint64(i), Seq: uint64(i + 1)}, protocol.MaxChangedItems/4))
	}
	s.whole.Items = pages
	maps.DeleteFunc(s.files, func(url string, _ []byte) bool { _, page := byURL[url]; return page })
	runtime.GC()
	w := &watched{}
	w.look()
	before := w.alloc
	open := func(p *protocol.Part) ([]byte, error) {
		runtime.GC()
		w.look()
		if i, ok := byURL[p.URL]; ok {
			return made(i), nil
		}
		return s.files[p.URL], nil
	}
	n := 0
	for _, err := range s.whole.Snapshot(open, protocol.ManifestOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	t.Logf("%d items, %d MiB more in memory", n, (w.alloc-before)>>20)
	if n != pages || w.alloc-before > 160<<20 {
		t.Errorf("%d items, heap of %d MiB more", n, (w.alloc-before)>>20)
	}
}

// Whatever an index says, it is either refused or can be written again the same.
func FuzzIndex(f *testing.F) {
	f.Add(smallParts().index().write(f))
	f.Add([]byte(strings.Replace(string(smallParts().index().write(f)), "<p:seq>5</p:seq>", "<p:seq> 5 </p:seq><p:later/>", 1)))
	f.Add([]byte(hostileHead + `<channel rdf:about="http://h/r"><p:whole><p:epoch>e</p:epoch><p:seq>0</p:seq><p:items>0</p:items></p:whole></channel></rdf:RDF>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		head, err := protocol.ReadManifestHead(bytes.NewReader(b), protocol.ManifestOptions{URL: partsBase + "robots.rdf"})
		if err != nil || head.Whole == nil {
			return
		}
		if head.Complete || !head.Cursor.IsZero() {
			t.Fatalf("%+v", head)
		}
		for p := range head.Whole.Parts {
			if u := head.Whole.Parts[p].URL; protocol.Origin(u) != protocol.Origin(head.URL) {
				t.Fatalf("%s is foreign", u)
			}
		}
		d := document{head: head}
		d.head.Items = -1
		if got, _, err := read(bytes.NewReader(d.write(t)), protocol.ManifestOptions{}); err != nil || d.diff(got) != "" {
			t.Fatal(err, d.diff(got))
		}
	})
}

// Whatever parts contain, a read of them ends with an error or with the stated number of items, in order and each once.
func FuzzParts(f *testing.F) {
	s := smallParts()
	for i, page := range s.pages {
		f.Add(page.write(f), s.changes[i%2].write(f), uint8(1), uint8(2), uint8(len(page.items)), uint8(3), uint8(4))
	}
	f.Add(s.index().write(f), s.changes[1].write(f), uint8(5), uint8(5), uint8(1), uint8(1), uint8(1))
	f.Add([]byte(hostileHead+"</rdf:RDF>"), []byte(hostileItem+hostileEnd), uint8(0), uint8(1), uint8(1), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, page, change []byte, pageSeq, seq, pageItems, changes, items uint8) {
		s := parted{whole: protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: uint64(seq)}, Items: int(items)}}
		s.whole.Parts = []protocol.Part{s.file(page, protocol.Part{Seq: uint64(pageSeq)}, int(pageItems))}
		s.whole.Changed = []protocol.Part{s.file(change, protocol.Part{Seq: uint64(seq)}, int(changes))}
		got, gone, err := all(s.whole.Snapshot(s.open, protocol.ManifestOptions{}))
		if err == nil && len(got) != int(items) || len(gone) > 0 {
			t.Fatalf("%d items, not %d; %d tombstones", len(got), items, len(gone))
		}
		if !slices.IsSortedFunc(got, func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) }) {
			t.Fatal(urlsOf(got))
		}
		got, gone, err = all(s.whole.ChangesAfter(protocol.Cursor{Epoch: "e"}, s.open, protocol.ManifestOptions{}))
		urls := map[string]bool{}
		for _, i := range got {
			urls[i.URL] = true
		}
		for _, g := range gone {
			urls[g.URL] = true
		}
		if len(urls) != len(got)+len(gone) || err == nil && seq > 0 && len(urls) != int(changes) {
			t.Fatalf("%d items and %d tombstones of %d URLs, not %d; %v", len(got), len(gone), len(urls), changes, err)
		}
	})
}
