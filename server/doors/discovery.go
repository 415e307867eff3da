package doors

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/web"
	"github.com/parleyweb/parley/server/manifest"
)

// A manifestDoor serves the manifest.
type manifestDoor struct {
	*site
	snapshot     *manifest.Snapshot // nil: there is none
	descriptions *descriptions
	counts       *counters
}

func (d *manifestDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	if d.snapshot == nil {
		return web.Plain(http.StatusNotFound, "this server does not serve the manifest")
	}
	d.counts.manifests.Add(1)
	d.descriptions.link(w.Header())
	d.snapshot.ServeHTTP(d.patient(w), r)
	return nil
}

// A discoveryDoor lists the doors.
type discoveryDoor struct {
	*site
	doors        []door
	readers      *readers
	snapshot     *manifest.Snapshot // nil: there is none
	heartbeat    time.Duration
	welcome      *protocol.Welcome
	descriptions *descriptions
}

func (d *discoveryDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	if p := d.scanning(); p != nil {
		return p
	}
	head := d.log.Head()
	list := protocol.Discovery{Version: 1, Base: d.urls.base, Epoch: head.Epoch, Head: head, Floor: d.log.Floor(),
		Heartbeat: int(d.heartbeat / time.Second), Forms: d.readers.forms(), Filters: d.readers.filters(), Welcome: d.welcome}
	if d.snapshot != nil {
		list.Items = d.snapshot.Items()
	}
	for _, door := range d.doors {
		switch url := d.urls.base + door.path; door.path {
		case manifestPath:
			list.Manifest = url
		case changesPath:
			list.Changes = url
		case streamPath:
			list.Stream, list.Subprotocols = d.urls.stream, protocol.Subprotocols()
		case queryPath:
			list.Query = url
		case batchPath:
			list.Batch, list.Inline = url, protocol.MaxInline
		case sitePath:
			list.Site = url
		case agentsPath:
			list.Agents = url
		case openAPIPath:
			list.OpenAPI = url
		case asyncAPIPath:
			list.AsyncAPI = url
		}
	}
	d.descriptions.link(w.Header())
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // escaping would make a URL with many "&" longer than readers accept
	if err := enc.Encode(list); err != nil {
		panic("doors: encode discovery: " + err.Error()) // plain values always encode
	}
	web.WriteJSON(w, b.Bytes())
	return nil
}
