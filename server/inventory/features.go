package inventory

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parleyweb/parley/protocol"
)

// Features is what a page says about itself.
type Features struct {
	Title            string          // as plain text; empty if it has none
	NoIndex          bool            // it asks not to be listed
	UnavailableAfter time.Time       // when it will ask for that; zero if never
	Language         string          // see protocol.Item
	Canonical        string          // see protocol.Item
	Text             protocol.Digest // see protocol.Item
	Sketch           []byte          // of the main text, as internal/maintext makes it
}

const (
	titleSize    = 1 << 10 // the longest title stored, in bytes
	languageSize = 35      // the longest language tag that every implementation must accept (RFC 5646, section 4.4.1)
	sketchSize   = 1 << 10 // the longest sketch stored, in bytes
)

// Clean reduces the features of the page at url to publishable values: a title of one line, a valid language
// tag, a canonical URL other than its own, a sketch of the usual size.
func (f *Features) Clean(url string) {
	f.Title, f.Language, f.Canonical = cleanTitle(f.Title), cleanLanguage(f.Language), cleanCanonical(url, f.Canonical)
	if len(f.Sketch) > sketchSize {
		f.Sketch = nil
	}
}

// cleanTitle collapses white space in a title, and cuts it to titleSize.
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

// cleanLanguage returns a language tag, and the empty string if it is invalid.
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

// cleanCanonical returns the canonical URL that the page at url states, if it is valid and another one.
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
