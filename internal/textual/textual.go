// Package textual gives the main text of a page to whoever indexes it, as plain
// text or as Markdown.
//
// # What the main text is
//
// It is what package html says: that of <main>, else of <article>, else of
// <body> without what frames it. The digest of a page's main text, by which it
// is told whether a reader would notice a change, is made of the same part of
// the page. So a text that is called unchanged is unchanged: it is why the
// part is chosen by that rule, and not by weighing links and words, as
// libraries do that guess what an article is. Those see more on pages that mark
// nothing, and choose another part when a menu grows.
//
// Plain text is that very text, a line for each block. Markdown is CommonMark
// with the tables of GitHub, made by html-to-markdown of the same part of the
// page: headings, lists, quotes, code, tables, emphasis, and links, which are
// absolute. An image is its alt text in both. There is no HTML in it.
//
// # Bounds
//
// A page is read as far as Reader.MaxPage, and a text is cut at Reader.MaxText.
// Pages can be written that take a library a square of their length to
// convert, or that grow a thousandfold by it. So it is not given a page as it
// stands, but a tree that was made of it: without attributes but for a few, lists and
// quotes nested no deeper than anybody reads, tables no wider than what is in
// them, links not longer together than the page may be. What does not bear that (open
// elements deeper than 512, thousands of brackets that are never closed) is given
// as plain text.
package textual

import (
	"cmp"
	"fmt"
	"mime"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"golang.org/x/net/html/charset"

	"github.com/parleyweb/parley/internal/html"
)

// A Format is a manner of writing a text. It is a flag.Value.
type Format uint8

// The formats. None is that no text is wanted.
const (
	None Format = iota
	Plain
	Markdown
)

var names = [...]string{None: "none", Plain: "plain", Markdown: "markdown"}

// String returns "none", "plain" or "markdown".
func (f Format) String() string {
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Set takes what String returns.
func (f *Format) Set(s string) error {
	for i, name := range names {
		if s == name {
			*f = Format(i)
			return nil
		}
	}
	return fmt.Errorf("text format %q: want plain, markdown or none", s)
}

// MarshalText writes what String returns.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what String returns.
func (f *Format) UnmarshalText(b []byte) error { return f.Set(string(b)) }

const (
	// DefaultMaxPage is how much of a page is read, in bytes.
	DefaultMaxPage = 1 << 20

	// DefaultMaxText is how long a text may be, in bytes.
	DefaultMaxText = 1 << 20
)

// A Reader makes texts of pages. Its zero value gives none; with a Format it
// is ready. Its fields must not change once it is used, and then any number of
// goroutines may use it.
type Reader struct {
	Format  Format
	MaxPage int // bytes; zero means DefaultMaxPage
	MaxText int // bytes; zero means DefaultMaxText

	once      sync.Once
	converter *converter.Converter
}

// A Text is what a page says, in UTF-8 without control characters other than
// tabs and newlines, and without a newline at its end.
type Text struct {
	Format Format // Plain where Markdown was wanted and could not be made; None if there is no text
	Body   string
	Cut    bool // there is more than what fits into MaxPage or MaxText
}

// Read returns the text of what an answer holds, whose URL and Content-Type
// these are. What has no text to give, such as an image, gives a Text of
// format None; so does every page if that is the Reader's own.
//
// Bytes are read in the encoding that the page has by its mark, its Content-Type or
// its <meta>. (A digest of a main text is made of the bytes as they stand: where they
// are not UTF-8, the text is the same as that, letter by letter, but not byte by byte.)
//
// It takes time in proportion to the page, and memory of some dozen times its
// size for Markdown. It never fails: of a broken page it gives what there is.
func (r *Reader) Read(pageURL, contentType string, body []byte) Text {
	if r.Format == None {
		return Text{}
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	t := Text{Format: Plain}
	if most := cmp.Or(max(r.MaxPage, 0), DefaultMaxPage); len(body) > most {
		body, t.Cut = body[:most], true
	}
	switch kind {
	case "text/html", "application/xhtml+xml":
		body = decode(body, contentType)
		if r.Format == Markdown {
			if s, ok := r.markdown(pageURL, body); ok {
				t.Format, t.Body = Markdown, s
				break
			}
		}
		t.Body = string(html.Read(pageURL, body, html.Options{Text: true}).Text)
	case "text/plain", "text/markdown":
		t.Body = string(decode(body, contentType))
		if kind == "text/markdown" && r.Format == Markdown {
			t.Format = Markdown
		}
	default:
		return Text{}
	}
	t.Body = tidy(t.Body)
	if most := cmp.Or(max(r.MaxText, 0), DefaultMaxText); len(t.Body) > most {
		t.Body, t.Cut = cut(t.Body, most), true
	}
	return t
}

// decode returns UTF-8 of what is in another encoding. One that says that it
// is UTF-8 and is not, is taken for what it says.
func decode(body []byte, contentType string) []byte {
	e, name, _ := charset.DetermineEncoding(body, contentType)
	if name == "utf-8" {
		return body
	}
	if b, err := e.NewDecoder().Bytes(body); err == nil {
		return b
	}
	return body
}

// tidy leaves out what no text should have in it: bytes that are no UTF-8,
// control characters, and space at its ends.
func tidy(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f || r >= 0xa0 && r != '\uFEFF':
			return r
		case r == '\uFEFF':
			return -1
		}
		return ' '
	}, s)
	return strings.TrimSpace(s)
}

// cut returns the beginning of s: whole lines if that is most of what there is room for, and whole letters.
func cut(s string, most int) string {
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	s = s[:most]
	if i := strings.LastIndexByte(s, '\n'); i > len(s)/2 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}
