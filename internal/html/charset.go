package html

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
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

// titled converts the text of a title to UTF-8. Text that is not UTF-8 is decoded as windows-1252, as
// browsers do, if the page declares that charset or none. declared is the charset in the response header,
// empty if none. A title in another charset is lost.
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
		r, n := utf8.DecodeRune(text) // character references are UTF-8 already
		if n == 1 {
			if r = rune(text[0]); 0x80 <= r && r < 0xa0 {
				r = windows1252[r-0x80]
			}
		}
		out, text = utf8.AppendRune(out, r), text[n:]
	}
	return out
}

// western reports whether a charset is empty, or one that the Encoding Standard decodes as windows-1252.
func western(charset string) bool {
	switch strings.ToLower(strings.TrimSpace(charset)) {
	case "", "windows-1252", "cp1252", "x-cp1252", "iso-8859-1", "iso8859-1", "iso88591", "iso_8859-1", "latin1", "latin-1", "l1", "us-ascii", "ascii":
		return true
	}
	return false
}

// windows1252 maps the bytes 0x80 to 0x9f.
var windows1252 = [32]rune{
	'€', 0x81, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0x8d, 'Ž', 0x8f,
	0x90, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0x9d, 'ž', 'Ÿ',
}

// prescan is the size, in bytes, of the beginning of a page in which it may declare its charset.
const prescan = 1024

// metaCharset returns the charset declared at the beginning of a page by <meta charset> or a content-type;
// empty if none.
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
