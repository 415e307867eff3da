package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// admission counts who is served at the same time, in all and by address.
type admission struct {
	mu     sync.Mutex
	total  int
	byAddr map[string]int
}

// enter admits one more from addr, unless that is beyond a limit. An empty
// addr has no limit of its own. What it returns is to be called once at the end.
func (a *admission) enter(addr string, most, each int) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total >= most || addr != "" && a.byAddr[addr] >= each {
		return nil, false
	}
	a.total++
	if addr != "" {
		if a.byAddr == nil {
			a.byAddr = make(map[string]int)
		}
		a.byAddr[addr]++
	}
	return func() { a.leave(addr) }, true
}

func (a *admission) leave(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total--
	if addr == "" {
		return
	}
	if a.byAddr[addr]--; a.byAddr[addr] == 0 {
		delete(a.byAddr, addr)
	}
}

func (a *admission) now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// clientAddress is whom a request counts for. A peer on the loopback, or on a
// Unix socket, is taken for a proxy of this machine: the last hop that its
// X-Forwarded-For names counts, and where it names none nobody does, which is
// the empty string. A header from anywhere else is a claim, and ignored.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	peer, err := netip.ParseAddr(host)
	if err == nil && !peer.Unmap().IsLoopback() {
		return addressKey(peer)
	}
	hops := r.Header.Values("X-Forwarded-For")
	if len(hops) == 0 {
		return ""
	}
	last := hops[len(hops)-1]
	last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	if h, _, err := net.SplitHostPort(last); err == nil {
		last = h
	}
	hop, err := netip.ParseAddr(strings.Trim(last, "[]"))
	if err != nil {
		return ""
	}
	return addressKey(hop)
}

// addressKey is the address itself, or the network of 64 bits in which one
// subscriber of IPv6 has as many addresses as it likes.
func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Masked().String()
		}
	}
	return a.String()
}
