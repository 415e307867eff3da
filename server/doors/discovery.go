package doors

import (
	"bytes"
	"encoding/json"
	"net/http"

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
	list         protocol.Discovery // what does not change of the answer
	readers      *readers
	snapshot     *manifest.Snapshot // nil: there is none
	descriptions *descriptions
}

func (d *discoveryDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	if p := d.scanning(); p != nil {
		return p
	}
	list, head := d.list, d.log.Head()
	list.Epoch, list.Head, list.Floor = head.Epoch, head, d.log.Floor()
	list.Forms, list.Filters = d.readers.forms(), d.readers.filters()
	if d.snapshot != nil {
		list.Items = d.snapshot.Items()
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
