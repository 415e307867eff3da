package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// The manifest links to the site's description; the site's offers are read from there.
func TestDescriptionURLFromManifest(t *testing.T) {
	for _, src := range []client.Source{
		{As: protocol.AsPage},
		{As: protocol.AsBatch, NoStream: true},
		{ManifestFirst: true, Choose: func(d *protocol.Discovery, _ protocol.Cursor) protocol.Form {
			if client.Offers(d, protocol.AsDelta) {
				return protocol.AsDelta
			}
			return protocol.AsMeta
		}},
	} {
		w := newWholeSite(t, 9)
		resp, err := http.Get(w.Base + protocol.DiscoveryPath)
		if err != nil {
			t.Fatal(err)
		}
		about, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		w.Break("/.well-known/parley", func(rw http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { http.NotFound(rw, r) })
		w.Break("/meta/about", func(rw http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(about)
		})
		w.Break("/robots.rdf", func(rw http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
			rec := httptest.NewRecorder()
			r.Header.Del("Accept-Encoding")
			own(rec, r)
			h := rw.Header()
			for name, values := range rec.Header() {
				h[name] = values
			}
			h.Del("Content-Length")
			rw.WriteHeader(rec.Code)
			_, _ = rw.Write([]byte(strings.ReplaceAll(rec.Body.String(), ".well-known/parley", "meta/about")))
		})
		m := newMirror()
		src.Base, src.Held = w.Base, m.held
		described := ""
		stop := m.followAnd(t, &src, func(s client.Step) { described = s.Discovery })
		m.standsAt(t, w.Head())
		m.same(t, w.Site, nil)
		asked := m.asked
		for range 3 {
			m.standsAt(t, w.edit())
		}
		m.same(t, w.Site, nil)
		if m.asked > asked || len(m.errs) > 0 {
			t.Errorf("as %q: %d pages did not come with their changes; %v", src.As, m.asked-asked, m.errs)
		}
		stop()
		if described != w.Base+"meta/about" {
			t.Errorf("as %q: described at %q", src.As, described)
		}
		d, err := client.Discover(t.Context(), &client.Source{Base: w.Base, Discovery: described})
		if err != nil || d.Batch != w.Base+"parley/batch" {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

const manifestNaming = `<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:p="urn:parley:1#">
  <channel rdf:about="%[1]srobots.rdf">
    <title>A site</title>
    <link>%[1]s</link>
    <p:items>1</p:items>
    <p:complete>true</p:complete>
    <p:discovery rdf:resource="%[2]s"/>
    <items><rdf:Seq><rdf:li rdf:resource="%[1]sx"/></rdf:Seq></items>
  </channel>
  <item rdf:about="%[1]sx"><title>x</title><link>%[1]sx</link></item>
</rdf:RDF>
`

// A description that the manifest names outside its site's own base is not fetched.
func TestDescriptionOutsideBaseIsNotFetched(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	var base string
	var place atomic.Value
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/a/robots.rdf":
			w.Header().Set("Content-Type", protocol.ManifestType)
			_, _ = fmt.Fprintf(w, manifestNaming, base, place.Load())
		case !strings.HasPrefix(path.Clean(r.URL.Path), "/a/") && r.URL.Path != "/.well-known/parley":
			asked.Add(1)
			http.NotFound(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	base = web.URL + "/a/"
	for _, u := range []string{other.URL + "/a/about", web.URL + "/b/about", web.URL + "/about", web.URL + "/a/../b/about", web.URL + "/a/%2e%2e/b/about", "//" + strings.TrimPrefix(other.URL, "http://") + "/a/"} {
		place.Store(u)
		ctx, stop := context.WithCancel(t.Context())
		for s, err := range client.Follow(ctx, &client.Source{Base: base, As: protocol.AsPage}, protocol.Cursor{}) {
			var offer *client.OfferError
			if !errors.As(err, &offer) || s.Discovery != "" {
				t.Errorf("%s: %+v, %v", u, s, err)
			}
		}
		for s, err := range client.Follow(ctx, &client.Source{Base: base, Once: true}, protocol.Cursor{}) {
			if err != nil || s.Discovery != "" {
				t.Errorf("%s: %+v, %v", u, s, err)
			}
		}
		stop()
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests outside the site", n)
	}
}
