package doors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
	"github.com/parleyweb/parley/server/manifest"
)

// A Notifier is the http.Handler with a site's doors: below the path of Base
//
//	robots.rdf       the manifest, from the Snapshot
//	parley/changes   the changes after a cursor; also as a long poll
//	parley/stream    the same over WebSocket
//	parley/query     what is offered now, by a filter; with Items
//	parley/batch     many pages at once; with Pages
//	parley/site.wacz the whole site as one archive; with Archive
//	parley/agents    where crawlers send programs; with Agents
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

	// Announce accepts the announcements posted to parley/announce with one of
	// AnnounceTokens. Announce of a server.Publisher is made for it. If it is nil there is no
	// such door; without tokens every announcement is refused.
	Announce       func(context.Context, []protocol.Announcement) (protocol.Announced, error)
	AnnounceTokens []string

	// Pages reads page contents, for the forms delta, page and batch. Nil: these
	// forms are not offered.
	Pages content.Pages

	// Archive makes archives of the whole site, for the form site. Nil: it is not offered.
	Archive content.Archive

	// Items returns what is offered now, for the query door: see server.Moments. Nil:
	// there is no query door.
	Items func(context.Context) (*content.Moment, error)

	// SiteShare is the share of the site's pages that must be new to a reader of
	// the form site before it is sent an archive. Zero means a half.
	SiteShare float64

	// Item returns what is offered at a URL, and false if nothing is. The batch door
	// uses it for pages requested by URL. Nil: pages cannot be requested by URL.
	Item func(url string) (protocol.Item, bool, error)

	// Where evaluates expressions: the parameter where. Nil: it is not offered.
	Where func(expression string) (caller.Predicate, error)

	// Agents runs programs: the parameter agent. Nil: it is not offered.
	Agents caller.Agents

	// Identify returns the caller of a request; its error is answered 401. It is
	// called again before each delivery to a stream or long poll. Nil: every
	// caller is anonymous. [caller.Callers.Identify] is made for it.
	Identify func(*http.Request) (caller.Caller, error)

	// PublicTo reports whether a caller that has its own rules in robots.txt may be told of
	// a public URL. Nil: it may be told of all. PublicTo of a server.Site is made for it.
	PublicTo func(name, url string) bool

	// PullOnly disables long-lived requests: there is no stream, and the changes
	// door does not wait. Everything can still be polled.
	PullOnly bool

	// MaxSubscribers bounds the streams and waiting long polls at a time.
	// Zero means 1,000. PerAddress bounds them per client address; zero means 16.
	// A peer on the loopback counts as a proxy: the last hop of its
	// X-Forwarded-For is the client, and without one no per-address bound applies.
	MaxSubscribers, PerAddress int

	// Welcome tells crawlers how the site would like to be crawled; nil tells nothing.
	Welcome *protocol.Welcome

	// Heartbeat is the longest silence on a stream, at most protocol.MaxHeartbeat.
	// Zero means 25 s, which is below the 60 s after which common proxies hang up.
	Heartbeat time.Duration

	// Hurry, above zero, shortens the reconnect delay sent when a stream closes. For tests.
	Hurry time.Duration

	// WriteWait is how long a client may take to read one message, or one
	// piece of a manifest, before it is cut off. Zero means 20 s.
	WriteWait time.Duration

	Logger *slog.Logger
	Now    func() time.Time

	once         sync.Once
	descriptions descriptions

	doors    doors
	frames   frames
	admitted limit.Admission
	bundles  limit.Admission // responses of the batch door, and archives
	packers  packers
	bundled  bundleCache
	judged   judgements
	bursts   bursts
	queries  limit.Admission // responses of the query door
	stats    counters
	coder    web.Coder
	slots    limit.Slots
	asked    atomic.Int64    // bytes of batch questions held in memory
	programs limit.Admission // programs being received and stored

	mu           sync.Mutex // guards longRequests and closed, and the use of served.Add
	longRequests map[*longRequest]struct{}
	closed       bool
	served       sync.WaitGroup
}

// doors are the URLs and paths of a site's doors.
type doors struct {
	manifest, changes, stream, discovery string // URLs

	path string // of the base, decoded
	host string
	err  error
}

const (
	wellKnown = "/" + protocol.DiscoveryPath // at the root of the host

	// below the base
	manifestPath = "robots.rdf"
	changesPath  = "parley/changes"
	streamPath   = "parley/stream"
	openAPIPath  = "parley/openapi.json"
	asyncAPIPath = "parley/asyncapi.json"
	announcePath = "parley/announce"
	queryPath    = "parley/query"
	batchPath    = "parley/batch"
	sitePath     = "parley/site.wacz"
	agentsPath   = "parley/agents"

	agentsRunPath = "parley/agents/run"
)

func doorsOf(base string) doors {
	u, err := url.Parse(base)
	if err == nil && (u.Host == "" || !strings.HasSuffix(base, "/") || u.Scheme != "http" && u.Scheme != "https") {
		err = fmt.Errorf("base %.200q: want http://HOST/ or https://HOST/, ending in a slash", base)
	}
	if err != nil {
		return doors{err: err}
	}
	return doors{manifest: base + manifestPath, changes: base + changesPath, discovery: base + protocol.DiscoveryPath,
		stream: "ws" + strings.TrimPrefix(base, "http") + streamPath, path: u.Path, host: u.Host}
}

// Describe returns the manifest fields of a site, with the doors that a
// [Notifier] has below base. A site without a notifier clears Stream and Changes.
func Describe(base string) protocol.Manifest {
	d := doorsOf(base)
	return protocol.Manifest{URL: d.manifest, Base: base, Stream: d.stream, Changes: d.changes, Discovery: d.discovery}
}

func (n *Notifier) init() {
	n.once.Do(func() {
		if n.Now == nil {
			n.Now = time.Now
		}
		n.doors = doorsOf(n.Base)
		n.frames = frames{next: n.next, head: func() protocol.Cursor { return n.Log.Head() }, now: n.Now}
		n.longRequests = make(map[*longRequest]struct{})
	})
}

// deadline gives a client some time for its request, and WriteWait to read the response.
func (n *Notifier) deadline(w http.ResponseWriter, wait time.Duration) {
	web.SetDeadline(w, wait+n.writeWait())
}

// patient gives a client WriteWait for every piece of the response.
func (n *Notifier) patient(w http.ResponseWriter) web.Patient {
	return web.Patient{ResponseWriter: w, Wait: n.writeWait()}
}

func (n *Notifier) log() *slog.Logger { return cmp.Or(n.Logger, slog.New(slog.DiscardHandler)) }

func (n *Notifier) writeWait() time.Duration { return cmp.Or(max(n.WriteWait, 0), 20*time.Second) }

func (n *Notifier) heartbeat() time.Duration {
	return min(cmp.Or(max(n.Heartbeat, 0), 25*time.Second), protocol.MaxHeartbeat)
}

// Register adds the doors to a mux that serves the rest of the host. They are
// below the path of Base, so that a host can have several sites.
func (n *Notifier) Register(mux *http.ServeMux) {
	n.init()
	for _, path := range []string{manifestPath, "parley/", protocol.DiscoveryPath} {
		mux.Handle(n.doors.path+path, n)
	}
}

// ServeHTTP serves the doors, and answers 404 to everything else.
func (n *Notifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.init()
	n.deadline(w, 0)
	door := n.door(r.URL.Path)
	var p *web.Problem
	switch {
	case n.doors.err != nil:
		p = web.Plain(http.StatusInternalServerError, n.doors.err.Error())
	case door.serve == nil:
		p = web.Plain(http.StatusNotFound, "not found: "+n.doors.discovery+" lists the doors of this site")
	case !slices.Contains(door.methods, r.Method):
		p = web.Plain(http.StatusMethodNotAllowed, "allowed methods: "+strings.Join(door.methods, ", "))
		p.Allow = strings.Join(door.methods, ", ")
	default:
		p = door.serve(w, r)
	}
	if p != nil {
		n.stats.refuse(p.Status)
		if p.Type == web.TypeLimit {
			n.slots.DelayRejection(r.Context())
		}
		p.Write(w, r)
	}
}

// A door is the handler of a path: serve answers the request, or returns the problem to answer with.
type door struct {
	serve   func(http.ResponseWriter, *http.Request) *web.Problem
	methods []string
}

// door returns the handler of a path, and the zero door if there is none.
func (n *Notifier) door(path string) door {
	read := []string{http.MethodGet, http.MethodHead}
	ask := []string{http.MethodGet, http.MethodHead, web.MethodQuery, http.MethodPost}
	if path == wellKnown {
		return door{n.serveDiscovery, read}
	}
	below, ok := strings.CutPrefix(path, n.doors.path)
	if !ok {
		return door{}
	}
	switch below {
	case protocol.DiscoveryPath:
		return door{n.serveDiscovery, read}
	case manifestPath:
		return door{n.serveManifest, read}
	case changesPath:
		return door{n.serveChanges, ask}
	case streamPath:
		if !n.PullOnly {
			return door{n.serveStream, read}
		}
	case openAPIPath:
		return door{n.serveOpenAPI, read}
	case asyncAPIPath:
		if !n.PullOnly {
			return door{n.serveAsyncAPI, read}
		}
	case announcePath:
		if n.Announce != nil {
			return door{n.serveAnnounce, []string{http.MethodPost}}
		}
	case queryPath:
		if n.Items != nil {
			return door{n.serveQuery, ask}
		}
	case batchPath:
		if n.Pages != nil {
			return door{n.serveBatch, ask}
		}
	case sitePath:
		if n.Archive != nil {
			return door{n.serveSite, read}
		}
	case agentsPath:
		if n.Agents != nil {
			return door{n.serveAgents, []string{http.MethodPost}}
		}
	case agentsRunPath:
		if n.Agents != nil && n.Items != nil {
			return door{n.serveAgentRun, []string{http.MethodPost}}
		}
	}
	return door{}
}

func (n *Notifier) serveManifest(w http.ResponseWriter, r *http.Request) *web.Problem {
	if n.Snapshot == nil {
		return web.Plain(http.StatusNotFound, "this server does not serve the manifest")
	}
	n.stats.manifests.Add(1)
	n.linkDescriptions(w.Header())
	n.Snapshot.ServeHTTP(n.patient(w), r)
	return nil
}

func (n *Notifier) serveDiscovery(w http.ResponseWriter, r *http.Request) *web.Problem {
	if p := n.scanning(); p != nil {
		return p
	}
	head := n.Log.Head()
	d := protocol.Discovery{Version: 1, Base: n.Base, Manifest: n.doors.manifest, Changes: n.doors.changes, Stream: n.doors.stream,
		Subprotocols: protocol.Subprotocols(), Epoch: head.Epoch, Head: head, Floor: n.Log.Floor(),
		Heartbeat: int(n.heartbeat() / time.Second), Forms: n.forms(), Filters: n.filters(), Welcome: n.Welcome}
	if n.Snapshot != nil {
		d.Items = n.Snapshot.Items()
	}
	for _, o := range []struct {
		is   bool
		to   *string
		path string
	}{{n.Items != nil, &d.Query, queryPath}, {n.Pages != nil, &d.Batch, batchPath}, {n.Archive != nil, &d.Site, sitePath}, {n.Agents != nil, &d.Agents, agentsPath}} {
		if o.is {
			*o.to = n.Base + o.path
		}
	}
	if n.Pages != nil {
		d.Inline = protocol.MaxInline
	}
	d.OpenAPI = n.Base + openAPIPath
	if n.PullOnly {
		d.Stream, d.Subprotocols = "", nil
	} else {
		d.AsyncAPI = n.Base + asyncAPIPath
	}
	n.linkDescriptions(w.Header())
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // escaping would make a URL with many "&" longer than readers accept
	if err := enc.Encode(d); err != nil {
		panic("doors: encode discovery: " + err.Error()) // plain values always encode
	}
	web.WriteJSON(w, b.Bytes())
	return nil
}

// Forget empties the caches of encoded frames and packed bundles: everything
// sent after that is made anew.
func (n *Notifier) Forget() {
	n.init()
	n.frames.forget()
	n.bundled.forget()
}

// scanning returns the problem to answer with before the first scan has ended; else nil.
func (n *Notifier) scanning() *web.Problem {
	if n.Log.Head().IsZero() || n.Ready != nil && !n.Ready() {
		return web.Unavailable("the first scan of the site has not finished")
	}
	return nil
}

// cursorProblem returns the answer to a cursor that the log refuses; nil if err is
// not about the cursor.
func (n *Notifier) cursorProblem(after protocol.Cursor, err error) *web.Problem {
	head, floor := n.Log.Head(), n.Log.Floor()
	p := &web.Problem{Head: &head, Floor: &floor, Manifest: n.doors.manifest}
	switch {
	case errors.Is(err, protocol.ErrEpoch):
		p.Type, p.Status, p.Title = web.TypeEpoch, http.StatusConflict, "the cursor belongs to another epoch"
		p.Detail = fmt.Sprintf("the journal is not known to continue from %s: read the manifest, and continue from its cursor", after)
	case errors.Is(err, protocol.ErrTooOld):
		p.Type, p.Status, p.Title = web.TypeTooOld, http.StatusGone, "the changes after the cursor are no longer stored"
		p.Detail = fmt.Sprintf("changes are stored after %s: read the manifest, and continue from its cursor", floor)
	default:
		return nil
	}
	return p
}

// failed returns the answer for an error while reading what follows a cursor; nil
// if the client has gone.
func (n *Notifier) failed(r *http.Request, after protocol.Cursor, err error) *web.Problem {
	if r.Context().Err() != nil {
		return nil
	}
	if errors.Is(err, limit.ErrBusy) || errors.Is(err, limit.ErrAddressBusy) {
		return limit.Busy(err)
	}
	if p := n.cursorProblem(after, err); p != nil {
		return p
	}
	n.log().Error("the journal could not be read", "path", r.URL.Path, "after", after.String(), "err", err)
	return web.Plain(http.StatusInternalServerError, "the journal could not be read")
}
