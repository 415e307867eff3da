package sitemap

import (
	"fmt"
	"io"
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

// A Writer writes pages as one file within the limits of the protocol. Its memory does not depend on their number.
type Writer struct {
	To io.Writer

	// MaxURLs and MaxBytes bound the file. Zero means the constants of that name, which are never exceeded; a
	// limit below 16 KiB is raised to that.
	MaxURLs  int
	MaxBytes int

	URLs   int  // written so far
	Newest Page // of those whose date can be written

	begun bool
	left  int // bytes for entries
	buf   []byte
	date  [40]byte
}

const (
	declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	setStart    = declaration + `<urlset xmlns="` + Namespace + `">` + "\n"
	setEnd      = "</urlset>\n"
	indexStart  = declaration + `<sitemapindex xmlns="` + Namespace + `">` + "\n"
	indexEnd    = "</sitemapindex>\n"
)

// Limit returns a limit that is set, if it is above zero and below the protocol's, and else the protocol's.
func Limit(set, most int) int {
	if set <= 0 {
		return most
	}
	return min(set, most)
}

// Add adds a page, whose URL has less than MaxLoc characters. It returns false if the file has no room for it.
func (w *Writer) Add(p Page) (bool, error) {
	if err := w.begin(); err != nil {
		return false, err
	}
	w.buf = appendURL(w.buf[:0], p)
	if w.URLs == Limit(w.MaxURLs, MaxURLs) || len(w.buf) > w.left {
		return false, nil
	}
	w.URLs++
	w.left -= len(w.buf)
	if p.Modified.After(w.Newest.Modified) && len(appendDate(w.date[:0], p.Modified, p.Span)) > 0 {
		w.Newest = p
	}
	_, err := w.To.Write(w.buf)
	return true, err
}

func (w *Writer) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	w.left = max(Limit(w.MaxBytes, MaxBytes), 16<<10) - len(setStart) - len(setEnd) // one entry is never longer
	_, err := io.WriteString(w.To, setStart)
	return err
}

// Close ends the file. A site without pages has a sitemap without any.
func (w *Writer) Close() error {
	err := w.begin()
	if err == nil {
		_, err = io.WriteString(w.To, setEnd)
	}
	return err
}

// WriteIndex writes an index of sitemaps: of each its URL, and when it changed last.
func WriteIndex(w io.Writer, sitemaps []Page) error {
	if len(sitemaps) > MaxURLs {
		return fmt.Errorf("%d parts, more than %d, the limit of a sitemap index", len(sitemaps), MaxURLs)
	}
	b := []byte(indexStart)
	for _, p := range sitemaps {
		b = append(appendText(append(b, "<sitemap><loc>"...), p.Loc), "</loc>"...)
		b = append(appendLastmod(b, p.Modified, p.Span), "</sitemap>\n"...)
	}
	_, err := w.Write(append(b, indexEnd...))
	return err
}

// appendURL appends the entry of a page.
func appendURL(b []byte, p Page) []byte {
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

// appendDate appends the sitemap's date for a page that changed within the span that begins at modified. The
// published schema knows only two forms: a moment, and a day. So a date that is not exact to the second is
// written as its day, and one that may be on two days of UTC is the empty string.
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
