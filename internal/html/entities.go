package html

import (
	"html"
	"unicode/utf8"
)

// A place is where entities are decoded.
type place uint8

const (
	inText      place = iota
	inRaw             // a title: a NUL becomes U+FFFD
	inAttribute       // the same, and "&copy=" is no entity
	inVerbatim        // a NUL becomes U+FFFD, and there are no entities
)

// maxEntity is longer than any name of an entity, in bytes.
const maxEntity = 40

// entityEnd returns the length of the possible entity that begins with "&"; 1 if it cannot be one.
func entityEnd(b []byte) int {
	i := 1
	if i < len(b) && b[i] == '#' {
		i++
		hex := i < len(b) && b[i]|0x20 == 'x'
		if hex {
			i++
		}
		from := i
		for i < len(b) && ('0' <= b[i] && b[i] <= '9' || hex && isHex(b[i])) {
			i++
		}
		if i == from {
			return 1
		}
	} else {
		for i < len(b) && i < maxEntity && ('0' <= b[i] && b[i] <= '9' || letter(b[i])) {
			i++
		}
		if i == 1 {
			return 1
		}
	}
	if i < len(b) && b[i] == ';' {
		i++
	}
	return i
}

// appendDecoded appends text or the value of an attribute with its entities
// decoded, as the HTML standard has it (section 13.2.5.72 and following).
func appendDecoded(dst, b []byte, in place) []byte {
	for len(b) > 0 {
		i := 0
		for i < len(b) && (b[i] != '&' || in == inVerbatim) && (b[i] != 0 || in == inText) {
			i++
		}
		dst = append(dst, b[:i]...)
		if b = b[i:]; len(b) == 0 {
			break
		}
		if b[0] == 0 {
			dst = utf8.AppendRune(dst, utf8.RuneError)
			b = b[1:]
			continue
		}
		n := entityEnd(b)
		if n > 1 && in == inAttribute && n < len(b) && b[1] != '#' && b[n-1] != ';' && b[n] == '=' {
			dst = append(dst, b[:n]...) // a parameter of a URL, such as "&copy="
		} else {
			dst = appendEntity(dst, b[:n], in == inAttribute)
		}
		b = b[n:]
	}
	return dst
}

// appendEntity appends the characters of an entity; e is the range that entityEnd found.
func appendEntity(dst, e []byte, attribute bool) []byte {
	if len(e) > 2 && e[1] == '#' {
		return appendNumbered(dst, e)
	}
	switch string(e) {
	case "&":
		return append(dst, '&')
	case "&amp;", "&amp":
		return append(dst, '&')
	case "&lt;":
		return append(dst, '<')
	case "&gt;":
		return append(dst, '>')
	case "&quot;":
		return append(dst, '"')
	case "&nbsp;":
		return append(dst, "\u00a0"...)
	case "&copy;":
		return append(dst, "©"...)
	case "&mdash;":
		return append(dst, "—"...)
	case "&ndash;":
		return append(dst, "–"...)
	case "&rsquo;":
		return append(dst, "’"...)
	case "&raquo;":
		return append(dst, "»"...)
	case "&laquo;":
		return append(dst, "«"...)
	case "&hellip;":
		return append(dst, "…"...)
	case "&nLt;": // which the standard library does not know, and the next
		return append(dst, "\u226a\u20d2"...)
	case "&nGt;":
		return append(dst, "\u226b\u20d2"...)
	}
	if len(e) >= maxEntity && attribute {
		return append(dst, e...)
	}
	out := html.UnescapeString(string(e))
	if attribute {
		// In an attribute only the whole name counts, not a prefix: a leftover shows that it was not the
		// whole.
		last := e[len(e)-1]
		if out[len(out)-1] == last && !(last == ';' && len(out) == 1) {
			return append(dst, e...)
		}
	}
	return append(dst, out...)
}

// appendNumbered appends the character of "&#N;".
func appendNumbered(dst, e []byte) []byte {
	e = e[2:]
	base := rune(10)
	if e[0]|0x20 == 'x' {
		base, e = 16, e[1:]
	}
	var r rune
	for _, c := range e {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case c == ';':
			continue
		default:
			c = c | 0x20 - 'a' + 10
		}
		if r <= utf8.MaxRune {
			r = r*base + rune(c)
		}
	}
	if 0x80 <= r && r < 0xa0 {
		r = windows1252[r-0x80]
	}
	if r == 0 {
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r) // an invalid character becomes U+FFFD
}

// windows1252 maps the bytes 0x80 to 0x9f.
var windows1252 = [32]rune{
	'€', 0x81, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0x8d, 'Ž', 0x8f,
	0x90, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0x9d, 'ž', 'Ÿ',
}
