package protocol

import (
	"errors"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// ManifestType is the media type of a manifest (RFC 3870, E02).
const ManifestType = "application/rdf+xml"

// A Manifest is the head of a robots.rdf, without its items, which are
// streamed: see [WriteManifest] and [ManifestReader].
type Manifest struct {
	URL  string // of the manifest
	Base string // of the site, absolute; if the manifest states none, the directory of URL

	Title       string // empty: Base is used
	Description string // empty: a default sentence is used

	// Modified is when the site last changed; never when the manifest was
	// written. The zero time means unknown.
	Modified time.Time

	// Cursor is the position of the site's journal: a follower that has processed
	// the manifest continues from here. The zero Cursor means that the site
	// keeps no journal.
	Cursor Cursor

	// Complete says that the manifest names everything that the site offers,
	// so that absence means gone. It requires Items.
	Complete bool

	// Items is the number of items, tombstones apart; -1 means unknown.
	Items int

	// Stream and Changes are the URLs of the other doors, and Discovery that of
	// the document that names all doors; empty means none. They are not checked:
	// before it opens one, the caller checks its origin.
	Stream, Changes, Discovery string

	// Replaces are the base URLs that the site had before it moved to Base, at most 16:
	// a writer refuses more, a reader ignores them. What was below one of them is now at
	// the same path below Base. That is a claim, and worth nothing unless the old address
	// redirects here.
	Replaces []string

	// Whole makes the manifest an index: it says where the parts are that describe the whole
	// site. Then Cursor is zero, Complete is false, and Items are the few items that the index
	// itself holds. Nil means that the manifest is not in parts.
	Whole *Whole
}

const maxReplaces = 16

// ErrTruncated is wrapped by the last error of [ManifestReader.Next] for a
// manifest that says it is complete and is well-formed, but whose number of
// items differs from its count; and by that of [Whole.Snapshot] and
// [Whole.ChangesAfter] for parts whose numbers differ from those of the index.
var ErrTruncated = errors.New("manifest's number of items differs from its stated count")

// ErrLimit is wrapped by errors that say that a manifest, or other input, exceeds a limit.
var ErrLimit = xmlpull.ErrLimit

// The namespaces of a manifest.
const (
	nsRDF    = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	nsRSS    = "http://purl.org/rss/1.0/"
	nsDC     = "http://purl.org/dc/elements/1.1/"
	nsTerms  = "http://purl.org/dc/terms/"
	nsParley = "urn:parley:1#"

	// nsRDFLoose is nsRDF as figure 6.5 of the thesis spells it (E01).
	nsRDFLoose = "http://www.w3.org/1999/02/22-rdf-syntax-ns"
)

// fallbackTitle returns the title of an item without one: the path of its URL.
func fallbackTitle(url string) string {
	origin := Origin(url)
	if len(origin) == len(url) {
		return url
	}
	return url[len(origin):]
}

// titleOf returns the cleaned title, or "" if it is the fallback title.
func titleOf(url, title string) string {
	title = cleanText(title)
	if f := fallbackTitle(url); title == f || len(f) > maxTitle && title == cleanText(f) {
		return ""
	}
	return title
}

const descriptionStart, descriptionEnd = "What ", " offers, and when it last changed"

// fallbackDescription is the description of a site that has none.
func fallbackDescription(base string) string { return descriptionStart + base + descriptionEnd }

// headTexts normalizes a manifest's title and description to the form that a
// reader returns: cleaned, and empty if equal to the default.
func (m *Manifest) headTexts() {
	m.Title, m.Description = cleanText(m.Title), cleanText(m.Description)
	if m.Title == cleanText(m.Base) {
		m.Title = ""
	}
	if strings.HasPrefix(m.Description, descriptionStart) && m.Description == cleanText(fallbackDescription(m.Base)) {
		m.Description = ""
	}
}
