package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/protocol"
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
//	parley/announce  where the site's own programs say what they changed
//	parley/openapi.json, parley/asyncapi.json  all of these described for others
//
// and .well-known/parley, which names them all. That is answered at the root of
// the host too, for a host with one site below a path.
//
// Every subscriber is a position in the Log with a wake-up: there is no queue
// that could overflow, and replay and live are one path. Close must be called
// at the end: http.Server.Shutdown neither ends streams nor waits for them.
//
// # Announcing
//
// The program that makes a site, such as a content management system, says
// what it has made:
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
// Pages are as [Announcement] has them: a url, and modified (RFC 3339), digest
// (of the bytes as served, without content coding) or gone; and what else is
// known. Other members are ignored. The body may also be one page, a list of
// pages or, with the type application/x-ndjson, one page on each line. It has
// at most 4 MiB and 1,000 pages; more is 413, and is to be said in parts.
//
// The answer is 200 with an [Announced]: its cursor says that all of it is
// durable, and told to everybody who reads up to it. What it lists as refused
// was not taken in, and need not be said again; all else was. Whoever has no
// answer, or 503 with Retry-After while the site is being looked at, says the
// same again until there is one: nothing is told twice by that, and whatever
// its order, the latest date counts. What went comes back by a later date than
// that of its going, or by a digest alone: so goings have a date too, without
// which the time counts at which they are taken in. When the state of the site
// was lost, all that is there is to be said again: until then its
// pages are neither told anew nor as gone.
//
// 400 names the page that cannot be read, and then none was taken in. Whoever
// bears none of the tokens is answered 401, whatever is asked.
type Notifier struct {
	Log      protocol.Log
	Snapshot *Snapshot // nil: there is no manifest here
	Base     string    // the site's base URL, ending in "/"

	// Public says which URLs may be told to anybody now, in what is replayed
	// too; nil means all. It must not answer false merely because the rules
	// cannot be read at the moment: what it withholds from a follower is not
	// told to that follower again.
	Public func(url string) bool

	// Ready reports whether Public's answers count already; nil means that
	// they do. Until then the doors answer 503, but for a manifest that is
	// there. [Publisher.Ready] is made for it.
	Ready func() bool

	// Announce takes in what is said at the door parley/announce, to whoever
	// bears one of AnnounceTokens. [Publisher.Announce] is made for it. Where
	// it is nil there is no such door; without tokens nobody may say anything.
	Announce       func(context.Context, []Announcement) (Announced, error)
	AnnounceTokens []string

	// Pages brings the contents of pages: the forms delta, page and batch. Nil:
	// they are not offered.
	Pages Pages

	// Archive brings the whole site: the form site. Nil: it is not offered.
	Archive Archive

	// Items is what is offered now, to be asked by a filter: see [Moments].
	// Nil: that is not offered.
	Items func(context.Context) (*Moment, error)

	// SiteShare is the share of the site's pages which must be new to a reader
	// of the form site to be told of an archive. Zero means a half.
	SiteShare float64

	// Item returns what is offered at a URL, and false if nothing is: pages that
	// the batch door is asked for by their URLs. Nil: they cannot be.
	Item func(url string) (protocol.Item, bool, error)

	// Where evaluates expressions: the parameter where. Nil: it is not offered.
	Where func(expression string) (Predicate, error)

	// Agents runs programs: the parameter agent. Nil: it is not offered.
	Agents Agents

	// Identify says who asks. An error is answered 401. It is asked again before
	// whoever listens is told something. Nil: nobody in particular.
	// [Callers.Identify] is made for it.
	Identify func(*http.Request) (Caller, error)

	// PublicTo says what of what is public a caller with rules of its own in
	// robots.txt may be told of. Nil: all of it. [Site.PublicTo] is made for it.
	PublicTo func(name, url string) bool

	// PullOnly leaves out what lasts: there is no stream, and nobody waits at
	// the changes door. Everything can still be asked for.
	PullOnly bool

	// MaxSubscribers bounds the streams and waiting long polls at a time.
	// Zero means 1,000. PerAddress bounds them for one client address; zero
	// means 16. A peer on the loopback is taken for a proxy: the last hop of
	// its X-Forwarded-For counts, and without one there is no bound by address.
	MaxSubscribers, PerAddress int

	// Welcome says how crawlers are wished to ask the site; nil says nothing.
	Welcome *protocol.Welcome

	// Heartbeat is the longest silence on a stream, at most protocol.MaxHeartbeat.
	// Zero means 25 s, which is below the 60 s after which common proxies hang up.
	Heartbeat time.Duration

	// Hurry, above zero, bounds how soon whoever is sent away is told to come again. For tests.
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
	admitted admission
	bundles  admission // answers of the batch door, and archives
	packers  packers
	bundled  bundleCache
	judged   judgements
	bursts   bursts
	queries  admission // answers of the query door
	stats    counters
	coder    coder
	turns    turns
	asked    atomic.Int64 // bytes of questions to the batch door that are held
	programs admission    // that are being taken in

	mu     sync.Mutex // guards guests and closed, and the use of served.Add
	guests map[*guest]struct{}
	closed bool
	served sync.WaitGroup
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

func (n *Notifier) init() {
	n.once.Do(func() {
		if n.Now == nil {
			n.Now = time.Now
		}
		n.doors = doorsOf(n.Base)
		n.frames = frames{next: n.next, head: func() protocol.Cursor { return n.Log.Head() }, now: n.Now}
		n.guests = make(map[*guest]struct{})
	})
}

func (n *Notifier) writeWait() time.Duration { return orDefault(n.WriteWait, 20*time.Second) }

func (n *Notifier) heartbeat() time.Duration {
	return min(orDefault(n.Heartbeat, 25*time.Second), protocol.MaxHeartbeat)
}

// Register puts the doors into a mux that serves the rest of the host: those
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
	var p *problem
	switch {
	case n.doors.err != nil:
		p = plainProblem(http.StatusInternalServerError, n.doors.err.Error())
	case door.serve == nil:
		p = plainProblem(http.StatusNotFound, "there is nothing here: "+n.doors.discovery+" names the doors of this site")
	case !slices.Contains(door.methods, r.Method):
		p = plainProblem(http.StatusMethodNotAllowed, "this door knows "+strings.Join(door.methods, ", "))
		p.allow = strings.Join(door.methods, ", ")
	default:
		p = door.serve(w, r)
	}
	if p != nil {
		n.stats.refuse(p.Status)
		if p.Type == problemLimit {
			n.turns.refused(r.Context())
		}
		p.write(w, r)
	}
}

// deadline is how long this request may last if nothing is read or said: else
// whoever does not read an answer, or never ends a body, stays for ever.
func (n *Notifier) deadline(w http.ResponseWriter, wait time.Duration) {
	c, end := http.NewResponseController(w), time.Now().Add(wait+n.writeWait())
	c.SetReadDeadline(end) // not every ResponseWriter can; then its owner sees to it
	c.SetWriteDeadline(end)
}

// patient gives every piece that is written its own time: a manifest takes as
// long as a slow reader needs, if only it reads.
type patient struct {
	http.ResponseWriter
	n *Notifier
}

func (p patient) Write(b []byte) (int, error) {
	p.n.deadline(p.ResponseWriter, 0)
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// A door is what serves a path: a method that answers, or returns why not.
type door struct {
	serve   func(http.ResponseWriter, *http.Request) *problem
	methods []string
}

// methodQuery is QUERY of RFC 10008: a GET whose question is its body.
const methodQuery = "QUERY"

// door returns what serves a path, the zero door if nothing does.
func (n *Notifier) door(path string) door {
	read := []string{http.MethodGet, http.MethodHead}
	ask := []string{http.MethodGet, http.MethodHead, methodQuery, http.MethodPost}
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

func (n *Notifier) serveManifest(w http.ResponseWriter, r *http.Request) *problem {
	if n.Snapshot == nil {
		return plainProblem(http.StatusNotFound, "there is no manifest here")
	}
	n.stats.manifests.Add(1)
	n.linkDescriptions(w.Header())
	n.Snapshot.ServeHTTP(patient{w, n}, r)
	return nil
}

func (n *Notifier) serveDiscovery(w http.ResponseWriter, r *http.Request) *problem {
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
	enc.SetEscapeHTML(false) // a URL of many "&" would be longer than a reader takes
	if err := enc.Encode(d); err != nil {
		panic("server: encode discovery: " + err.Error()) // plain values always encode
	}
	writeJSON(w, b.Bytes())
	return nil
}

func writeJSON(w http.ResponseWriter, b []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.Write(b) // the client may have gone
}

// Forget throws away what is kept for those who ask next: what is told then is
// made anew.
func (n *Notifier) Forget() {
	n.init()
	n.frames.forget()
	n.bundled.forget()
}

// scanning is the answer while nothing can be told yet; else nil.
func (n *Notifier) scanning() *problem {
	if n.Log.Head().IsZero() || n.Ready != nil && !n.Ready() {
		return unavailable("the first look at the site is not over")
	}
	return nil
}

// cursorProblem is the answer to a cursor that the log refuses; nil if err is
// not about the cursor.
func (n *Notifier) cursorProblem(after protocol.Cursor, err error) *problem {
	head, floor := n.Log.Head(), n.Log.Floor()
	p := &problem{Head: &head, Floor: &floor, Manifest: n.doors.manifest}
	switch {
	case errors.Is(err, protocol.ErrEpoch):
		p.Type, p.Status, p.Title = problemEpoch, http.StatusConflict, "the cursor is of another epoch"
		p.Detail = fmt.Sprintf("this site cannot prove that it continues what %s has seen: read the manifest, and go on from its cursor", after)
	case errors.Is(err, protocol.ErrTooOld):
		p.Type, p.Status, p.Title = problemTooOld, http.StatusGone, "the cursor is older than what this site remembers"
		p.Detail = fmt.Sprintf("changes are remembered after %s: read the manifest, and go on from its cursor", floor)
	default:
		return nil
	}
	return p
}

// failed is the answer where what was asked for could not be found after a
// cursor; nil if nobody is there to be answered.
func (n *Notifier) failed(r *http.Request, after protocol.Cursor, err error) *problem {
	if r.Context().Err() != nil {
		return nil
	}
	if errors.Is(err, errBusy) || errors.Is(err, errCrowd) {
		return busy(err)
	}
	if p := n.cursorProblem(after, err); p != nil {
		return p
	}
	orDiscard(n.Logger).Error("the journal could not be read", "path", r.URL.Path, "after", after.String(), "err", err)
	return plainProblem(http.StatusInternalServerError, "the journal could not be read")
}
