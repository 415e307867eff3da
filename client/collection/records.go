package collection

import (
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A Signal is the reason why a page is to be fetched.
type Signal string

// The signals, lowest first: a page in the queue keeps the highest.
const (
	ByLink     Signal = "link" // a page links to it
	byAge      Signal = "age"  // the policy thinks that it may have changed
	BySitemap  Signal = "sitemap"
	ByFeed     Signal = "feed"
	ByManifest Signal = "manifest"
	ByChanges  Signal = "changes"
	ByStream   Signal = "stream"
	ByIndexNow Signal = "indexnow"
	ByPerson   Signal = "person" // crawler add, or a start page
)

// A State is the state of a page.
type State uint8

const (
	Known    State = iota // never fetched
	Held                  // its content was fetched, and is the newest known
	Gone                  // 410, two 404s hours apart, or the site's own word
	Moved                 // it redirects, to Target
	Refused               // 4xx and the like: retried seldom
	Failing               // no complete answer yet, or not lately: stored content stays
	Excluded              // robots.txt, a rule or a limit forbids fetching it, see Why: stored content stays
)

// String returns the state's name, such as "held".
func (s State) String() string {
	if names := [...]string{"known", "held", "gone", "moved", "refused", "failing", "excluded"}; int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// A Page is the record of one URL (V22).
type Page struct {
	ID    frontier.PageID
	Site  frontier.SiteID
	URL   string
	Depth int
	Found time.Time
	By    Signal // the signal that found it
	State State
	Why   string // for Excluded: the rule

	// FetchURL is the URL to request instead, with a session, which is not part of a page's name (E30); empty: URL.
	FetchURL string

	Dynamic           bool
	NoIndex, NoFollow bool // the page asks for noindex, nofollow
	Listed            bool // a manifest of its site names it

	// Told: a source says that the page has changed, or is new. Debt is the digest of this pending fetch,
	// zero if the source gave none; Signal is how the source said so.
	Told   bool
	Debt   protocol.Digest
	Signal Signal
	Missed int // answers in a row with another digest than announced

	DebtText   protocol.Digest // of the main text, announced with Debt; zero if none was
	DebtLength int64           // in bytes, announced with Debt; 0 if none was

	fresh.History
	Status int       // of the last answer, 0: none
	Fails  int       // failures in a row, or 404 while content is stored
	Fault  string    // of the last failure, for people
	Failed time.Time // time of the first of them

	// The stored content, if Digest is not zero; the last content, if Gone.
	Digest, Parsed, Text             protocol.Digest
	Sketch                           string // of the main text, see maintext.Share; empty: not known
	Length                           int64
	Cut                              bool     // the body is longer than the part that was read, which is Length bytes
	Unstable                         Unstable // whether the body differs from request to request
	Type, Title, Language, Canonical string
	ETag, LastModified               string // as received
	Stored                           contents.Place
	Original                         frontier.PageID // the page that had the same parsed content first; 0: none
	Target                           string          // of a redirect

	Importance float32 // 0..1, as a manifest says; NaN: unknown
	Rank       float32 // link score; 0: unknown

	Latency, Took time.Duration // of the last answer

	At    time.Time // when to fetch it next; the zero time: at once; Never: not at all
	Value float32   // the policy's estimate of that visit's gain

	rank    float32         // of the page's Entry
	claim   protocol.Digest // the digest announced last; kept when it was given up, so that the same claim again is no news
	span    time.Duration   // precision of said
	said    time.Time       // the Modified announced last
	claimed time.Time       // when that was announced: an answer to an earlier request proves nothing
	missing time.Time       // time of the first 404 since the last answer without an error
}

// Unstable says which part of a page differs at each request, though nobody has changed the page: a nonce, a
// date, a counter. The digest of such a page says nothing.
type Unstable uint8

const (
	Stable       Unstable = iota // as far as is known
	UnstableBody                 // two answers in a row differed, but not in their main text
	UnstableText                 // the main text differed too, or is not known
)

// String returns the name of u.
func (u Unstable) String() string {
	if names := [...]string{"stable", "body", "text"}; int(u) < len(names) {
		return names[u]
	}
	return "unknown"
}

// Claim returns when the page was last announced, and the modification time given then; zero times if there was none.
func (p *Page) Claim() (at, modified time.Time) { return p.claimed, p.said }

// Coarse returns the precision of that modification time: a day for a date.
func (p *Page) Coarse() time.Duration { return p.span }

// entry returns the page's place in the queue, and false if it has none.
func (p *Page) entry() (frontier.Entry, bool) {
	if p.At.Equal(Never) {
		return frontier.Entry{}, false
	}
	return frontier.Entry{Page: p.ID, Site: p.Site, Rank: p.rank, At: record.Milli(p.At)}, true
}

// has reports whether content of the page is stored, and the page is not gone.
func (p *Page) has() bool { return !p.Digest.IsZero() && p.State != Gone }

// A Site is the record of one origin (V23).
type Site struct {
	ID       frontier.SiteID
	Origin   string // "https://example.org"
	Found    time.Time
	IP       netip.Addr
	Resolved time.Time // when IP was resolved

	Pages, Held, Gone, Ready, Dynamic, Errors, Duplicates int // maintained by the collection
	Cut                                                   int // stored, but truncated; maintained likewise
	Doomed                                                int // whose deletion is held back, see Release; maintained likewise
	Requests, Bytes                                       int64
	Speed                                                 frontier.Speed // as measured by visits; maintained likewise

	// Withheld: a page or a source was fetched with cookies or a client certificate, see Visit.Authorized. From then on neither events nor
	// exports have anything of the site. Maintained likewise; it never ends.
	Withheld bool

	Delay   time.Duration // Crawl-delay
	Soft404 bool          // it answers 200 for pages that do not exist
	Fault   string        // the last fault, for people
	FaultAt time.Time
	Quiet   time.Time // no request before this time

	Trust []byte // package trust keeps its record here
	Shape []byte // package seed keeps its record here: depths, new and seen URLs

	Families []byte // package family keeps its record here: which kinds of URLs lead to new pages

	Belief *fresh.Site // estimates of its pages' change rates, and of its announcements' accuracy; nil: none
}

// A SourceKind is a way by which a site announces its pages.
type SourceKind string

const (
	Robots      SourceKind = "robots"
	ManifestRDF SourceKind = "manifest" // and the doors that it names: read by client.Follow
	SitemapXML  SourceKind = "sitemap"
	NewsFeed    SourceKind = "feed"
)

// A Source is one sitemap, feed, manifest or robots.txt of a site, with its cursor and poll state.
type Source struct {
	ID     uint64
	Site   frontier.SiteID
	Kind   SourceKind
	URL    string
	Parent uint64 // the sitemap index that names it

	Cursor             protocol.Cursor // ManifestRDF
	Doubtful           bool            // Cursor may belong to changes that the site has lost, see client.Source
	Door               string          // the door that delivered last
	As                 protocol.Form   // the form requested last, empty if none was
	Why                string          // why that form
	ETag, LastModified string
	Digest             protocol.Digest // of the body stored last; ManifestRDF: of the rules in force then, see Collection.Under
	Body               []byte          // Robots: the robots.txt in force, at most 500 KiB
	Status             int
	Polled, Changed    time.Time
	At                 time.Time // when the next poll is due
	Since              time.Time // since when polls have failed; zero: they succeed
	Fails              int
	Fault              string
	Pages              int    // pages that it named last time
	Rhythm             []byte // package poll keeps its record here: when it had news

	// Held is when the deletion of most of its pages began to be held back; zero: no deletion is. Doomed is
	// the number of those pages. See Collection.Release.
	Held   time.Time
	Doomed int

	Authorized bool // not stored: the last poll had a client certificate, so the site is Withheld
}

// A Find is a URL found by a link, a source or a person, and admitted.
type Find struct {
	URL     string // canonical
	Ask     string // the URL to request, see Page.FetchURL; empty: URL
	Depth   int
	By      Signal
	Dynamic bool
	LogOnly bool
	Exclude string // the rule that excludes it; the URL is stored all the same

	// Partition, above zero, is that of another crawler, which has the host: the URL is kept for it, see Outgoing, and is no page here.
	Partition int
}

// A Visit is the result of fetching a page.
type Visit struct {
	Page          frontier.PageID
	Asked         time.Time
	Claimed       time.Time       // Page.Claim's time when the request was sent: a later claim is still to be fetched; zero: Asked decides
	Want          protocol.Digest // Page.Debt at that time
	Latency, Took time.Duration
	Connect       time.Duration // the part of Took in which a connection was opened; 0: one was open
	PerConnection int           // requests over the connection, if it took no more; 0: it did, or would have
	IP            netip.Addr
	Status        int
	Fault         string    // no complete answer; empty: there was one
	Silent        bool      // Fault is the network's or the site's, not the page's: DNS, connect
	DNS           bool      // Fault is that the host name could not be resolved (P05)
	Again         time.Time // the site wants no request earlier (Retry-After)

	Request                    []byte // as sent, see Options.Requests; nil: none of its own
	Proto                      string // "HTTP/1.1"
	Header                     http.Header
	Body                       []byte   // nil where bodies are not stored, see Stores
	Length                     int64    // of the body, where that is nil
	File                       *os.File // for a copy: made by NewBody, in place of Body; Length says how long it is
	Cut                        bool     // Body is truncated: over the limit
	Unstable                   Unstable // of the site's pages in general: then a body with another digest than announced is not fetched again
	Type, ETag, LastModified   string
	Modified                   time.Time // Last-Modified, if credible
	Expires                    time.Time // until when the response says that it stays current; zero: it does not say
	Title, Language, Canonical string
	NoIndex, NoFollow          bool
	Digest, Parsed, Text       protocol.Digest
	Sketch                     string // of the main text; empty: not known
	Soft404                    bool   // it looks like the site's answer for pages that do not exist

	// Authorized: cookies or a client certificate were sent, so the answer may not be for everybody.
	Authorized bool

	// Delivered: the content came with the change, without a request. Shared: it came by one request for
	// many pages. In both cases the site's request count does not grow.
	Delivered, Shared bool

	Links      []Find // its links; ignored for a duplicate (P17)
	References []byte // what else it refers to, as package references encodes it; ignored likewise
	Target     *Find  // of a redirect
	Exclude    string // not fetched: the rule that forbids it
}
