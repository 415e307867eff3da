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
	*site
	doors       []door
	readers     *readers
	bundles     *bundles
	frames      *frames
	subscribers *subscribers
	counts      *counters
}

// newTable opens the doors that a Notifier's fields ask for.
func newTable(n *Notifier) *table {
	s := &site{urls: urlsOf(n.Base), log: n.Log, ready: n.Ready, writeWait: positive(n.Limits.WriteWait, 20*time.Second),
		logger: cmp.Or(n.Logger, slog.New(slog.DiscardHandler)), now: n.Now}
	if s.now == nil {
		s.now = time.Now
	}
	heartbeat := min(positive(n.Limits.Heartbeat, 25*time.Second), protocol.MaxHeartbeat)
	var a *archives
	if n.Content.Archive != nil {
		a = &archives{site: s, archive: n.Content.Archive, snapshot: n.Snapshot, publicTo: n.Clients.PublicTo,
			share: positive(n.Content.SiteShare, siteShare)}
	}
	readers := &readers{site: s, clients: n.Clients, public: n.Public, pages: n.Content.Pages, archives: a}
	b := &bundles{site: s, pages: n.Content.Pages}
	d := &delivery{site: s, pages: n.Content.Pages, bundles: b, archives: a}
	f := &frames{site: s, delivery: d}
	subscribers := &subscribers{most: positive(n.Limits.MaxSubscribers, 1000), each: positive(n.Limits.PerAddress, 16)}
	counts := &counters{}
	large := &limit.Admission{}
	described := &descriptions{site: s, stream: !n.Limits.PullOnly}
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
			(&changesDoor{site: s, readers: readers, delivery: d, subscribers: subscribers, pullOnly: n.Limits.PullOnly, counts: counts}).serve},
		{streamPath, read, !n.Limits.PullOnly, false,
			(&streamDoor{site: s, readers: readers, frames: f, subscribers: subscribers, heartbeat: heartbeat,
				hurry: n.Limits.Hurry, counts: counts}).serve},
		{queryPath, ask, n.Content.Items != nil, true,
			(&queryDoor{site: s, readers: readers, items: n.Content.Items, pullOnly: n.Limits.PullOnly}).serve},
		{batchPath, ask, n.Content.Pages != nil, true,
			(&batchDoor{site: s, readers: readers, bundles: b, item: n.Content.Item, admitted: large, counts: counts}).serve},
		{sitePath, read, n.Content.Archive != nil, true,
			(&siteDoor{site: s, readers: readers, archives: a, admitted: large, counts: counts}).serve},
		{agentsPath, post, n.Clients.Agents != nil, true,
			(&agentsDoor{site: s, readers: readers}).serve},
		{agentsRunPath, post, n.Clients.Agents != nil && n.Content.Items != nil, true,
			(&agentRunDoor{site: s, readers: readers, items: n.Content.Items, subscribers: subscribers}).serve},
		{announcePath, post, n.Clients.Announce != nil, true,
			(&announceDoor{site: s, announce: n.Clients.Announce, tokens: n.Clients.AnnounceTokens}).serve},
		{openAPIPath, read, true, false,
			described.serve(&described.openAPI)},
		{asyncAPIPath, read, !n.Limits.PullOnly, false,
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

// door returns the door at a path, and nil if there is none.
func (t *table) door(path string) *door {
	below, ok := strings.CutPrefix(path, t.urls.path)
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
