// Package feed reads and writes news feeds. It reads RSS of all versions, Atom
// and JSON Feed, as they are found; it writes RSS 2.0, Atom (RFC 4287) and JSON
// Feed 1.1, for the readers that there are.
//
// The id of an entry is the URL of its page, in all three forms, unless Entry
// says otherwise: so a page that changes again is an update of its entry and
// not another entry, and a page that is in two feeds of a site is one. What
// is written depends on the Feed alone; there is no time of writing in it.
//
// A deletion is told in Atom only, as a tombstone (RFC 6721): the other forms
// have no word for it, and would show it as news.
package feed

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Feed is what changed at a site of late.
type Feed struct {
	Title       string // of the site; empty: Home stands in
	Home        string // URL of the site
	Self        string // URL of the feed; empty: it names none
	Description string // empty: a plain sentence stands in
	Hub         string // URL of a WebSub hub; empty means none

	// Updated is when anything in the feed last changed; zero: the newest
	// entry's time stands in.
	Updated time.Time

	Entries []Entry // newest first

	// Kind is what Read found, such as "rss 2.0", "atom 1.0" or "json 1.1".
	Kind string
}

// An Entry is a page and what happened to it.
type Entry struct {
	URL     string
	Title   string // empty: the URL stands in
	Summary string // plain text

	// Modified is when the page last changed, zero if unknown; for a deletion,
	// when it was told to be gone. Span is how coarsely that was said, see
	// [protocol.Item]; it is read only.
	Modified time.Time
	Span     time.Duration

	Op           protocol.Op           // empty: the page is there
	Significance protocol.Significance // of an update

	ID string // empty: the URL is it
}

// The media types of the three forms.
const (
	TypeRSS  = "application/rss+xml"
	TypeAtom = "application/atom+xml"
	TypeJSON = "application/feed+json"
)
