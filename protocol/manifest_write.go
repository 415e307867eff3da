package protocol

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"strconv"
)

// flushSize is the number of bytes buffered before a write.
const flushSize = 96 << 10

// WriteManifest writes a manifest in the form that the package documentation
// specifies. The same arguments give the same bytes.
//
// It ranges over items twice, first for the table of contents, and returns an
// error for input that would not be read back unchanged: items out of the order
// of [Compare], or duplicate; a number of items other than m.Items, if that is
// not -1, or another sequence the second time; a URL that [CanonicalURL] would
// change; a complete manifest without a count; an index that a reader would refuse.
// The output is then no manifest: write to a temporary place.
//
// Titles are cut at 1 KiB, without characters that XML cannot hold; an invalid
// media type, language or canonical URL, and a time outside the years 1 to 9999,
// are left out. The tombstones in gone, which may be nil, keep their order.
// Memory use does not depend on the number of items.
func WriteManifest(w io.Writer, m Manifest, items iter.Seq2[Item, error], gone iter.Seq2[Tombstone, error]) error {
	if m.Whole != nil {
		w = &indexWriter{w, MaxIndex}
	}
	mw := manifestWriter{w: w, seed: maphash.MakeSeed()}
	if err := mw.manifest(m, items, gone); err != nil {
		return fmt.Errorf("write manifest %.200s: %w", m.URL, err)
	}
	return nil
}

type manifestWriter struct {
	w          io.Writer
	buf        []byte
	cur        Item   // the current item; a field, so that it is not allocated for each
	esc        []byte // its URL, escaped
	date       []byte // its date
	urls       resolver
	canonicals resolver

	rawType, mediaType string // of the last item

	seed  maphash.Seed
	prev  string
	depth int // of prev
}

const manifestStart = `<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns:rdf="` + nsRDF + `" xmlns="` + nsRSS + `" xmlns:dc="` + nsDC + `" xmlns:dcterms="` + nsTerms + `" xmlns:p="` + nsParley + `">
`

func (w *manifestWriter) manifest(m Manifest, items iter.Seq2[Item, error], gone iter.Seq2[Tombstone, error]) error {
	w.buf = make([]byte, 0, flushSize+flushSize/3)
	if err := w.head(m); err != nil {
		return err
	}
	w.raw("    <items>\n      <rdf:Seq>\n")
	count, sum, err := w.eachItem(items, w.entry)
	if err != nil {
		return err
	}
	if m.Items >= 0 && count != m.Items {
		return fmt.Errorf("%d items written, not the stated %d", count, m.Items)
	}
	w.raw("      </rdf:Seq>\n    </items>\n  </channel>\n")
	count2, sum2, err := w.eachItem(items, w.item)
	if err != nil {
		return err
	}
	if count2 != count || sum2 != sum {
		return errors.New("the items differ between the first and the second pass")
	}
	if gone != nil {
		for t, err := range gone {
			if err != nil {
				return err
			}
			if err := w.tombstone(t); err != nil {
				return err
			}
			if err := w.flush(flushSize); err != nil {
				return err
			}
		}
	}
	w.raw("</rdf:RDF>\n")
	return w.flush(0)
}

func (w *manifestWriter) head(m Manifest) error {
	for _, u := range []string{m.URL, m.Base} {
		if err := w.urls.check(u); err != nil {
			return err
		}
	}
	if m.Complete && m.Items < 0 {
		return errors.New("complete manifest without a count of its items")
	}
	m.headTexts()
	if m.Title == "" {
		m.Title = m.Base
	}
	if m.Description == "" {
		m.Description = fallbackDescription(m.Base)
	}
	w.raw(manifestStart)
	w.raw(`  <channel rdf:about="`)
	w.text(m.URL)
	w.raw("\">\n")
	w.element("title", cleanText(m.Title))
	w.element("link", m.Base)
	w.element("description", cleanText(m.Description))
	if date := FormatDate(m.Modified); date != "" {
		w.element("dc:date", date)
		w.element("dcterms:modified", date)
	}
	if !m.Cursor.IsZero() {
		if !validEpoch(m.Cursor.Epoch) {
			return fmt.Errorf("invalid epoch %.80q", m.Cursor.Epoch)
		}
		w.element("p:epoch", m.Cursor.Epoch)
		w.element("p:seq", strconv.FormatUint(m.Cursor.Seq, 10))
	}
	if m.Items >= 0 {
		w.element("p:items", strconv.Itoa(m.Items))
	}
	w.element("p:complete", strconv.FormatBool(m.Complete))
	for _, door := range []struct{ name, url string }{{"p:stream", m.Stream}, {"p:changes", m.Changes}, {"p:discovery", m.Discovery}} {
		if door.url == "" {
			continue
		}
		if u, err := canonicalURL("", door.url, doorSchemes...); err != nil || u != door.url {
			return fmt.Errorf("%s %.200q is not a canonical URL", door.name, door.url)
		}
		w.resource(door.name, door.url)
	}
	if len(m.Replaces) > maxReplaces {
		return fmt.Errorf("%d former base URLs, more than %d", len(m.Replaces), maxReplaces)
	}
	for _, u := range m.Replaces {
		if err := w.urls.check(u); err != nil {
			return err
		}
		w.resource("dcterms:replaces", u)
	}
	if m.Whole != nil {
		return w.whole(&m)
	}
	return nil
}

var doorSchemes = []string{"http", "https", "ws", "wss"}

// eachItem checks and writes every item, and returns their number and a hash of the sequence of their URLs.
func (w *manifestWriter) eachItem(items iter.Seq2[Item, error], write func()) (n int, sum uint64, err error) {
	w.prev, w.depth = "", 0
	for i, err := range items {
		if err != nil {
			return n, sum, err
		}
		depth := Depth(i.URL)
		if n > 0 && (depth < w.depth || depth == w.depth && i.URL <= w.prev) {
			return n, sum, fmt.Errorf("item %.200q is out of order after %.200q", i.URL, w.prev)
		}
		if err := w.urls.check(i.URL); err != nil {
			return n, sum, err
		}
		w.prev, w.depth = i.URL, depth
		n, sum = n+1, sum*0x9e3779b97f4a7c15+maphash.String(w.seed, i.URL)
		w.cur, w.esc = i, appendText(w.esc[:0], i.URL)
		write()
		if err := w.flush(flushSize); err != nil {
			return n, sum, err
		}
	}
	return n, sum, nil
}

// entry writes an item's line in the table of contents.
func (w *manifestWriter) entry() {
	b := append(w.buf, "        <rdf:li rdf:resource=\""...)
	b = append(b, w.esc...)
	w.buf = append(b, "\"/>\n"...)
}

func (w *manifestWriter) item() {
	i := &w.cur
	b := append(w.buf, "  <item rdf:about=\""...)
	b = append(b, w.esc...)
	b = append(b, "\">\n    <title>"...)
	if title := titleOf(i.URL, i.Title); title != "" {
		b = appendText(b, title)
	} else {
		b = appendText(b, cleanText(fallbackTitle(i.URL)))
	}
	b = append(b, "</title>\n    <link>"...)
	b = append(b, w.esc...)
	b = append(b, "</link>\n"...)
	if w.date = (Date{i.Modified, i.Span}).Append(w.date[:0]); len(w.date) > 0 {
		b = append(b, "    <dc:date>"...)
		b = append(b, w.date...)
		b = append(b, "</dc:date>\n    <dcterms:modified>"...)
		b = append(b, w.date...)
		b = append(b, "</dcterms:modified>\n"...)
	}
	if i.Type != w.rawType {
		w.rawType, w.mediaType = i.Type, mediaType(i.Type)
	}
	if w.mediaType != "" {
		b = append(b, "    <dc:format>"...)
		b = appendText(b, w.mediaType)
		b = append(b, "</dc:format>\n"...)
	}
	if i.Length >= 0 {
		b = append(b, "    <dcterms:extent>"...)
		b = strconv.AppendInt(b, i.Length, 10)
		b = append(b, "</dcterms:extent>\n"...)
	}
	b = appendDigest(b, "digest", i.Digest)
	if i.Language != "" || i.Canonical != "" || !i.Text.IsZero() || i.Importance != 0 {
		b = w.appendFeatures(b)
	}
	w.buf = append(b, "  </item>\n"...)
}

// appendFeatures appends the properties that few pages have.
func (w *manifestWriter) appendFeatures(b []byte) []byte {
	i := &w.cur
	if lang := languageTag(i.Language); lang != "" {
		b = append(b, "    <dc:language>"...)
		b = append(b, lang...)
		b = append(b, "</dc:language>\n"...)
	}
	if u := w.canonicals.other(i.URL, i.Canonical); u != "" {
		b = append(b, "    <p:canonical rdf:resource=\""...)
		b = appendText(b, u)
		b = append(b, "\"/>\n"...)
	}
	b = appendDigest(b, "text", i.Text)
	if i.Importance != 0 {
		b = append(b, "    <p:importance>"...)
		b = i.Importance.append(b)
		b = append(b, "</p:importance>\n"...)
	}
	return b
}

func (w *manifestWriter) tombstone(t Tombstone) error {
	if err := w.urls.check(t.URL); err != nil {
		return err
	}
	w.raw(`  <p:Tombstone rdf:about="`)
	w.text(t.URL)
	w.raw("\">\n")
	if date := FormatDate(t.At); date != "" {
		w.element("dcterms:modified", date)
	}
	if t.Seq > 0 {
		w.element("p:seq", strconv.FormatUint(t.Seq, 10))
	}
	w.buf = appendDigest(w.buf, "digest", t.Prev)
	if t.To != "" {
		if err := w.urls.check(t.To); err != nil {
			return err
		}
		w.resource("dcterms:isReplacedBy", t.To)
	}
	w.raw("  </p:Tombstone>\n")
	return nil
}

func (w *manifestWriter) raw(s string)  { w.buf = append(w.buf, s...) }
func (w *manifestWriter) text(s string) { w.buf = appendText(w.buf, s) }

func (w *manifestWriter) element(name, text string) {
	w.raw("    <" + name + ">")
	w.text(text)
	w.raw("</" + name + ">\n")
}

func (w *manifestWriter) resource(name, url string) {
	w.raw("    <" + name + ` rdf:resource="`)
	w.text(url)
	w.raw("\"/>\n")
}

// flush writes the buffer if it holds size bytes or more.
func (w *manifestWriter) flush(size int) error {
	if len(w.buf) < size {
		return nil
	}
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func appendDigest(b []byte, name string, d Digest) []byte {
	if d.IsZero() {
		return b
	}
	b = append(append(append(b, "    <p:"...), name...), '>')
	b = d.append(b)
	return append(append(append(b, "</p:"...), name...), ">\n"...)
}

// appendText escapes s for both text and double-quoted attributes. Its callers
// have removed characters that XML cannot hold.
func appendText(b []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c > '>' {
			continue
		}
		entity := ""
		switch c {
		case '&':
			entity = "&amp;"
		case '<':
			entity = "&lt;"
		case '>':
			entity = "&gt;"
		case '"':
			entity = "&quot;"
		default:
			continue
		}
		b = append(append(b, s[from:i]...), entity...)
		from = i + 1
	}
	return append(b, s[from:]...)
}
