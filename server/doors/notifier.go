package doors

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/web"
	"github.com/parleyweb/parley/server/manifest"
)

// A Notifier is the http.Handler with a site's doors: below the path of Base
//
//	robots.rdf       the manifest, from the Snapshot
//	parley/changes   the changes after a cursor; also as a long poll
//	parley/stream    the same over WebSocket
//	parley/query     what is offered now, by a filter; with Content.Items
//	parley/batch     many pages at once; with Content.Pages
//	parley/site.wacz the whole site as one archive; with Content.Archive
//	parley/agents    where crawlers send programs; with Clients.Agents
//	parley/announce  where the site's own programs announce what they changed
//	parley/openapi.json, parley/asyncapi.json  machine-readable descriptions of all of these
//
// and .well-known/parley, which lists them all. The host's own /.well-known/parley
// answers the same, for a host with one site below a path.
//
// Every subscriber is a position in the Log with a wake-up: no queue can overflow,
// and replay and live delivery share one code path. Close must be called at the
// end: http.Server.Shutdown neither ends streams nor waits for them.
//
// Fields must not change once a method has been called. Any number of goroutines may
// call the methods at once.
//
// # Announcing
//
// The program that generates a site, such as a content management system, announces
// the pages that it wrote:
//
//	POST BASE/parley/announce
//	Authorization: Bearer TOKEN
//	Content-Type: application/json
//
//	{"pages": [
//	  {"url": "https://www.example.org/news/7", "modified": "2026-11-21T09:00:00Z", "title": "Seven"},
//	  {"url": "/news/6", "digest": "sha-256=:BASE64:"},
//	  {"url": "/news/5", "gone": true, "modified": "2026-11-21T09:00:00Z"}
//	]}
//
// A page has the members of [protocol.Announcement]: a url, and modified (RFC 3339), digest
// (of the bytes as served, without content coding) or gone; the others are optional.
// Unknown members are ignored. The body may also be one page, a list of pages or,
// with the type application/x-ndjson, one page per line. A body of more than 4 MiB
// or 1,000 pages gets 413 and must be split.
//
// The response is 200 with an [protocol.Announced]: everything up to its cursor is durable,
// and delivered to all that read that far. Pages listed as refused were not accepted
// and need not be sent again; all others were accepted. A client that gets no
// response, or 503 with Retry-After while the site is being scanned, repeats the
// request: repeats deliver nothing twice, and in any order the latest date wins. A
// deleted page comes back with a date later than its deletion, or with a digest and
// no date. So date deletions too; one without a date counts as of its acceptance.
// After the site's state was lost, announce every existing page again: until then
// these pages are reported neither as new nor as deleted.
//
// 400 names the page that cannot be read; then none was accepted. A request
// without a valid token gets 401, whatever it contains.
type Notifier struct {
	Log      protocol.Log
	Snapshot *manifest.Snapshot // nil: no manifest is served
	Base     string             // the site's base URL, ending in "/"

	// Public reports whether a URL may be published now; replay obeys it too. Nil
	// means that all may. It must not return false merely because the rules cannot be
	// read at the moment: a change withheld from a follower is never sent to it later.
	Public func(url string) bool

	// Ready reports whether Public's answers are valid yet; nil means that they
	// are. Until then the doors answer 503, except for a manifest that already
	// exists. Ready of a server.Publisher is made for it.
	Ready func() bool

	Content Content // what is delivered besides changes
	Clients Clients // who the clients are, and what they may do
	Limits  Limits

	// Welcome tells crawlers how the site would like to be crawled; nil tells nothing.
	Welcome *protocol.Welcome

	Logger *slog.Logger
	Now    func() time.Time

	opened struct {
		once  sync.Once
		table *table
	}
}

// Content is what a site delivers besides its changes; what is nil is not offered.
type Content struct {
	// Pages reads page contents, for the forms delta, page and batch. Nil: these
	// forms are not offered.
	Pages content.Pages

	// Item returns what is offered at a URL, and false if nothing is. The batch door
	// uses it for pages requested by URL. Nil: pages cannot be requested by URL.
	Item func(url string) (protocol.Item, bool, error)

	// Items returns what is offered now, for the query door: see server.Moments. Nil:
	// there is no query door.
	Items func(context.Context) (*content.Moment, error)

	// Archive makes archives of the whole site, for the form site. Nil: it is not offered.
	Archive content.Archive

	// SiteShare is the share of the site's pages that must be new to a reader of
	// the form site before it is sent an archive. Zero means a half.
	SiteShare float64
}

// Clients says who the clients of a site are, what they may be told, and what they may ask it to do.
type Clients struct {
	// Identify returns the caller of a request; its error is answered 401. It is
	// called again before each delivery to a stream or long poll. Nil: every
	// caller is anonymous. [caller.Callers.Identify] is made for it.
	Identify func(*http.Request) (caller.Caller, error)

	// Proxies are believed when they say for which client they send a request, as are those on
	// this machine.
	Proxies caller.Proxies

	// PublicTo reports whether a caller that has its own rules in robots.txt may be told of
	// a public URL. Nil: it may be told of all. PublicTo of a server.Site is made for it.
	PublicTo func(name, url string) bool

	// Where evaluates expressions: the parameter where. Nil: it is not offered.
	Where func(expression string) (caller.Predicate, error)

	// Agents runs programs: the parameter agent. Nil: it is not offered.
	Agents caller.Agents

	// Announce accepts the announcements posted to parley/announce with one of
	// AnnounceTokens. Announce of a server.Publisher is made for it. If it is nil there is no
	// such door; without tokens every announcement is refused.
	Announce       func(context.Context, []protocol.Announcement) (protocol.Announced, error)
	AnnounceTokens []string
}

// MostSubscribers is the largest useful Limits.MaxSubscribers: a change must reach all within a second or two.
const MostSubscribers = 100_000

// Limits bound the requests that last long, and how long a client may take.
type Limits struct {
	// PullOnly disables long-lived requests: there is no stream, and the changes
	// door does not wait. Everything can still be polled.
	PullOnly bool

	// MaxSubscribers bounds the streams and waiting long polls at a time.
	// Zero means 1,000; more than MostSubscribers means that many. PerAddress bounds them per client address; zero means 16.
	// No per-address bound applies to requests whose client is not known: see caller.Proxies.
	MaxSubscribers, PerAddress int

	// Heartbeat is the longest silence on a stream, at most protocol.MaxHeartbeat.
	// Zero means 25 s, which is below the 60 s after which common proxies hang up.
	Heartbeat time.Duration

	// Hurry, above zero, shortens the reconnect delay sent when a stream closes. For tests.
	Hurry time.Duration

	// WriteWait is how long a client may take to read one message, or one
	// piece of a manifest, before it is cut off. Zero means 20 s.
	WriteWait time.Duration
}

// open opens the doors, once.
func (n *Notifier) open() *table {
	n.opened.once.Do(func() { n.opened.table = newTable(n) })
	return n.opened.table
}

// Register adds the doors to a mux that serves the rest of the host. They are
// below the path of Base, so that a host can have several sites.
func (n *Notifier) Register(mux *http.ServeMux) {
	t := n.open()
	entered := make(map[string]bool)
	for _, d := range t.doors {
		path := d.path
		if strings.HasPrefix(path, "parley/") {
			path = "parley/" // also for doors that do not exist: they are answered here
		}
		if !entered[path] {
			entered[path] = true
			mux.Handle(t.site.urls.path+path, n)
		}
	}
}

// ServeHTTP serves the doors, and answers 404 to everything else.
func (n *Notifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := n.open()
	t.site.deadline(w, 0)
	d := t.door(r.URL.Path)
	var p *web.Problem
	switch {
	case t.site.urls.err != nil:
		p = web.Plain(http.StatusInternalServerError, t.site.urls.err.Error())
	case d == nil:
		p = web.Plain(http.StatusNotFound, "not found: "+t.site.urls.discovery+" lists the doors of this site")
	case !slices.Contains(d.methods, r.Method):
		p = web.Plain(http.StatusMethodNotAllowed, "allowed methods: "+strings.Join(d.methods, ", "))
		p.Allow = strings.Join(d.methods, ", ")
	default:
		p = d.serve(w, r)
	}
	if p != nil {
		t.counts.refuse(p.Status)
		if p.Type == web.TypeLimit {
			t.readers.slots.DelayRejection(r.Context())
		}
		p.Write(w, r)
	}
}

// Close sends every stream a bye with its cursor, ends every long poll, and waits
// until all have ended; new ones are rejected from then on. If ctx ends first, the
// remaining connections are cut and its error is returned.
func (n *Notifier) Close(ctx context.Context) error { return n.open().subscribers.close(ctx) }

// Forget empties the caches of encoded frames and packed bundles: everything
// sent after that is made anew.
func (n *Notifier) Forget() {
	t := n.open()
	t.frames.forget()
	t.bundles.packed.forget()
}

// Stats returns the counts as they are now.
func (n *Notifier) Stats() Stats {
	t := n.open()
	return t.counts.stats(t.subscribers.admitted.Now())
}

// Listeners returns the clients that wait for changes now, the earliest first.
func (n *Notifier) Listeners() []Listener { return n.open().subscribers.list() }
