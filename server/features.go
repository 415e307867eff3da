package server

import (
	"crypto/sha256"
	"fmt"
	"mime"
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
	featuresSize = 2 << 20 // how much of a page is asked for its features, in bytes
	titleSize    = 1 << 10 // the longest title that is kept, in bytes
	languageSize = 35      // the longest language tag that everybody must take (RFC 5646, section 4.4.1)
	sketchSize   = 1 << 10 // the longest sketch that is kept, in bytes

	// maxNoIndex is how many pages are remembered that said noindex, which
	// takes some 30 MB. One more, and another is forgotten: it is read again.
	maxNoIndex = 100_000
)

// hasFeatures reports whether files of a media type are asked for features.
func hasFeatures(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// versioned returns the stamp of a file of a media type, which tells by which
// FeaturesVersion the file was asked for its features, if it is. A stamp of
// nothing stays one.
func (s *Site) versioned(stamp []byte, mediaType string) []byte {
	if len(stamp) == 0 || !hasFeatures(mediaType) {
		return stamp
	}
	return append(stamp, s.version...)
}

// prepareVersion makes of FeaturesVersion what becomes part of stamps: nothing
// where there is none.
func (s *Site) prepareVersion() {
	if s.Features != nil && s.FeaturesVersion != "" {
		sum := sha256.Sum256([]byte(s.FeaturesVersion))
		s.version = sum[:4]
	}
}

// features asks the beginning of a page, whose URL, Type and Stamp are in o,
// what it says of itself. An error leaves it open whether it may be published.
func (s *Site) features(o *Offer, head []byte) error {
	var f Features
	if s.Features != nil && hasFeatures(o.Type) {
		var err error
		if f, err = s.Features(o.URL, head, int64(len(head)) == o.Length); err != nil {
			return fmt.Errorf("features: %w", err)
		}
	}
	o.Title, o.Language, o.Canonical = cleanTitle(f.Title), cleanLanguage(f.Language), cleanCanonical(o.URL, f.Canonical)
	o.Text, o.Sketch = f.Text, f.Sketch
	if len(o.Sketch) > sketchSize {
		o.Sketch = nil
	}
	if !f.NoIndex && !f.UnavailableAfter.IsZero() {
		o.Stamp, o.Young = nil, nil // it is read at each look, until its time has come
	}
	if f.NoIndex {
		o.LeftOut = leftNoIndex
		s.rememberNoIndex(o.URL, o.Stamp)
	} else {
		s.forgetNoIndex(o.URL)
	}
	return nil
}

// rememberNoIndex notes that the page at url said noindex when it had this stamp.
func (s *Site) rememberNoIndex(url string, stamp []byte) {
	if url == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noIndex == nil {
		s.noIndex = make(map[string]string)
	}
	if _, ok := s.noIndex[url]; !ok && len(s.noIndex) >= maxNoIndex {
		for other := range s.noIndex {
			delete(s.noIndex, other)
			break
		}
	}
	s.noIndex[url] = string(stamp)
}

func (s *Site) forgetNoIndex(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.noIndex, url)
}

// saysNoIndex reports whether the page at url said noindex when it was last
// read, and has not changed since. Where it has, it stays remembered until it
// is read again, so that Public does not tell of it meanwhile.
func (s *Site) saysNoIndex(url string, stamp []byte) bool {
	if len(stamp) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noIndex[url] == string(stamp)
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

// cleanType returns a media type without parameters, in lower case, and the
// empty string for what is none.
func cleanType(s string) string {
	t, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(t, "/") || len(t) > 127 {
		return ""
	}
	return t
}
