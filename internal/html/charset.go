package html

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// toUTF8 decodes UTF-16 that has a byte order mark, and removes the mark from UTF-8. It returns anything else
// unchanged.
func toUTF8(b []byte) []byte {
	little := bytes.HasPrefix(b, []byte{0xff, 0xfe})
	if !little && !bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return bytes.TrimPrefix(b, []byte("\uFEFF"))
	}
	unit := func(i int) rune {
		if little {
			return rune(b[i]) | rune(b[i+1])<<8
		}
		return rune(b[i])<<8 | rune(b[i+1])
	}
	out := make([]byte, 0, len(b)/2)
	for i := 2; i+1 < len(b); i += 2 {
		r := unit(i)
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if i+3 < len(b) {
				pair = utf16.DecodeRune(r, unit(i+2))
			}
			if r = pair; r != utf8.RuneError {
				i += 2
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// A served is a page as it was served, from which titles and references are converted to UTF-8.
type served struct {
	page     []byte
	declared string // the charset in the response header, empty if none

	found  bool // the rest is known: it is found out once, since that takes time linear in the size of the page
	name   string
	decode func([]byte) ([]byte, error)
	asUTF8 bool // UTF-8 in the page is kept
}

// toUTF8 converts the text of a title, or a reference, to UTF-8, as browsers do. Text that is UTF-8 stays as it is, unless the page declares
// another charset and is not UTF-8: two bytes of one encoding may happen to be a letter of another. Text of a page that declares UTF-8, and is
// not, stays as it is, too.
func (s *served) toUTF8(text []byte) []byte {
	utf8Text := utf8.Valid(text)
	if utf8Text && (!foreign(text) || !mayDeclare(s.declared, s.page)) {
		return text
	}
	if !s.found {
		typ := mime.FormatMediaType("text/html", map[string]string{"charset": s.declared})
		e, name, _ := charset.DetermineEncoding(s.page, typ)
		s.found, s.name, s.decode, s.asUTF8 = true, name, e.NewDecoder().Bytes, name == "windows-1252" || asUTF8(s.page)
	}
	switch {
	case strings.HasPrefix(s.name, "utf-"), utf8Text && s.asUTF8:
		return text
	case s.name == "replacement": // one that browsers do not read, either
		return nil
	default:
		out, err := s.decode(text[:min(len(text), maxLegacyTitle)])
		if err != nil {
			return nil
		}
		return out
	}
}

// maxLegacyTitle bounds the bytes of a title that are decoded: of more, only white space would be left out.
const maxLegacyTitle = 16 * MaxTitle

// Decode returns the text of a response in UTF-8. Text that is not UTF-8 has the encoding of its byte order mark, of its Content-Type,
// or of its <meta>, and is windows-1252 if none says one. What is declared as UTF-8, and is not, stays as it is.
func Decode(body []byte, contentType string) []byte {
	if asUTF8(body) {
		return body
	}
	e, name, _ := charset.DetermineEncoding(body, contentType)
	if name == "utf-8" {
		return body
	}
	if b, err := e.NewDecoder().Bytes(body); err == nil {
		return b
	}
	return body
}

// asUTF8 reports whether bytes are UTF-8, and not ISO-2022-JP, in which every byte is ASCII.
func asUTF8(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, escape) < 0 }

const escape = 0x1b

// foreign reports whether a text has bytes that are letters in some other encoding than ASCII.
func foreign(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 || c == escape {
			return true
		}
	}
	return false
}

// mayDeclare reports whether a response or the beginning of its page may declare another charset than UTF-8. For most pages the
// answer is no, and comes at little of the cost of determining the encoding.
func mayDeclare(declared string, page []byte) bool {
	name := []byte(declared)
	if len(name) == 0 {
		found := false
		for _, word := range []string{"harset", "HARSET"} {
			if _, name, found = bytes.Cut(page[:min(len(page), prescan)], []byte(word)); found {
				break
			}
		}
		if !found {
			return false
		}
		name = bytes.TrimLeft(name, `="'`)
	}
	return len(name) < 5 || !bytes.EqualFold(name[:5], []byte("utf-8"))
}

// prescan is the size, in bytes, of the beginning of a page in which it may declare its charset.
const prescan = 1024
