package doors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/parleyweb/parley/server/internal/describe"
	"github.com/parleyweb/parley/server/internal/web"
)

// Descriptions are the OpenAPI and AsyncAPI documents of a site, made at the first request.
type descriptions struct {
	*site
	doors  []string // paths of the doors that OpenAPI describes
	stream bool     // AsyncAPI describes the stream

	once              sync.Once
	openAPI, asyncAPI description
	err               error
}

type description struct {
	text []byte
	etag string
}

// make makes the documents, once.
func (d *descriptions) make() {
	d.once.Do(func() {
		site := describe.Site{Base: d.urls.base, Doors: d.doors}
		if d.openAPI.text, d.err = site.OpenAPI(); d.err == nil {
			d.asyncAPI.text, d.err = site.AsyncAPI()
		}
		for _, one := range []*description{&d.openAPI, &d.asyncAPI} {
			sum := sha256.Sum256(one.text)
			one.etag = `"` + hex.EncodeToString(sum[:12]) + `"`
		}
	})
}

// serve answers with one of the documents.
func (d *descriptions) serve(one *description) func(http.ResponseWriter, *http.Request) *web.Problem {
	return func(w http.ResponseWriter, r *http.Request) *web.Problem {
		if d.make(); d.err != nil {
			return web.Plain(http.StatusInternalServerError, d.err.Error())
		}
		web.SetType(w, "application/json", "no-cache").Set("ETag", one.etag)
		http.ServeContent(d.patient(w), r, "", time.Time{}, bytes.NewReader(one.text))
		return nil
	}
}

// link names the documents as RFC 8631 does.
func (d *descriptions) link(h http.Header) {
	h.Add("Link", "<"+d.urls.base+openAPIPath+`>; rel="service-desc"; type="application/json"`)
	if d.stream {
		h.Add("Link", "<"+d.urls.base+asyncAPIPath+`>; rel="service-desc"; type="application/json"`)
	}
}
