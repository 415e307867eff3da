package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/beevik/etree"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// ManifestOptions says how to read a manifest. The zero value works for a
// manifest whose URLs are absolute.
type ManifestOptions struct {
	// URL is the manifest's own. Relative URLs are resolved against it.
	URL string

	// Origin, if set, is a scheme://host[:port]: entries of any other origin are
	// skipped and counted. See [Origin].
	Origin string

	// MaxBytes bounds the document. Zero means 4 GiB.
	MaxBytes int64

	// MaxItems bounds its items and tombstones together, including skipped
	// ones. Zero means 10,000,000.
	MaxItems int

	// Extensions asks for Record.Extensions, which cost time and memory.
	Extensions bool
}

// A Record is one entry of a manifest.
type Record struct {
	Item Item       // zero if Gone is set
	Gone *Tombstone // nil for an item

	// Extensions are the child elements that Parley does not know, up to
	// 64 KiB of them, if ManifestOptions.Extensions is set. Compare their
	// NamespaceURI, not their prefix.
	Extensions []*etree.Element
}

const (
	maxItemsDefault = 10_000_000
	maxBytesDefault = 4 << 30
	maxExtensions   = 64 << 10 // bytes of one entry's
	keptErrors      = 20
)

// A ManifestReader reads a manifest as a stream: one of Parley, of figure 6.5
// of the thesis, or any RSS 1.0. Its memory use does not depend on the length
// or content of the manifest.
//
// An unusable entry is skipped and counted (see Skipped): one without a URL,
// with a URL that [CanonicalURL] refuses, or of a foreign origin. A property of
// an entry that cannot be parsed, such as a date, a length or a digest, is
// unknown; the entry is still returned, since its absence would mean that the
// page is gone. Of adjacent items with the same URL only the one with the latest
// date is returned; duplicates further apart are not detected.
//
// It is for one goroutine.
type ManifestReader struct {
	x       document
	o       ManifestOptions
	err     error // final
	begun   bool  // the root has been read
	channel channel
	entry   entryReader

	pending Record // read, but not returned until the next entry has another URL
	held    bool
	entries int // elements read: items and tombstones
	items   int // items alone

	skipped int
	first   []error
}

// NewManifestReader returns a reader of the manifest in r. It reads ahead.
func NewManifestReader(r io.Reader, o ManifestOptions) *ManifestReader {
	if o.MaxItems <= 0 {
		o.MaxItems = maxItemsDefault
	}
	m := &ManifestReader{
		x:       document{Reader: xmlpull.NewReader(r, xmlpull.Limits{Bytes: o.MaxBytes})},
		o:       o,
		channel: channel{head: Manifest{URL: o.URL, Items: -1}},
		entry:   entryReader{urls: resolver{base: o.URL}, canonicals: resolver{base: o.URL}, extensions: o.Extensions},
	}
	if s, err := CanonicalURL("", o.URL); err == nil {
		m.channel.head.URL = s
		m.channel.head.Base, _ = CanonicalURL(s, "./")
	}
	if o.Origin != "" {
		m.entry.origin = strings.TrimSuffix(o.Origin, "/") + "/"
		if s, err := CanonicalURL("", o.Origin); err == nil {
			m.entry.origin = Origin(s) + "/"
		}
	}
	return m
}

// ReadManifestHead returns the head of the manifest in r. If the manifest is in
// Parley's own form, it reads only up to the table of contents, and so does not
// check that the rest is present and well-formed. For a document without a
// channel it returns a head with only the URLs set.
func ReadManifestHead(r io.Reader, o ManifestOptions) (Manifest, error) {
	m := NewManifestReader(r, o)
	m.channel.only = true
	for {
		if _, err := m.Next(); err == io.EOF {
			return m.channel.head, nil
		} else if err != nil {
			return Manifest{}, err
		}
	}
}

// Head returns the head of the manifest. It is fully read after the first call of
// Next if the channel comes first, as in Parley's own form, and in any case
// after Next has returned an error.
func (r *ManifestReader) Head() Manifest { return r.channel.head }

// Skipped returns the number of skipped entries, and the reasons for the first 20.
func (r *ManifestReader) Skipped() (n int, first []error) { return r.skipped, r.first }

// Next returns the next entry. At the end of a well-formed document it returns
// io.EOF, or an error wrapping ErrTruncated if the document says it is complete
// but its number of items is not its count. The error for a document cut short
// wraps io.ErrUnexpectedEOF; for one beyond a limit, ErrLimit. Errors are final.
func (r *ManifestReader) Next() (Record, error) {
	for r.err == nil {
		rec, ok, err := r.read()
		switch {
		case err == io.EOF:
			r.err = io.EOF
		case err != nil:
			r.err = r.named(err)
		case !ok:
		case !r.held:
			r.pending, r.held = rec, true
		case rec.Gone == nil && r.pending.Gone == nil && rec.Item.URL == r.pending.Item.URL:
			r.skip(rec.Item.URL, errors.New("the same URL again"))
			if rec.Item.Modified.After(r.pending.Item.Modified) {
				r.pending = rec
			}
		default:
			rec, r.pending = r.pending, rec
			return rec, nil
		}
	}
	if r.held {
		r.held = false
		return r.pending, nil
	}
	return Record{}, r.err
}

// named adds the manifest's URL to an error.
func (r *ManifestReader) named(err error) error {
	name := ""
	if r.o.URL != "" {
		name = fmt.Sprintf(" %.200s", r.o.URL)
	}
	return fmt.Errorf("read manifest%s: %w", name, err)
}

// read reads the next entry. It returns false if the entry is unusable.
func (r *ManifestReader) read() (Record, bool, error) {
	for {
		k, err := r.x.Tag()
		if c := &r.channel; err == io.EOF && c.head.Complete && r.items != c.head.Items && !c.only {
			return Record{}, false, fmt.Errorf("%w: %d items, not %d", ErrTruncated, r.items, c.head.Items)
		}
		if err != nil {
			return Record{}, false, err
		}
		if r.channel.head.Whole != nil && r.x.Offset() > MaxIndex {
			return Record{}, false, errLongIndex
		}
		if k != xmlpull.Start {
			continue
		}
		if !r.begun {
			r.begun = true
			if local := string(r.x.Local()); local != "RDF" && local != "rdf" || !isRDF(r.x.Space()) {
				return Record{}, false, fmt.Errorf("root element is {%.80s}%.80s, not rdf:RDF", r.x.Space(), local)
			}
			continue
		}
		gone := r.x.Is(nsParley, "Tombstone")
		switch {
		case gone, r.x.Is(nsRSS, "item"):
			if r.entries++; r.entries > r.o.MaxItems {
				return Record{}, false, fmt.Errorf("more than %d entries: %w", r.o.MaxItems, ErrLimit)
			}
			if !gone {
				r.items++
			}
			rec, unusable, err := r.entry.read(&r.x, gone)
			if unusable != nil {
				r.skip(string(r.entry.ref[:min(len(r.entry.ref), 800)]), unusable)
			}
			return rec, err == nil && unusable == nil, err
		case r.x.Is(nsRSS, "channel") && !r.channel.read:
			if err = r.channel.parse(&r.x, r.o.URL, r.entry.origin); err == nil && r.channel.only {
				err = io.EOF
			}
		default:
			err = r.x.Skip()
		}
		if err != nil {
			return Record{}, false, err
		}
	}
}

func isRDF(space []byte) bool { return string(space) == nsRDF || string(space) == nsRDFLoose }

func (r *ManifestReader) skip(ref string, err error) {
	r.skipped++
	if len(r.first) < keptErrors {
		r.first = append(r.first, fmt.Errorf("line %d: entry %.200q: %w", r.x.Line(), ref, err))
	}
}

// A document is the XML of a manifest.
type document struct {
	*xmlpull.Reader
	buf []byte // of the element read last
}

// rdfAttr returns an RDF attribute, whichever spelling of the namespace it has.
func (x *document) rdfAttr(local string) []byte {
	for _, space := range [...]string{nsRDF, nsRDFLoose, ""} {
		if v, ok := x.Attr(space, local); ok {
			return v
		}
	}
	return nil
}

// content reads the text of the current element to its end, and overwrites dst with it.
func (x *document) content(dst []byte) ([]byte, error) {
	b, err := x.Reader.Content(dst[:0])
	return b[:copy(b, bytes.TrimSpace(b))], err
}

// text is content into buf.
func (x *document) text() (b []byte, err error) {
	x.buf, err = x.content(x.buf)
	return x.buf, err
}

// An entryReader reads entries, one after the other. Most are like the one before.
type entryReader struct {
	urls       resolver
	canonicals resolver
	origin     string // prefix of URLs that are not foreign
	extensions bool   // see ManifestOptions

	ref, link, title, canonical []byte // of the current entry

	types, languages last
	date             lastDate
}

// lastDate is the last date, as written and as understood.
type lastDate struct {
	raw  []byte
	date Date
	ok   bool
}

// last is the last value of a property, as written and as understood.
type last struct{ raw, value string }

// of returns the value of b, of which the first bytes suffice.
func (l *last) of(b []byte, most int, parse func(string) string) string {
	if string(b) != l.raw {
		l.raw = string(b[:min(len(b), most)])
		l.value = parse(l.raw)
	}
	return l.value
}

// A draft is an entry while it is being read.
type draft struct {
	item Item
	gone Tombstone
	rank int // of the date read so far
	exts []*etree.Element
	left int // bytes of extensions that may still be stored
}

// read reads an item or a tombstone to its end. unusable says why there is no Record, although x can be read on.
func (e *entryReader) read(x *document, gone bool) (rec Record, unusable, err error) {
	about := x.rdfAttr("about")
	e.ref, e.link, e.title, e.canonical = append(e.ref[:0], about...), e.link[:0], e.title[:0], e.canonical[:0]
	d := draft{item: Item{Length: -1}, left: maxExtensions}
	for {
		k, err := x.Tag()
		if err != nil {
			return Record{}, nil, err
		}
		if k == xmlpull.End {
			break // the entry's end: the ends of children are consumed by property
		}
		if err := e.property(x, &d); err != nil {
			return Record{}, nil, err
		}
	}
	if len(bytes.TrimSpace(e.ref)) == 0 {
		e.ref = append(e.ref[:0], e.link...)
	}
	url, err := e.resolve(e.ref)
	if err != nil {
		return Record{}, err, nil
	}
	if gone {
		t := d.gone
		t.URL, t.At, t.Prev = url, d.item.Modified, d.item.Digest
		return Record{Gone: &t, Extensions: d.exts}, nil, nil
	}
	d.item.URL = url
	if len(e.title) > 0 && string(e.title) != fallbackTitle(url) {
		d.item.Title = titleOf(url, string(e.title))
	}
	if len(e.canonical) > 0 {
		d.item.Canonical = e.canonicals.other(url, string(e.canonical[:min(len(e.canonical), MaxURL+1)]))
	}
	return Record{Item: d.item, Extensions: d.exts}, nil, nil
}

// resolve returns the canonical URL of an entry, or an error if its origin is foreign.
func (e *entryReader) resolve(ref []byte) (string, error) {
	url, err := e.urls.resolve(ref)
	if err == nil && e.origin != "" && !strings.HasPrefix(url, e.origin) {
		err = errors.New("foreign origin")
	}
	return url, err
}

// The ranks of dates: dcterms:modified outranks the dc:date of feeds (E03).
const (
	rankDate = 1 + iota
	rankDCModified
	rankModified
)

// property reads one child element of an entry to its end.
func (e *entryReader) property(x *document, d *draft) (err error) {
	var b []byte
	local := x.Local()
	switch string(x.Space()) {
	case nsRSS:
		switch string(local) {
		case "title":
			e.title, err = x.content(e.title)
			return err
		case "link":
			e.link, err = x.content(e.link)
			return err
		}
	case nsTerms:
		switch string(local) {
		case "modified":
			return e.dated(x, d, rankModified)
		case "extent":
			b, err = x.text()
			if n, ok := parseNumber(b); ok && n <= math.MaxInt64 && d.item.Length < 0 {
				d.item.Length = int64(n)
			}
			return err
		case "isReplacedBy":
			ref := x.rdfAttr("resource")
			if to, err := e.resolve(ref); err == nil {
				d.gone.To = to
			}
			return x.Skip()
		}
	case nsDC:
		switch string(local) {
		case "date":
			return e.dated(x, d, rankDate)
		case "modified":
			return e.dated(x, d, rankDCModified)
		case "format":
			b, err = x.text()
			d.item.Type = e.types.of(b, 256, mediaType)
			return err
		case "language":
			b, err = x.text()
			d.item.Language = e.languages.of(b, maxLanguage+1, languageTag)
			return err
		}
	case nsParley:
		switch string(local) {
		case "digest":
			b, err = x.text()
			d.item.Digest, _ = parseDigest(b)
			return err
		case "seq":
			b, err = x.text()
			d.gone.Seq, _ = parseNumber(b)
			return err
		case "text":
			b, err = x.text()
			d.item.Text, _ = parseDigest(b)
			return err
		case "importance":
			b, err = x.text()
			d.item.Importance = parseImportance(b)
			return err
		case "canonical":
			ref := x.rdfAttr("resource")
			e.canonical = append(e.canonical[:0], ref...)
			return x.Skip()
		}
	}
	if !e.extensions || d.left == 0 {
		return x.Skip()
	}
	el, n, err := x.element(d.left)
	if el != nil {
		d.exts = append(d.exts, el)
	}
	d.left -= n
	if errors.Is(err, ErrLimit) {
		d.left = 0
		return nil // too much to store; if it was a limit of the document, the next token fails again
	}
	return err
}

// dated reads a date, and stores it if its rank is higher than that of the stored one. Most entries have the same one twice.
func (e *entryReader) dated(x *document, d *draft, rank int) error {
	b, err := x.text()
	l := &e.date
	if !bytes.Equal(b, l.raw) {
		l.raw = append(l.raw[:0], b...)
		l.date, l.ok = parseDate(b)
	}
	if l.ok && rank > d.rank {
		d.item.Modified, d.item.Span, d.rank = l.date.Time, l.date.Span, rank
	}
	return err
}

// parseNumber parses a decimal number without sign.
func parseNumber(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, true
}
