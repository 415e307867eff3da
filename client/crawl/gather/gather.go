// Package gather is the role that reads: what an answer says, where it leads,
// and whether its content was seen before.
package gather

import (
	"github.com/parleyweb/parley/protocol"
)

// A LinkKind says by what a page leads elsewhere.
type LinkKind uint8

const (
	Anchor    LinkKind = iota // a, area
	Frame                     // iframe, frame
	Refresh                   // meta refresh
	Alternate                 // link rel=alternate hreflang, next, prev: other pages
	Embedded                  // img, script, style sheet, audio, video, object: not followed unless asked
	Feed                      // link rel=alternate to RSS, Atom, JSON Feed
	Sitemap                   // link rel=sitemap
	Manifest                  // link rel=alternate type=application/rdf+xml or rel=manifest of ours
)

// A Link is a reference of a page, resolved against its base but not yet
// canonical: that is the seeder's.
type Link struct {
	URL      string
	Kind     LinkKind
	NoFollow bool // rel=nofollow, ugc or sponsored
}

// A Page is what an answer says.
type Page struct {
	Title, Language, Canonical string
	NoIndex, NoFollow          bool // by meta robots or X-Robots-Tag, for our name or everybody
	Links                      []Link
	HTML                       bool // false: text/plain, without links, or not parsed at all

	Body   protocol.Digest // of the body as served
	Parsed protocol.Digest // of the content after parsing: markup, scripts and white space gone
	Length int             // of the parsed content, in bytes
	Text   protocol.Digest // of the main text, if asked for; zero if not
}
