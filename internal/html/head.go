package html

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxTitle is the longest title, in bytes.
	MaxTitle = 1 << 10

	maxLanguage = 35 // bytes of a language tag: RFC 5646, section 4.4.1
)

// meta handles a <meta>.
func (s *Scanner) meta() {
	if equiv := bytes.TrimSpace(s.value(attrHTTPEquiv)); equiv != nil {
		if bytes.EqualFold(equiv, []byte("refresh")) && s.templates == 0 {
			if ref := refreshRef(s.value(attrContent)); ref != nil {
				s.ref(s.cleanRef(ref), Refresh, false)
			}
		} else if s.metaLanguage == "" && !s.inBody && bytes.EqualFold(equiv, []byte("content-language")) {
			s.metaLanguage = language(s.value(attrContent))
		}
	}
	if s.inBody {
		return
	}
	name := bytes.TrimSpace(s.value(attrName))
	if name == nil || !bytes.EqualFold(name, []byte("robots")) && !bytes.EqualFold(name, []byte("parley")) &&
		!(s.Agent != "" && bytes.EqualFold(name, []byte(s.Agent))) {
		return
	}
	noIndex, noFollow := Robots(s.value(attrContent))
	s.UnavailableAfter = soonest(s.UnavailableAfter, UnavailableAfter(s.value(attrContent)))
	s.NoIndex, s.NoFollow = s.NoIndex || noIndex, s.NoFollow || noFollow
}

// Robots parses a list of directives, from <meta name="robots"> or X-Robots-Tag.
func Robots(list []byte) (noIndex, noFollow bool) {
	none := hasWord(list, "none")
	return none || hasWord(list, "noindex"), none || hasWord(list, "nofollow")
}

// hasWord reports whether a list, separated by white space or commas, has a word in any case.
func hasWord(list []byte, word string) bool {
	for w := range bytes.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if len(w) == len(word) && strings.EqualFold(string(w), word) {
			return true
		}
	}
	return false
}

// language returns a language tag, or the empty string if b cannot be one (RFC 5646, section 2.1: parts of
// one to eight letters and digits, the first letters only).
func language(b []byte) string {
	s := strings.TrimSpace(string(b))
	if len(s) > maxLanguage {
		return ""
	}
	for i, part := range strings.Split(s, "-") {
		if len(part) == 0 || len(part) > 8 {
			return ""
		}
		for _, c := range []byte(part) {
			letter := 'a' <= c|0x20 && c|0x20 <= 'z'
			if !letter && (i == 0 || c < '0' || c > '9') {
				return ""
			}
		}
	}
	return s
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// plain returns text as one line of at most MaxTitle bytes.
func plain(text []byte) string {
	if !utf8.Valid(text) {
		return ""
	}
	var b []byte
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		if b = append(b, word[:min(len(word), MaxTitle+1)]...); len(b) > MaxTitle {
			break
		}
	}
	if len(b) <= MaxTitle {
		return string(b)
	}
	n := MaxTitle
	for !utf8.RuneStart(b[n]) {
		n--
	}
	return strings.TrimSpace(string(b[:n]))
}
