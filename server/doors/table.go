package doors

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
	"github.com/parleyweb/parley/server/manifest"
)

const (
	wellKnown = "/" + protocol.DiscoveryPath // at the root of the host

	// below the base
	manifestPath = "robots.rdf"
	partsPath    = manifestPath + manifest.PartsSuffix + "/" // of all below it
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
	openAPI bool    // the OpenAPI document describes it
	listed  *string // where the discovery document has its URL; nil: nowhere

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

// newTable makes the doors that a Notifier's fields enable.
func newTable(n *Notifier) *table {
	content, clients, limits := &n.Content, &n.Clients, &n.Limits
	s := &site{urls: urlsOf(n.Base), log: n.Log, ready: n.Ready, writeWait: cmp.Or(max(limits.WriteWait, 0), 20*time.Second),
		logger: cmp.Or(n.Logger, slog.New(slog.DiscardHandler)), now: n.Now}
	if s.now == nil {
		s.now = time.Now
	}
	heartbeat := min(cmp.Or(max(limits.Heartbeat, 0), 25*time.Second), protocol.MaxHeartbeat)
	var a *archives
	if content.Archive != nil {
		a = &archives{site: s, archive: content.Archive, snapshot: n.Snapshot, publicTo: clients.PublicTo,
			share: cmp.Or(max(content.SiteShare, 0), siteShare)}
	}
	readers := &readers{site: s, clients: *clients, public: n.Public, pages: content.Pages, archives: a}
	b := &bundles{site: s, pages: content.Pages}
	d := &delivery{site: s, pages: content.Pages, bundles: b, archives: a}
	f := &frames{site: s, delivery: d, packings: map[string]wsconn.Packing{protocol.SubprotocolZstd: &coding.Messages{}}}
	subscribers := &subscribers{proxies: clients.Proxies, most: min(cmp.Or(max(limits.MaxSubscribers, 0), 1000), MostSubscribers), each: cmp.Or(max(limits.PerAddress, 0), 16)}
	counts := &counters{}
	streams := &groups{frames: f, subscribers: subscribers, counts: counts, heartbeat: heartbeat}
	large := &limit.Admission{}
	described := &descriptions{site: s, stream: !limits.PullOnly}
	discovery := &discoveryDoor{site: s, readers: readers, snapshot: n.Snapshot, descriptions: described,
		list: protocol.Discovery{Version: 1, Base: n.Base, Heartbeat: int(heartbeat / time.Second), Welcome: n.Welcome}}
	list := &discovery.list

	read := []string{http.MethodGet, http.MethodHead}
	ask := []string{http.MethodGet, http.MethodHead, web.MethodQuery, http.MethodPost}
	post := []string{http.MethodPost}
	t := &table{site: s, readers: readers, bundles: b, frames: f, subscribers: subscribers, counts: counts, doors: []door{
		{manifestPath, read, true, n.Snapshot != nil, &list.Manifest,
			(&manifestDoor{site: s, snapshot: n.Snapshot, descriptions: described, counts: counts}).serve},
		{partsPath, read, n.Snapshot != nil, false, nil, func(w http.ResponseWriter, r *http.Request) *web.Problem {
			n.Snapshot.ServeHTTP(s.patient(w), r)
			return nil
		}},
		{protocol.DiscoveryPath, read, true, false, nil,
			discovery.serve},
		{changesPath, ask, true, true, &list.Changes,
			(&changesDoor{site: s, readers: readers, delivery: d, subscribers: subscribers, pullOnly: limits.PullOnly, counts: counts}).serve},
		{streamPath, read, !limits.PullOnly, false, &list.Stream,
			(&streamDoor{site: s, readers: readers, groups: streams, hurry: limits.Hurry}).serve},
		{queryPath, ask, content.Items != nil, true, &list.Query,
			(&queryDoor{site: s, readers: readers, items: content.Items, pullOnly: limits.PullOnly}).serve},
		{batchPath, ask, content.Pages != nil, true, &list.Batch,
			(&batchDoor{site: s, readers: readers, bundles: b, item: content.Item, admitted: large, counts: counts}).serve},
		{sitePath, read, content.Archive != nil, true, &list.Site,
			(&siteDoor{site: s, readers: readers, archives: a, admitted: large, counts: counts}).serve},
		{agentsPath, post, clients.Agents != nil, true, &list.Agents,
			(&agentsDoor{site: s, readers: readers}).serve},
		{agentsRunPath, post, clients.Agents != nil && content.Items != nil, true, nil,
			(&agentRunDoor{site: s, readers: readers, items: content.Items, subscribers: subscribers}).serve},
		{announcePath, post, clients.Announce != nil, true, nil,
			(&announceDoor{site: s, announce: clients.Announce, tokens: clients.AnnounceTokens}).serve},
		{openAPIPath, read, true, false, &list.OpenAPI,
			described.serve(&described.openAPI)},
		{asyncAPIPath, read, !limits.PullOnly, false, &list.AsyncAPI,
			described.serve(&described.asyncAPI)},
	}}
	t.doors = slices.DeleteFunc(t.doors, func(d door) bool { return !d.exists })
	for _, d := range t.doors {
		if d.listed != nil {
			*d.listed = n.Base + d.path
		}
		if d.openAPI {
			described.doors = append(described.doors, d.path)
		}
	}
	if list.Stream != "" {
		list.Stream, list.Subprotocols = s.urls.stream, protocol.Subprotocols()
	}
	if list.Batch != "" {
		list.Inline = protocol.MaxInline
	}
	return t
}

// IsDoor reports whether a path, without that of the base, is for the doors of a site, and not for a page.
func IsDoor(below string) bool {
	return below == manifestPath || below == protocol.DiscoveryPath || strings.HasPrefix(below, partsPath) || strings.HasPrefix(below, "parley/")
}

// door returns the door at a path, and nil if there is none.
func (t *table) door(path string) *door {
	below, ok := strings.CutPrefix(path, t.urls.path)
	if path == wellKnown {
		below, ok = protocol.DiscoveryPath, true
	}
	for i := range t.doors {
		if path := t.doors[i].path; ok && (path == below || path == partsPath && strings.HasPrefix(below, path)) {
			return &t.doors[i]
		}
	}
	return nil
}
