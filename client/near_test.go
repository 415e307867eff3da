package client

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/must"
)

// Whether a bundle is requested uncompressed depends on the address of the site, and on the proxy.
func TestBundleCompressionByAddress(t *testing.T) {
	via := must.Get(url.Parse("http://127.0.0.1:3128/"))
	direct := &http.Transport{}
	proxied := &http.Transport{Proxy: http.ProxyURL(via)}
	for _, c := range []struct {
		base  string
		trip  http.RoundTripper
		plain bool
	}{
		{"http://127.0.0.1:8080/", nil, true},
		{"http://127.8.0.1/", direct, true},
		{"https://[::1]:8443/", direct, true},
		{"http://LOCALHOST/", direct, true},
		{"http://127.0.0.1/", proxied, false},
		{"http://localhost/", proxied, false},
		{"http://192.0.2.1/", direct, false},
		{"http://localhost.example/", direct, false},
		{"https://www.example.com/", direct, false},
	} {
		f := fetcher{client: &http.Client{Transport: c.trip}}
		asked := bundle.Accepted
		if f.near(c.base + "parley/batch") {
			asked = string(bundle.Plain)
		}
		if want := map[bool]string{true: "identity", false: "zstd"}[c.plain]; asked != want {
			t.Errorf("%s requested as %s, want %s", c.base, asked, want)
		}
	}
}
