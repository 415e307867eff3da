package versions

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
)

// foreign reports whether a request is for a host name that is not that of Base, and is to be redirected: a wrong DNS
// record, or a name that somebody pointed here, must not let crawlers store the site under another name (Castillo
// 2004, A.2.4).
//
// Not redirected are requests for an address, for a name without a dot and for localhost, which probes and proxies of
// the same network use, and those below /.well-known/, where a certificate authority verifies each name by itself.
// A reverse proxy may replace the Host of all its requests with the name of this server, and a redirect would lead
// back to the same proxy forever: so none is sent before a request for Base's own name has come the same way, nor if
// the proxy says that the client asked for that name.
func (h *Handler) foreign(r *http.Request) bool {
	base, err := url.Parse(h.Base)
	if err != nil {
		return false
	}
	name := strings.ToLower(strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), "."))
	if name == base.Hostname() {
		h.named.add(wayOf(r))
		return false
	}
	if strings.EqualFold((&url.URL{Host: r.Header.Get("X-Forwarded-Host")}).Hostname(), base.Hostname()) {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") {
		return false
	}
	return h.named.has(wayOf(r)) && !strings.HasPrefix(r.URL.Path, "/.well-known/")
}

// A way is how a request came: from which peer, and whether a proxy seems to have sent it, as nginx does by default
// with HTTP/1.0. The zero way is that of all clients on the Internet that came without a proxy. So a client that
// comes directly does not cause redirects for a proxy, which it could otherwise send in circles.
type way struct {
	peer    netip.Addr
	proxied bool
}

func wayOf(r *http.Request) (w way) {
	w.proxied = !r.ProtoAtLeast(1, 1)
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded", "Via"} {
		w.proxied = w.proxied || r.Header.Get(name) != ""
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if peer := at.Addr().Unmap(); err == nil && (w.proxied || peer.IsPrivate() || !peer.IsGlobalUnicast()) {
		w.peer = peer
	}
	return w
}

// maxWays bounds the ways that are remembered: those of a few proxies.
const maxWays = 100

// ways are the ways that requests for Base's own name came.
type ways struct {
	mu  sync.RWMutex
	set map[way]bool
}

func (s *ways) has(w way) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.set[w]
}

func (s *ways) add(w way) {
	if s.has(w) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[way]bool)
	}
	if len(s.set) < maxWays {
		s.set[w] = true
	}
}
