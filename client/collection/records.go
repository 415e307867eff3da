package collection

import (
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A Signal is by what a page came to be asked for.
type Signal string

// The signals, the least first: a page that waits for its turn keeps the greatest.
const (
	ByLink     Signal = "link" // a page led there
	ByAge      Signal = "age"  // the policy thinks that it may have changed
	BySitemap  Signal = "sitemap"
	ByFeed     Signal = "feed"
	ByManifest Signal = "manifest"
	ByChanges  Signal = "changes"
	ByStream   Signal = "stream"
	ByIndexNow Signal = "indexnow"
	ByPerson   Signal = "person" // crawler add, or a start page
)

// A State is where a page stands.
type State uint8

const (
	Known    State = iota // never asked for
	Held                  // its content was fetched, and is the newest that we know
	Gone                  // 410, two 404s hours apart, or the site's own word
	Moved                 // it redirects, to Target
	Refused               // 4xx and the like: asked again seldom
	Failing               // no whole answer yet, or not lately: what was held stays held
	Excluded              // robots.txt, a rule or a limit forbids to ask, see Why: what was held stays held
)

// String returns the word by which people name the state, such as "held".
func (s State) String() string {
	if names := [...]string{"known", "held", "gone", "moved", "refused", "failing", "excluded"}; int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// A Page is what is known of one URL (V22).
type Page struct {
	ID    frontier.PageID
	Site  frontier.SiteID
	URL   string
	Depth int
	Found time.Time
	By    Signal // that found it
	State State
	Why   string // for Excluded: the rule

	// Ask is what to ask for instead of the URL, with a session, which is no part
	// of a page's name (E30); empty: the URL.
	Ask string

	Dynamic           bool
	NoIndex, NoFollow bool // it asks not to be indexed, and that its links are not followed
	Listed            bool // a manifest of its site names it

	// Told: somebody says that the page has changed, or is new. Debt is the
	// digest that it owes, zero if that was not said; Signal by what.
	Told   bool
	Debt   protocol.Digest
	Signal Signal
	Missed int // answers in a row that were not what was told

	DebtText   protocol.Digest // of the main text, as told with Debt; zero if that was not said
	DebtLength int64           // in bytes, the same; 0 if that was not said

	fresh.History
	Status int       // of the last answer, 0: none
	Fails  int       // answers in a row that were none, or 404 while held
	Fault  string    // of the last one of them, for people
	Failed time.Time // the first of them

	// What is held, if Digest is not zero; what was held, if Gone.
	Digest, Parsed, Text             protocol.Digest
	Length                           int64
	Cut                              bool     // the body is longer than what was read of it, which is Length
	Unstable                         Unstable // whether the body is the same for everybody who asks
	Type, Title, Language, Canonical string
	ETag, LastModified               string // as they came
	Stored                           Place
	Original                         frontier.PageID // of which the parsed content is a duplicate; 0: none
	Target                           string          // of a redirect

	Importance float32 // 0..1, as a manifest says; NaN: unknown
	Rank       float32 // a link score; 0: unknown
	Cash       float32 // OPIC

	Latency, Took time.Duration // of the last answer

	At    time.Time // when it is to be asked for next; the zero time: at once; Never: not
	Value float32   // what the policy says that gains

	rank    float32         // of its Entry
	claim   protocol.Digest // told last; kept when it was given up, so that the same claim again is no news
	span    time.Duration   // how coarse the Modified told last was
	said    time.Time       // the Modified told last, as it was told
	claimed time.Time       // when it was told: answers asked for before prove nothing
	missing time.Time       // the first 404 since there was anything else than an error
}

// Unstable says which part of a page differs at each request, though nobody has changed it: a nonce, a
// date, a counter. A digest says nothing of such a page.
type Unstable uint8

const (
	Stable       Unstable = iota // as far as is known
	UnstableBody                 // two answers in a row differed, with the same main text
	UnstableText                 // the main text differed, too, or is not known
)

// String returns a word for people.
func (u Unstable) String() string {
	if names := [...]string{"stable", "body", "text"}; int(u) < len(names) {
		return names[u]
	}
	return "unknown"
}

// Claim is when the page was told of last, and the time of change that was
// named then; the zero times if that is not so, or was not said.
func (p *Page) Claim() (at, modified time.Time) { return p.claimed, p.said }

// Coarse is how coarsely that time of change was named: a day for a date.
func (p *Page) Coarse() time.Duration { return p.span }

// Entry is the page's place in the queue, and false if it has none.
func (p *Page) Entry() (frontier.Entry, bool) {
	if p.At.Equal(Never) {
		return frontier.Entry{}, false
	}
	return frontier.Entry{Page: p.ID, Site: p.Site, Rank: p.rank, At: toMilli(p.At)}, true
}

// has reports whether content of the page is held.
func (p *Page) has() bool { return !p.Digest.IsZero() && p.State != Gone }

// A Place is where a body stands.
type Place struct {
	File   string `json:"file,omitempty"` // below the collection, for a copy "mirror/" and the name below its root; empty: nowhere
	Offset int64  `json:"offset"`
	Length int64  `json:"length"` // of the record, 0 for a plain file
}

// A Site is what is known of one origin (V23).
type Site struct {
	ID       frontier.SiteID
	Origin   string // "https://example.org"
	Found    time.Time
	IP       netip.Addr
	Resolved time.Time // when

	Pages, Held, Gone, Ready, Dynamic, Errors, Duplicates int // counted by the collection
	Cut                                                   int // held, and not whole; counted likewise
	Requests, Bytes                                       int64

	Delay   time.Duration // Crawl-delay
	Soft404 bool          // it answers 200 for what does not exist
	Fault   string        // the last, for people
	FaultAt time.Time
	Quiet   time.Time // not to be asked before

	Trust []byte // package trust keeps its record here
	Shape []byte // package seed keeps its record here: depths, new and seen URLs

	Families []byte // package family keeps its record here: which kinds of URLs lead to something new

	Belief *fresh.Site // what is believed of its pages' changes, and of what it tells of them; nil: nothing
}

// A SourceKind is a way by which a site tells of its pages.
type SourceKind string

const (
	Robots      SourceKind = "robots"
	ManifestRDF SourceKind = "manifest" // and the doors that it names: followed by client.Follow
	SitemapXML  SourceKind = "sitemap"
	NewsFeed    SourceKind = "feed"
)

// A Source is one thing that tells of a site's pages, and how far it was taken in.
type Source struct {
	ID     uint64
	Site   frontier.SiteID
	Kind   SourceKind
	URL    string
	Parent uint64 // the sitemap index that names it

	Cursor             protocol.Cursor // ManifestRDF
	Door               string          // that told last
	As                 protocol.Form   // in which it was asked to tell last, empty if it is not asked so
	Why                string          // it was
	ETag, LastModified string
	Digest             protocol.Digest // of the body that was taken in last; ManifestRDF: the rules that was under, see Collection.Under
	Body               []byte          // Robots: what is in force, at most 500 KiB
	Status             int
	Polled, Changed    time.Time
	At                 time.Time // when it is due
	Since              time.Time // when it began that it cannot be had; zero: it can
	Fails              int
	Fault              string
	Pages              int    // that it named last time
	Rhythm             []byte // package poll keeps its record here: when it has had news

	// Held is since when the deletion of most of its pages is held back; zero:
	// nothing is. Doomed is how many pages that is about. See Collection.Release.
	Held   time.Time
	Doomed int
}

// A Find is a URL that was admitted, by a link, a source or a person.
type Find struct {
	URL     string // canonical
	Ask     string // by which it is asked for, see Page; empty: the URL
	Depth   int
	By      Signal
	Dynamic bool
	LogOnly bool
	Exclude string // known, but excluded by this rule
}

// A Visit is what asking for a page came to.
type Visit struct {
	Page          frontier.PageID
	Asked         time.Time
	Claimed       time.Time       // Page.Claim's when it was asked for: what was told since then is looked into again; zero: Asked says
	Want          protocol.Digest // Page.Debt at that time
	Latency, Took time.Duration
	IP            netip.Addr
	Status        int
	Fault         string    // no answer, or not a whole one; empty: there was one
	Silent        bool      // Fault is the network's or the site's, not the page's: DNS, connect
	DNS           bool      // Fault is that the name could not be resolved (P05)
	Again         time.Time // the site wants to be asked no earlier (Retry-After)

	Proto                      string // "HTTP/1.1"
	Header                     http.Header
	Body                       []byte   // nil where nothing is stored, see Stores
	Length                     int64    // of the body, where that is nil
	File                       *os.File // for a copy: made by NewBody, in place of Body; Length says how long it is
	Cut                        bool     // Body is not whole: over the limit
	Unstable                   Unstable // of the site's pages in general: a body that is not what was told is not asked for again
	Type, ETag, LastModified   string
	Modified                   time.Time // Last-Modified, if it is credible
	Title, Language, Canonical string
	NoIndex, NoFollow          bool
	Digest, Parsed, Text       protocol.Digest
	Soft404                    bool // it looks like what the site answers for what does not exist

	// Delivered: the content came with what the source told, and nobody had asked.
	// Shared: it came by one request for many pages. Neither is a request of the site's.
	Delivered, Shared bool

	Links   []Find // what it leads to; ignored for a duplicate (P17)
	Target  *Find  // of a redirect
	Exclude string // not asked for: the rule that forbids it
}
