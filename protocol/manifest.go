package protocol

import (
	"errors"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// ManifestType is the media type of a manifest (RFC 3870, E02).
const ManifestType = "application/rdf+xml"

// A Manifest is the head of a robots.rdf: what it says of itself. Its items
// are streamed past it, see [WriteManifest] and [ManifestReader].
type Manifest struct {
	URL  string // of the manifest
	Base string // of the site, absolute; where none is stated, the directory of URL

	Title       string // empty: Base stands in
	Description string // empty: a plain sentence stands in

	// Modified is when the site last changed; never when the manifest was
	// written. The zero time means unknown.
	Modified time.Time

	// Cursor is where the site's journal stood: a follower that has taken in
	// the manifest goes on from here. The zero Cursor means that the site
	// keeps no journal.
	Cursor Cursor

	// Complete says that the manifest names everything that the site offers,
	// so that absence means gone. It needs Items.
	Complete bool

	// Items is the number of items, tombstones apart; -1 means unknown.
	Items int

	// Stream and Changes are the URLs of the other doors, and Discovery that of
	// the document which names all of them; empty means none. They are as the
	// site states them: whoever opens one judges its origin.
	Stream, Changes, Discovery string
}

// ErrTruncated is wrapped by the last error of [ManifestReader.Next] for a
// manifest that calls itself complete and is well-formed, but holds another
// number of items than it says.
var ErrTruncated = errors.New("manifest does not hold the items it counts")

// ErrLimit is wrapped by errors that say that a manifest, or what else is read, went beyond a limit.
var ErrLimit = xmlpull.ErrLimit

// The namespaces of a manifest.
const (
	nsRDF    = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	nsRSS    = "http://purl.org/rss/1.0/"
	nsDC     = "http://purl.org/dc/elements/1.1/"
	nsTerms  = "http://purl.org/dc/terms/"
	nsParley = "urn:parley:1#"

	// nsRDFLoose is how figure 6.5 of the thesis spells nsRDF (E01).
	nsRDFLoose = "http://www.w3.org/1999/02/22-rdf-syntax-ns"
)

// fallbackTitle is the title of what has none: the path of its URL.
func fallbackTitle(url string) string {
	origin := Origin(url)
	if len(origin) == len(url) {
		return url
	}
	return url[len(origin):]
}

// titleOf returns the title that says something beyond the URL, or nothing.
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

// headTexts brings a manifest's title and description to the form that is
// read back: clean, and empty where they say no more than what stands in.
func (m *Manifest) headTexts() {
	m.Title, m.Description = cleanText(m.Title), cleanText(m.Description)
	if m.Title == cleanText(m.Base) {
		m.Title = ""
	}
	if strings.HasPrefix(m.Description, descriptionStart) && m.Description == cleanText(fallbackDescription(m.Base)) {
		m.Description = ""
	}
}
