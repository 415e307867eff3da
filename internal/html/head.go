package html

import (
	"bytes"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxTitle is the longest title, in bytes.
	MaxTitle = 1 << 10

	maxLanguage = 35 // bytes of a language tag: RFC 5646, section 4.4.1
)

// A head is the metadata that a page declares, most of it before its body.
type head struct {
	// Title, Language, UnavailableAfter, NoIndex and NoArchive are those of a Page; NoFollow is like NoIndex.
	Title, Language              string
	UnavailableAfter             time.Time
	NoIndex, NoFollow, NoArchive bool

	// Base and Canonical are references as written; nil if there are none.
	Base, Canonical []byte

	begun  bool // an element that belongs in a body has begun
	inBody bool // a <body> has begun: no element speaks for the whole page any more
	titled bool // there was a title
	html   bool // there was an <html>
}

// start notes that an element begins; hidden says that what is in it is not on the page. It reports whether
// the element is the title.
func (h *head) start(e element, hidden bool) bool {
	switch {
	case e.tag == tagBody:
		h.begun, h.inBody = true, true
	case hidden || e.has(heads): // elements in a template do not begin the body
	case e.tag == tagTitle:
		first := !h.titled && !h.begun // a drawing in the body may have a title
		h.titled = true
		return first
	default:
		h.begun = true
	}
	return false
}

// language handles an <html>.
func (h *head) language(p *source) {
	if !h.html && !h.inBody {
		for _, a := range []attrID{attrXMLLang, attrLang} {
			if l := language(p.value(a)); l != "" {
				h.Language = l
			}
		}
	}
	h.html = true
}

// meta handles a <meta>, which may be for an agent.
func (h *head) meta(p *source, agent string) {
	if h.inBody {
		return
	}
	if h.Language == "" && bytes.EqualFold(bytes.TrimSpace(p.value(attrHTTPEquiv)), []byte("content-language")) {
		h.Language = language(p.value(attrContent))
	}
	name := bytes.TrimSpace(p.value(attrName))
	if !bytes.EqualFold(name, []byte("robots")) && !bytes.EqualFold(name, []byte("parley")) && !(agent != "" && bytes.EqualFold(name, []byte(agent))) {
		return
	}
	rules := p.value(attrContent)
	noIndex, noFollow := robots(rules)
	h.NoIndex, h.NoFollow, h.NoArchive = h.NoIndex || noIndex, h.NoFollow || noFollow, h.NoArchive || hasWord(rules, "noarchive")
	h.UnavailableAfter = soonest(h.UnavailableAfter, UnavailableAfter(rules))
}

// base handles a <base>.
func (h *head) base(p *source) {
	if !h.inBody {
		keep(&h.Base, p)
	}
}

// canonical handles a <link rel="canonical">.
func (h *head) canonical(p *source) {
	if !h.begun {
		keep(&h.Canonical, p)
	}
}

// keep sets a reference, unless it is set, to the href of a tag.
func keep(ref *[]byte, p *source) {
	if href := p.value(attrHref); *ref == nil && href != nil && len(href) <= maxURL {
		*ref = bytes.Clone(p.clean(href))
	}
}

// robots parses a list of directives, from <meta name="robots"> or X-Robots-Tag.
func robots(list []byte) (noIndex, noFollow bool) {
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
