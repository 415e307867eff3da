package doors

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

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

// A door answers the requests for one path.
type door struct {
	path    string // below the base
	methods []string
	exists  bool
	openAPI bool // the OpenAPI document describes it

	// serve answers a request, or returns the problem to answer with.
	serve func(http.ResponseWriter, *http.Request) *web.Problem
}

// A table has all doors of a site, and what a Notifier needs of what they share.
type table struct {
	site        *site
	doors       []door
	readers     *readers
	bundles     *bundles
	frames      *frames
	subscribers *subscribers
	counts      *counters
}

// newTable opens the doors that a Notifier's fields ask for.
func newTable(n *Notifier) *table {
	s := &site{base: n.Base, urls: urlsOf(n.Base), log: n.Log, ready: n.Ready, writeWait: positive(n.WriteWait, 20*time.Second),
		logger: cmp.Or(n.Logger, slog.New(slog.DiscardHandler)), now: n.Now}
	if s.now == nil {
		s.now = time.Now
	}
	heartbeat := min(positive(n.Heartbeat, 25*time.Second), protocol.MaxHeartbeat)
	var a *archives
	if n.Archive != nil {
		a = &archives{site: s, archive: n.Archive, snapshot: n.Snapshot, publicTo: n.PublicTo, share: positive(n.SiteShare, siteShare)}
	}
	readers := &readers{site: s, identify: n.Identify, public: n.Public, publicTo: n.PublicTo, where: n.Where, agents: n.Agents,
		pages: n.Pages, archives: a}
	b := &bundles{site: s, pages: n.Pages}
	d := &delivery{site: s, pages: n.Pages, bundles: b, archives: a}
	f := &frames{site: s, next: d.next}
	subscribers := &subscribers{most: positive(n.MaxSubscribers, 1000), each: positive(n.PerAddress, 16)}
	counts := &counters{}
	large := &limit.Admission{}
	described := &descriptions{site: s, stream: !n.PullOnly}
	discovery := &discoveryDoor{site: s, readers: readers, snapshot: n.Snapshot, heartbeat: heartbeat, welcome: n.Welcome,
		descriptions: described}

	read := []string{http.MethodGet, http.MethodHead}
	ask := []string{http.MethodGet, http.MethodHead, web.MethodQuery, http.MethodPost}
	post := []string{http.MethodPost}
	t := &table{site: s, readers: readers, bundles: b, frames: f, subscribers: subscribers, counts: counts, doors: []door{
		{manifestPath, read, true, n.Snapshot != nil,
			(&manifestDoor{site: s, snapshot: n.Snapshot, descriptions: described, counts: counts}).serve},
		{protocol.DiscoveryPath, read, true, false,
			discovery.serve},
		{changesPath, ask, true, true,
			(&changesDoor{site: s, readers: readers, delivery: d, subscribers: subscribers, pullOnly: n.PullOnly, counts: counts}).serve},
		{streamPath, read, !n.PullOnly, false,
			(&streamDoor{site: s, readers: readers, delivery: d, frames: f, subscribers: subscribers, heartbeat: heartbeat,
				hurry: n.Hurry, counts: counts}).serve},
		{queryPath, ask, n.Items != nil, true,
			(&queryDoor{site: s, readers: readers, items: n.Items, pullOnly: n.PullOnly}).serve},
		{batchPath, ask, n.Pages != nil, true,
			(&batchDoor{site: s, readers: readers, bundles: b, item: n.Item, admitted: large, counts: counts}).serve},
		{sitePath, read, n.Archive != nil, true,
			(&siteDoor{site: s, readers: readers, archives: a, admitted: large, counts: counts}).serve},
		{agentsPath, post, n.Agents != nil, true,
			(&agentsDoor{site: s, readers: readers}).serve},
		{agentsRunPath, post, n.Agents != nil && n.Items != nil, true,
			(&agentRunDoor{site: s, readers: readers, items: n.Items, subscribers: subscribers}).serve},
		{announcePath, post, n.Announce != nil, true,
			(&announceDoor{site: s, announce: n.Announce, tokens: n.AnnounceTokens}).serve},
		{openAPIPath, read, true, false,
			described.serve(&described.openAPI)},
		{asyncAPIPath, read, !n.PullOnly, false,
			described.serve(&described.asyncAPI)},
	}}
	t.doors = slices.DeleteFunc(t.doors, func(d door) bool { return !d.exists })
	discovery.doors = t.doors
	for _, d := range t.doors {
		if d.openAPI {
			described.doors = append(described.doors, d.path)
		}
	}
	return t
}

// positive returns n if that is above zero, and otherwise the default.
func positive[N int | float64 | time.Duration](n, otherwise N) N {
	if n > 0 {
		return n
	}
	return otherwise
}

// register adds the doors to a mux. All of them below parley/ are one entry, so that
// a door that does not exist is answered here.
func (t *table) register(mux *http.ServeMux, h http.Handler) {
	entered := make(map[string]bool)
	for _, d := range t.doors {
		path := d.path
		if strings.HasPrefix(path, "parley/") {
			path = "parley/"
		}
		if !entered[path] {
			entered[path] = true
			mux.Handle(t.site.urls.path+path, h)
		}
	}
}

// door returns the door at a path, and nil if there is none.
func (t *table) door(path string) *door {
	below, ok := strings.CutPrefix(path, t.site.urls.path)
	if path == wellKnown {
		below, ok = protocol.DiscoveryPath, true
	}
	for i := range t.doors {
		if ok && t.doors[i].path == below {
			return &t.doors[i]
		}
	}
	return nil
}

// serve answers a request: 404 where there is no door.
func (t *table) serve(w http.ResponseWriter, r *http.Request) {
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
