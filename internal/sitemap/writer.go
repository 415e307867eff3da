package sitemap

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Page is a page's data in a sitemap.
type Page struct {
	Loc string // canonical

	// Modified is when it last changed, zero if unknown, and Span the precision of that: see [protocol.Item].
	Modified time.Time
	Span     time.Duration

	// Languages are the page in all its languages, itself included; nil if it has no others, or if they are not known. They are left out
	// if they would take more than 8 KiB.
	Languages []Language
}

// A Language is a page in a language, a tag of RFC 5646.
type Language struct{ Tag, Loc string }

// A Writer writes the pages of a site as files within the limits of the protocol: all in one, or, with Parts,
// as many as needed, and an index of them. [Fit] tells beforehand whether parts are needed.
//
// The output depends on the pages and their order alone. The memory of a Writer does not depend on their
// number.
type Writer struct {
	Base  string // URL of the directory that the files are in, with a last "/"
	Name  string // of the file to give to crawlers; empty means sitemap.xml
	Parts bool

	// PartExt is the suffix of the names of parts, such as ".xml.gz" if Create compresses them. Empty means
	// ".xml".
	PartExt string

	// Create begins the file of the given name. It is complete once Close is called; the writer calls nothing
	// else after an error.
	Create func(name string) (io.WriteCloser, error)

	// MaxURLs and MaxBytes bound one file. Zero means the constants of that name, which are never exceeded; a
	// limit below 16 KiB is raised to that.
	MaxURLs  int
	MaxBytes int

	file  file
	buf   []byte
	parts []Page // the newest page of each
	stats Written
	bad   error // final
}

// Written is what a Writer has written.
type Written struct {
	URLs  int
	Parts int // 0 without an index

	// LeftOut counts pages whose URL is too long for the protocol.
	LeftOut int
}

// ErrFull is returned by Add for a page that exceeds the limits of one file, without Parts.
var ErrFull = errors.New("more pages than one sitemap may have")

const (
	declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	setStart    = declaration + `<urlset xmlns="` + Namespace + `">` + "\n"
	setEnd      = "</urlset>\n"
	indexStart  = declaration + `<sitemapindex xmlns="` + Namespace + `">` + "\n"
	indexEnd    = "</sitemapindex>\n"
)

// Fit reports whether the pages fit one file of the given limits, where zero means those of the protocol. It
// reads no more pages than needed.
func Fit(pages iter.Seq2[Page, error], maxURLs, maxBytes int) (bool, error) {
	r := newRoom(maxURLs, maxBytes)
	var buf []byte
	for p, err := range pages {
		if err != nil {
			return false, err
		}
		if buf = appendURL(buf[:0], p); len(buf) > 0 && !r.take(len(buf)) {
			return false, nil
		}
	}
	return true, nil
}

// A room is what a file may still hold.
type room struct{ urls, bytes int }

// newRoom returns the room of an empty file with the limits of a Writer.
func newRoom(maxURLs, maxBytes int) room {
	if maxURLs <= 0 || maxURLs > MaxURLs {
		maxURLs = MaxURLs
	}
	if maxBytes <= 0 || maxBytes > MaxBytes {
		maxBytes = MaxBytes
	}
	return room{maxURLs, max(maxBytes, 16<<10) - len(setStart) - len(setEnd)} // one entry is never longer
}

// take takes the room for an entry of n bytes, and returns false if there is not enough.
func (r *room) take(n int) bool {
	if r.urls == 0 || n > r.bytes {
		return false
	}
	r.urls--
	r.bytes -= n
	return true
}

// appendURL appends the entry of a page, and nothing for one that is left out.
func appendURL(b []byte, p Page) []byte {
	if len(p.Loc) >= maxLoc {
		return b
	}
	b = append(appendText(append(b, "<url><loc>"...), p.Loc), "</loc>"...)
	b = appendLastmod(b, p.Modified, p.Span)
	before := len(b)
	for _, l := range p.Languages { // with the namespace in each, since most sitemaps have none
		b = appendText(append(b, `<xhtml:link xmlns:xhtml="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="`...), l.Tag)
		b = append(appendText(append(b, `" href="`...), l.Loc), `"/>`...)
	}
	if len(b)-before > maxLanguages {
		b = b[:before]
	}
	return append(b, "</url>\n"...)
}

// maxLanguages bounds the links of an entry to other languages, in bytes.
const maxLanguages = 8 << 10

// A file is the one that is being written.
type file struct {
	out    *bufio.Writer // nil before the first
	to     io.Closer
	room   room
	newest Page // the newest of its pages whose date can be written
}

func (f *file) create(create func(string) (io.WriteCloser, error), name, start string) error {
	to, err := create(name)
	if err != nil {
		return err
	}
	f.to = to
	if f.out == nil {
		f.out = bufio.NewWriterSize(to, 64<<10)
	} else {
		f.out.Reset(to)
	}
	_, err = f.out.WriteString(start)
	return err
}

func (f *file) close(end string) error {
	if _, err := f.out.WriteString(end); err != nil {
		return err
	}
	if err := f.out.Flush(); err != nil {
		return err
	}
	return f.to.Close()
}

// Add adds a page. Pages must come in their final order. One whose URL has 2,048 characters or more is left
// out.
func (w *Writer) Add(p Page) error {
	if w.bad == nil {
		w.bad = w.add(p)
	}
	return w.bad
}

func (w *Writer) add(p Page) error {
	f := &w.file
	if f.out == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	if w.buf = appendURL(w.buf[:0], p); len(w.buf) == 0 {
		w.stats.LeftOut++
		return nil
	}
	if !f.room.take(len(w.buf)) {
		if !w.Parts {
			return ErrFull
		}
		if err := w.end(); err != nil {
			return err
		}
		if err := w.start(); err != nil {
			return err
		}
		f.room.take(len(w.buf))
	}
	if p.Modified.After(f.newest.Modified) && Lastmod(p.Modified, p.Span) != "" {
		f.newest = p
	}
	w.stats.URLs++
	_, err := f.out.Write(w.buf)
	return err
}

// start begins a file of pages.
func (w *Writer) start() error {
	w.Name, w.PartExt = cmp.Or(w.Name, "sitemap.xml"), cmp.Or(w.PartExt, ".xml")
	name := w.Name
	if w.Parts {
		if len(w.parts) == MaxURLs {
			return fmt.Errorf("more than %d parts, the limit of a sitemap index", MaxURLs)
		}
		name = PartName(w.Name, len(w.parts)+1, w.PartExt)
	}
	w.file.room, w.file.newest = newRoom(w.MaxURLs, w.MaxBytes), Page{}
	return w.file.create(w.Create, name, setStart)
}

// end ends the current file of pages.
func (w *Writer) end() error {
	if w.Parts {
		w.parts = append(w.parts, w.file.newest)
	}
	return w.file.close(setEnd)
}

// Close ends the last file, and then writes the index if there are parts. A
// site without pages has a sitemap without any.
func (w *Writer) Close() (Written, error) {
	if w.bad == nil {
		w.bad = w.finish()
	}
	if w.bad != nil {
		return Written{}, w.bad
	}
	w.bad = errors.New("sitemap is closed")
	return w.stats, nil
}

func (w *Writer) finish() error {
	if w.file.out == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	if err := w.end(); err != nil || !w.Parts {
		return err
	}
	w.stats.Parts = len(w.parts)
	if err := w.file.create(w.Create, w.Name, indexStart); err != nil {
		return err
	}
	for i, p := range w.parts {
		b := append(w.buf[:0], "<sitemap><loc>"...)
		b = append(appendText(b, w.Base+url.PathEscape(PartName(w.Name, i+1, w.PartExt))), "</loc>"...)
		b = appendLastmod(b, p.Modified, p.Span)
		w.buf = append(b, "</sitemap>\n"...)
		if _, err := w.file.out.Write(w.buf); err != nil {
			return err
		}
	}
	return w.file.close(indexEnd)
}

// PartName returns the name of part i, from 1, of the sitemap of that name:
// of sitemap.xml it is sitemap-0001.xml.
func PartName(name string, i int, ext string) string {
	return fmt.Sprintf("%s-%04d%s", strings.TrimSuffix(name, ".xml"), i, ext)
}

// Lastmod returns the sitemap's date for a page that changed within the span that begins at modified. The
// published schema knows only two forms: a moment, and a day. So a date that is not exact to the second is
// written as its day, and one that may be on two days of UTC is the empty string.
func Lastmod(modified time.Time, span time.Duration) string {
	return string(appendDate(nil, modified, span))
}

func appendDate(b []byte, modified time.Time, span time.Duration) []byte {
	const day = 24 * time.Hour
	if modified.IsZero() || span < 0 {
		return b
	}
	if span > 0 {
		start := modified.UTC().Truncate(day)
		if modified.Add(span).After(start.Add(day)) {
			return b
		}
		modified, span = start, day
	}
	return protocol.Date{Time: modified, Span: span}.Append(b)
}

func appendLastmod(b []byte, modified time.Time, span time.Duration) []byte {
	was := len(b)
	b = append(b, "<lastmod>"...)
	start := len(b)
	if b = appendDate(b, modified, span); len(b) == start {
		return b[:was]
	}
	return append(b, "</lastmod>"...)
}

// appendText appends a canonical URL or a tag: of the characters that XML escapes, it can have an ampersand and an
// apostrophe.
func appendText(b []byte, url string) []byte {
	for i := 0; i < len(url); i++ {
		switch c := url[i]; c {
		case '&':
			b = append(b, "&amp;"...)
		case '\'':
			b = append(b, "&apos;"...)
		case '<':
			b = append(b, "&lt;"...)
		case '>':
			b = append(b, "&gt;"...)
		case '"':
			b = append(b, "&quot;"...)
		default:
			b = append(b, c)
		}
	}
	return b
}
