package doors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/parleyweb/parley/server/describe"
	"github.com/parleyweb/parley/server/internal/web"
)

// descriptions are the OpenAPI and AsyncAPI documents, made at the first request.
type descriptions struct {
	once        sync.Once
	doors, told description
	err         error
}

type description struct {
	text []byte
	etag string
}

// described returns the descriptions of the doors and of the stream.
func (n *Notifier) described() *descriptions {
	d := &n.descriptions
	d.once.Do(func() {
		site := describe.Site{Base: n.Base}
		for _, path := range []string{manifestPath, changesPath, queryPath, batchPath, sitePath, agentsPath, agentsRunPath, announcePath} {
			if n.door(n.doors.path+path).serve != nil && (path != manifestPath || n.Snapshot != nil) {
				site.Doors = append(site.Doors, path)
			}
		}
		if d.doors.text, d.err = site.OpenAPI(); d.err == nil {
			d.told.text, d.err = site.AsyncAPI()
		}
		for _, one := range []*description{&d.doors, &d.told} {
			sum := sha256.Sum256(one.text)
			one.etag = `"` + hex.EncodeToString(sum[:12]) + `"`
		}
	})
	return d
}

func (n *Notifier) serveOpenAPI(w http.ResponseWriter, r *http.Request) *web.Problem {
	d := n.described()
	return n.serveDescription(w, r, d.doors, d.err)
}

func (n *Notifier) serveAsyncAPI(w http.ResponseWriter, r *http.Request) *web.Problem {
	d := n.described()
	return n.serveDescription(w, r, d.told, d.err)
}

func (n *Notifier) serveDescription(w http.ResponseWriter, r *http.Request, d description, err error) *web.Problem {
	if err != nil {
		return web.Plain(http.StatusInternalServerError, err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", d.etag)
	http.ServeContent(n.patient(w), r, "", time.Time{}, bytes.NewReader(d.text))
	return nil
}

// linkDescriptions names the descriptions as RFC 8631 does.
func (n *Notifier) linkDescriptions(h http.Header) {
	h.Add("Link", "<"+n.Base+openAPIPath+`>; rel="service-desc"; type="application/json"`)
	if n.door(n.doors.path+streamPath).serve != nil {
		h.Add("Link", "<"+n.Base+asyncAPIPath+`>; rel="service-desc"; type="application/json"`)
	}
}
