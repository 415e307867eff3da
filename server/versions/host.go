package versions

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// foreign reports whether a request is for a host name that is not that of Base, and is to be redirected: a wrong DNS
// record, or a name that somebody pointed here, must not let crawlers store the site under another name (Castillo
// 2004, A.2.4).
//
// Not redirected are requests for an address, for a name without a dot and for localhost, which probes and proxies of
// the same network use, and those below /.well-known/, where a certificate authority verifies each name by itself.
// A reverse proxy may replace the Host of all its requests with the name of this server, and a redirect would lead
// back to the same proxy forever: so none is sent before a request for Base's own name has come through.
func (h *Handler) foreign(r *http.Request) bool {
	base, err := url.Parse(h.Base)
	if err != nil {
		return false
	}
	name := strings.ToLower(strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), "."))
	if name == base.Hostname() {
		h.named.Store(true)
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") {
		return false
	}
	return h.named.Load() && !strings.HasPrefix(r.URL.Path, "/.well-known/")
}
