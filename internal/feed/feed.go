// Package feed reads and writes news feeds. It reads RSS of all versions, Atom and JSON Feed, as they are
// found on the Web; it writes RSS 2.0, Atom (RFC 4287) and JSON Feed 1.1, for existing readers.
//
// The id of an entry is the URL of its page, in all three forms, unless Entry has another: so a page that
// changes again is an update of its entry, not another entry, and a page that is in two feeds of a site is
// one. The output depends on the Feed alone; it has no time of writing.
//
// Only Atom announces a deletion, as a tombstone (RFC 6721): the other forms cannot express it, and would
// show it as news.
package feed

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Feed is the recent changes of a site.
type Feed struct {
	Title       string // of the site; empty: Home is used
	Home        string // URL of the site
	Self        string // URL of the feed; empty: none is written
	Description string // empty: a plain sentence is used
	Hub         string // URL of a WebSub hub; empty means none

	// Updated is when anything in the feed last changed; zero: the time of the newest entry is used.
	Updated time.Time

	Entries []Entry // newest first

	// Kind is the format that Read found, such as "rss 2.0", "atom 1.0" or "json 1.1".
	Kind string
}

// An Entry is a page and its latest change.
type Entry struct {
	URL     string
	Title   string // empty: the URL is used
	Summary string // plain text

	// Modified is when the page last changed, zero if unknown; for a deletion, when it was announced. Span is
	// the precision of that, see [protocol.Item]; it is read only.
	Modified time.Time
	Span     time.Duration

	Op           protocol.Op           // empty: the page exists
	Significance protocol.Significance // of an update

	ID string // empty: the URL
}

// The media types of RSS and Atom.
const (
	typeRSS  = "application/rss+xml"
	typeAtom = "application/atom+xml"
)
