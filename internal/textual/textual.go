// Package textual extracts the main text of a page for indexers, as plain text or as Markdown.
//
// # What the main text is
//
// It is defined by package html: the text of <main>, else of <article>, else of <body> without headers,
// footers and navigation. The digest of a page's main text, which decides whether a reader would notice a
// change, covers the same part of the page. So a text that is reported as unchanged is unchanged: this is why
// the part is chosen by that rule, and not by weighing links and words, as libraries do that guess what an
// article is. Those find more on pages without markup, and choose another part when a menu grows.
//
// Plain text is that very text, a line for each block. Markdown is CommonMark with the tables of GitHub, made
// by html-to-markdown from the same part of the page: headings, lists, quotes, code, tables, emphasis, and
// links, which are absolute. An image is its alt text in both. There is no HTML in it.
//
// # Bounds
//
// A page is read up to Reader.MaxPage, and a text is cut at Reader.MaxText. Pages can be written that take a
// library quadratic time to convert, or that grow a thousandfold. So the library does not get the page
// itself, but a tree made of it: with only a few attributes, with lists and quotes nested no deeper than
// anybody reads, tables no wider than their content, and links not longer together than the page may be. A
// page beyond these bounds (open elements deeper than 512, thousands of brackets that are never closed)
// becomes plain text.
package textual

import (
	"cmp"
	"fmt"
	"mime"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"

	"github.com/parleyweb/parley/internal/html"
)

// A Format is a format of text. It is a flag.Value.
type Format uint8

// The formats. None means that no text is wanted.
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

// Set parses what String returns.
func (f *Format) Set(s string) error {
	for i, name := range names {
		if s == name {
			*f = Format(i)
			return nil
		}
	}
	return fmt.Errorf("text format %q: want plain, markdown or none", s)
}

// MarshalText returns what String returns.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText parses what String returns.
func (f *Format) UnmarshalText(b []byte) error { return f.Set(string(b)) }

const (
	// DefaultMaxPage is how much of a page is read, in bytes.
	DefaultMaxPage = 1 << 20

	// DefaultMaxText is the maximum length of a text, in bytes.
	DefaultMaxText = 1 << 20
)

// A Reader extracts texts of pages. Its zero value extracts none; with a Format it is ready. Its fields must
// not change once it is used; then it is safe for concurrent use.
type Reader struct {
	Format  Format
	MaxPage int // bytes; zero means DefaultMaxPage
	MaxText int // bytes; zero means DefaultMaxText

	once      sync.Once
	converter *converter.Converter
}

// A Text is the text of a page, in UTF-8 without control characters other than tabs and newlines, and without
// a final newline.
type Text struct {
	Format Format // Plain if Markdown was wanted but impossible; None if there is no text
	Body   string
	Cut    bool // the page or its text is longer than MaxPage or MaxText
}

// Read returns the text of a response with this URL and Content-Type. A response without text, such as an
// image, gives a Text of format None; so does every page if that is the Reader's Format.
//
// The encoding is as in html.Decode. (A digest of a main text is made of the bytes as they are: if they are
// not UTF-8, it covers the same letters as the text, but not the same bytes.)
//
// It takes time proportional to the size of the page, and for Markdown some dozen times its size in memory.
// It never fails: of a broken page it returns what can be read.
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
		body = html.Decode(body, contentType)
		if r.Format == Markdown {
			if s, ok := r.markdown(pageURL, body); ok {
				t.Format, t.Body = Markdown, s
				break
			}
		}
		t.Body = string(html.Read(pageURL, body, html.Options{Text: true}).Text)
	case "text/plain", "text/markdown":
		t.Body = string(html.Decode(body, contentType))
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

// tidy replaces invalid UTF-8 and control characters, and removes space at the ends.
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

// cut returns the beginning of s: whole letters, and whole lines if they fill more than half of it.
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
