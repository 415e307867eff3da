package crawl_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/protocol"
)

// The manifest of a site may be in any directory above a start page. The pages wait until it has been looked for in all
// of them: one that is not there says nothing about the others.
func TestPagesWaitForEveryManifest(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := numbered(w, 3)
		s.Put("/docs/manual/start.html", `<a href="/n00.html">one</a> <a href="/n01.html">two</a>`)
		s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/docs/robots.rdf" {
				return false
			}
			m := protocol.Manifest{URL: s.Origin + req.URL.Path, Base: s.Origin + "/docs/", Complete: true}
			if err := protocol.WriteManifest(rw, m, func(func(protocol.Item, error) bool) {}, nil); err != nil {
				t.Error(err)
			}
			return true
		}
		c, _ := w.paid(t, eager(1))
		c.Start, c.Once = []string{s.Origin + "/docs/manual/start.html"}, true
		runFor(t, c, aDay, nil)
		var order []string
		for _, a := range w.Log() {
			if a.Site == s && (strings.HasSuffix(a.Path, ".rdf") || strings.HasSuffix(a.Path, "start.html")) {
				order = append(order, a.Path)
			}
		}
		if len(order) != 4 || order[3] != "/docs/manual/start.html" {
			t.Errorf("the page and the manifests were requested in the order %v, want the page last", order)
		}
	})
}
