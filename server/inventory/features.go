package inventory

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parleyweb/parley/protocol"
)

// Features is what a page says of itself.
type Features struct {
	Title            string          // as plain text; empty if it has none
	NoIndex          bool            // it asks not to be listed anywhere
	UnavailableAfter time.Time       // when it will ask for that; zero if it does not
	Language         string          // see protocol.Item
	Canonical        string          // the same
	Text             protocol.Digest // the same
	Sketch           []byte          // of the main text, as internal/maintext makes it
}

const (
	titleSize    = 1 << 10 // the longest title that is kept, in bytes
	languageSize = 35      // the longest language tag that everybody must take (RFC 5646, section 4.4.1)
	sketchSize   = 1 << 10 // the longest sketch that is kept, in bytes
)

// Clean leaves of what the page at url says only what may be told: a title of
// one line, a language tag that is one, another URL than its own, a sketch of
// a common size.
func (f *Features) Clean(url string) {
	f.Title, f.Language, f.Canonical = cleanTitle(f.Title), cleanLanguage(f.Language), cleanCanonical(url, f.Canonical)
	if len(f.Sketch) > sketchSize {
		f.Sketch = nil
	}
}

// cleanTitle makes one line of a title, and cuts it to titleSize.
func cleanTitle(title string) string {
	title = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(title, "\uFFFD"))
	title = strings.Join(strings.Fields(title), " ")
	if len(title) <= titleSize {
		return title
	}
	n := titleSize
	for !utf8.RuneStart(title[n]) {
		n--
	}
	return strings.TrimSpace(title[:n])
}

// cleanLanguage returns a language tag, and the empty string for what is none.
func cleanLanguage(tag string) string {
	tag = strings.TrimSpace(tag)
	if len(tag) > languageSize {
		return ""
	}
	for i := 0; i < len(tag); i++ {
		c := tag[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return ""
		}
	}
	return tag
}

// cleanCanonical returns the URL that the page at url asks to be listed under,
// if that is another one and is one at all.
func cleanCanonical(url, canonical string) string {
	if canonical == "" {
		return ""
	}
	c, err := protocol.CanonicalURL(url, canonical)
	if err != nil || c == url {
		return ""
	}
	return c
}
