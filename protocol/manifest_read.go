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
	x          *xmlpull.Reader
	o          ManifestOptions
	name       string // for errors
	urls       resolver
	canonicals resolver
	origin     string // prefix of URLs that are not foreign
	err        error  // final

	headOnly bool // see ReadManifestHead

	begun   bool // the root has been read
	channel bool // the channel has been read
	head    Manifest
	exts    []*etree.Element

	pending Record // read, but not returned until the next entry has another URL
	held    bool
	items   int // item elements read
	entries int

	skipped int
	first   []error

	ref, link, title, canonical, buf []byte // of the current entry

	rawType, mediaType string // of the last entry
	language           string // of the last entry
}

// NewManifestReader returns a reader of the manifest in r. It reads ahead.
func NewManifestReader(r io.Reader, o ManifestOptions) *ManifestReader {
	if o.MaxItems <= 0 {
		o.MaxItems = maxItemsDefault
	}
	m := &ManifestReader{
		x:          xmlpull.NewReader(r, xmlpull.Limits{Bytes: o.MaxBytes}),
		o:          o,
		urls:       resolver{base: o.URL},
		canonicals: resolver{base: o.URL},
		head:       Manifest{URL: o.URL, Items: -1},
	}
	if s, err := CanonicalURL("", o.URL); err == nil {
		m.head.URL = s
		m.head.Base, _ = CanonicalURL(s, "./")
	}
	if o.URL != "" {
		m.name = fmt.Sprintf(" %.200s", o.URL)
	}
	if o.Origin != "" {
		m.origin = strings.TrimSuffix(o.Origin, "/") + "/"
		if s, err := CanonicalURL("", o.Origin); err == nil {
			m.origin = Origin(s) + "/"
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
	m.headOnly = true
	for {
		if _, err := m.Next(); err == io.EOF {
			return m.head, nil
		} else if err != nil {
			return Manifest{}, err
		}
	}
}

// Head returns the head of the manifest. It is fully read after the first call of
// Next if the channel comes first, as in Parley's own form, and in any case
// after Next has returned an error.
func (r *ManifestReader) Head() Manifest { return r.head }

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
			r.err = fmt.Errorf("read manifest%s: %w", r.name, err)
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

// read reads the next entry. It returns false if the entry is unusable.
func (r *ManifestReader) read() (Record, bool, error) {
	for {
		k, err := r.x.Next()
		if err == io.EOF && r.head.Complete && r.items != r.head.Items && !r.headOnly {
			return Record{}, false, fmt.Errorf("%w: %d items, not %d", ErrTruncated, r.items, r.head.Items)
		}
		if err != nil {
			return Record{}, false, err
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
			return r.entry(gone)
		case r.x.Is(nsRSS, "channel") && !r.channel:
			r.channel = true
			if err = r.readHead(); err == nil && r.headOnly {
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

// rdfAttr returns an RDF attribute, whichever spelling of the namespace it has.
func (r *ManifestReader) rdfAttr(local string) ([]byte, bool) {
	for _, space := range [...]string{nsRDF, nsRDFLoose, ""} {
		if v, ok := r.x.Attr(space, local); ok {
			return v, true
		}
	}
	return nil, false
}

// A draft is an entry while it is being read.
type draft struct {
	item Item
	gone Tombstone
	rank int // of the date read so far
	exts []*etree.Element
	left int // bytes of extensions that may still be stored
}

// entry reads an item or a tombstone to its end.
func (r *ManifestReader) entry(gone bool) (Record, bool, error) {
	if !gone {
		r.items++
	}
	about, _ := r.rdfAttr("about")
	r.ref, r.link, r.title, r.canonical = append(r.ref[:0], about...), r.link[:0], r.title[:0], r.canonical[:0]
	d := draft{item: Item{Length: -1}, left: maxExtensions}
	for {
		k, err := r.x.Next()
		if err != nil {
			return Record{}, false, err
		}
		if k == xmlpull.End {
			break // the entry's end: the ends of children are consumed by property
		}
		if k == xmlpull.Start {
			if err := r.property(&d); err != nil {
				return Record{}, false, err
			}
		}
	}
	if len(bytes.TrimSpace(r.ref)) == 0 {
		r.ref = append(r.ref[:0], r.link...)
	}
	url, err := r.resolve(r.ref)
	if err != nil {
		r.skip(string(r.ref[:min(len(r.ref), 800)]), err)
		return Record{}, false, nil
	}
	if gone {
		t := d.gone
		t.URL, t.At, t.Prev = url, d.item.Modified, d.item.Digest
		return Record{Gone: &t, Extensions: d.exts}, true, nil
	}
	d.item.URL = url
	if len(r.title) > 0 && string(r.title) != fallbackTitle(url) {
		d.item.Title = titleOf(url, string(r.title))
	}
	if len(r.canonical) > 0 {
		d.item.Canonical = r.canonicals.other(url, string(r.canonical[:min(len(r.canonical), MaxURL+1)]))
	}
	return Record{Item: d.item, Extensions: d.exts}, true, nil
}

// resolve returns the canonical URL of an entry, or an error if its origin is foreign.
func (r *ManifestReader) resolve(ref []byte) (string, error) {
	url, err := r.urls.resolve(ref)
	if err == nil && r.origin != "" && !strings.HasPrefix(url, r.origin) {
		err = errors.New("foreign origin")
	}
	return url, err
}

func (r *ManifestReader) skip(ref string, err error) {
	r.skipped++
	if len(r.first) < keptErrors {
		r.first = append(r.first, fmt.Errorf("line %d: entry %.200q: %w", r.x.Line(), ref, err))
	}
}

// The ranks of dates: dcterms:modified outranks the dc:date of feeds (E03).
const (
	rankDate = 1 + iota
	rankDCModified
	rankModified
)

// property reads one child element of an entry to its end.
func (r *ManifestReader) property(d *draft) (err error) {
	local := r.x.Local()
	switch string(r.x.Space()) {
	case nsRSS:
		switch string(local) {
		case "title":
			r.title, err = r.content(r.title)
			return err
		case "link":
			r.link, err = r.content(r.link)
			return err
		}
	case nsTerms:
		switch string(local) {
		case "modified":
			return r.date(d, rankModified)
		case "extent":
			r.buf, err = r.content(r.buf)
			if n, ok := parseNumber(r.buf); ok && n <= math.MaxInt64 && d.item.Length < 0 {
				d.item.Length = int64(n)
			}
			return err
		case "isReplacedBy":
			ref, _ := r.rdfAttr("resource")
			if to, err := r.resolve(ref); err == nil {
				d.gone.To = to
			}
			return r.x.Skip()
		}
	case nsDC:
		switch string(local) {
		case "date":
			return r.date(d, rankDate)
		case "modified":
			return r.date(d, rankDCModified)
		case "format":
			r.buf, err = r.content(r.buf)
			if string(r.buf) != r.rawType {
				r.rawType = string(r.buf[:min(len(r.buf), 256)])
				r.mediaType = mediaType(r.rawType)
			}
			d.item.Type = r.mediaType
			return err
		case "language":
			r.buf, err = r.content(r.buf)
			if string(r.buf) != r.language {
				r.language = languageTag(string(r.buf[:min(len(r.buf), maxLanguage+1)]))
			}
			d.item.Language = r.language
			return err
		}
	case nsParley:
		switch string(local) {
		case "digest":
			r.buf, err = r.content(r.buf)
			d.item.Digest, _ = parseDigest(r.buf)
			return err
		case "seq":
			r.buf, err = r.content(r.buf)
			d.gone.Seq, _ = parseNumber(r.buf)
			return err
		case "text":
			r.buf, err = r.content(r.buf)
			d.item.Text, _ = parseDigest(r.buf)
			return err
		case "importance":
			r.buf, err = r.content(r.buf)
			d.item.Importance = parseImportance(r.buf)
			return err
		case "canonical":
			ref, _ := r.rdfAttr("resource")
			r.canonical = append(r.canonical[:0], ref...)
			return r.x.Skip()
		}
	}
	if !r.o.Extensions || d.left == 0 {
		return r.x.Skip()
	}
	el, n, err := r.element(d.left)
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

// content reads the text of the current element to its end, and overwrites dst with it.
func (r *ManifestReader) content(dst []byte) ([]byte, error) {
	b, err := r.x.Content(dst[:0])
	trimmed := bytes.TrimSpace(b)
	return b[:copy(b, trimmed)], err
}

func (r *ManifestReader) date(d *draft, rank int) (err error) {
	r.buf, err = r.content(r.buf)
	if date, ok := parseDate(r.buf); ok && rank > d.rank {
		d.item.Modified, d.item.Span, d.rank = date.Time, date.Span, rank
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
