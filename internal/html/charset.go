package html

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// toUTF8 decodes UTF-16 that has a byte order mark, and leaves such a mark of
// UTF-8 out. It returns anything else as it is.
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

// titled makes the text of a title UTF-8: what is not, is taken for windows-1252, as
// browsers do, if that is what the page says, or if it says nothing. declared is
// what the header of the answer says, empty if nothing. Of another charset the
// title is lost.
func titled(text []byte, declared string, page []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	if declared == "" {
		declared = metaCharset(page)
	}
	if !western(declared) {
		return nil
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text) // a reference of the page was made UTF-8 before
		if n == 1 {
			if r = rune(text[0]); 0x80 <= r && r < 0xa0 {
				r = windows1252[r-0x80]
			}
		}
		out, text = utf8.AppendRune(out, r), text[n:]
	}
	return out
}

// western reports whether a charset is one of those that the standard of
// encodings decodes as windows-1252, or none.
func western(charset string) bool {
	switch strings.ToLower(strings.TrimSpace(charset)) {
	case "", "windows-1252", "cp1252", "x-cp1252", "iso-8859-1", "iso8859-1", "iso88591", "iso_8859-1", "latin1", "latin-1", "l1", "us-ascii", "ascii":
		return true
	}
	return false
}

// windows1252 is what 0x80 to 0x9f stand for there.
var windows1252 = [32]rune{
	'€', 0x81, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0x8d, 'Ž', 0x8f,
	0x90, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0x9d, 'ž', 'Ÿ',
}

// prescan is how much of a page may say in what charset it is, in bytes.
const prescan = 1024

// metaCharset returns the charset that a page names in its first bytes, be it in
// <meta charset> or in a content-type there; empty if it names none.
func metaCharset(page []byte) string {
	b := bytes.ToLower(page[:min(len(page), prescan)])
	for {
		_, rest, ok := bytes.Cut(b, []byte("<meta"))
		if !ok {
			return ""
		}
		tag, _, _ := bytes.Cut(rest, []byte(">"))
		b = rest
		_, value, ok := bytes.Cut(tag, []byte("charset"))
		if !ok {
			continue
		}
		if value, ok = bytes.CutPrefix(bytes.TrimLeft(value, " \t\r\n\f"), []byte("=")); !ok {
			continue
		}
		value = bytes.TrimLeft(value, " \t\r\n\f\"'")
		if i := bytes.IndexAny(value, " \t\r\n\f\"';/"); i >= 0 {
			value = value[:i]
		}
		return string(value)
	}
}
