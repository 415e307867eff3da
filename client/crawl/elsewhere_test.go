package crawl_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

// One docroot is served at two addresses, with a manifest for one of them. At the other one the manifest is
// ignored, so that pages are found by links; a client that follows it there is told the right address.
func TestManifestOfAnotherAddress(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": page("home", "a.html"), "a.html": page("a", "b.html"), "b.html": page("b")})
	second := httptest.NewServer(proxy(site))
	t.Cleanup(second.Close)
	col := crawled(t, second.URL+"/")
	if n := heldIn(col); n != 3 {
		t.Errorf("%d pages of 3 are stored", n)
	}
	for _, s := range must.Get(col.Sources(0)) {
		if s.Kind == collection.ManifestRDF && (!s.Cursor.IsZero() || !s.Changed.IsZero() || !strings.Contains(s.Fault, site.Base)) {
			t.Errorf("the manifest was applied, at %v, or its fault does not name the right site: %q", s.Cursor, s.Fault)
		}
	}
	refused(t, second.URL, site.Base)
}

// A site that had no manifest yet, since its notifier had just started, is asked for it again when it is
// crawled the next time, though other missing URLs are not retried for a week.
func TestRecrawlFindsNewManifest(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": page("home"), "a.html": page("a")})
	site.Break("/robots.rdf", sitetest.Status(http.StatusNotFound, 0))
	dir := t.TempDir()
	for _, want := range []int{1, 2} { // a.html is linked from nowhere
		c := crawler(t, dir, site.Base)
		finish(t, c)
		if n := heldIn(c.Collection); n != want {
			t.Errorf("%d pages are stored, want %d", n, want)
		}
		must.OK(t, c.Collection.Close())
		site.Heal()
	}
}

// A site that redirects to another address is not followed at the old one; the error names the new one.
func TestFollowRedirectReportsNewAddress(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": page("home")})
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, strings.TrimSuffix(site.Base, "/")+req.URL.Path, http.StatusMovedPermanently)
	}))
	t.Cleanup(old.Close)
	refused(t, old.URL, site.Base)
}

// proxy passes requests on to a site.
func proxy(site *sitetest.Site) http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(must.Get(url.Parse(site.Base))) }}
}

// refused expects a copy of a base to end by itself, with an error that names the right one.
func refused(t *testing.T, base, right string) {
	t.Helper()
	c := copyOf(t, base)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), right) {
		t.Errorf("following %s ends with %v, which does not name %s", base, err, right)
	}
}
