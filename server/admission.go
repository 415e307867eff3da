package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// admission counts who is served at the same time, in all and by address.
type admission struct {
	mu     sync.Mutex
	total  int
	byAddr map[string]int
}

// enter admits one more from addr, unless that is beyond a limit; what names,
// in the plural, of what there are too many then. An empty addr has no limit of
// its own. leave is to be called once at the end.
func (a *admission) enter(what, addr string, most, each int) (leave func(), p *problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total >= most || addr != "" && a.byAddr[addr] >= each {
		return nil, &problem{Type: problemLimit, Title: "too many " + what + " at a time", Status: http.StatusTooManyRequests,
			Detail: fmt.Sprintf("at most %d %s at a time, and %d of one address or caller", most, what, each), retry: 2 * time.Second}
	}
	a.total++
	if addr != "" {
		if a.byAddr == nil {
			a.byAddr = make(map[string]int)
		}
		a.byAddr[addr]++
	}
	return func() { a.leave(addr) }, nil
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

// few is how many of one address are told at once, when something is told to
// everybody; and spreading how long it takes for each other one.
const (
	few       = 4
	spreading = 100 * time.Microsecond
)

// spread lets those go first, of all who are about to be told something, whose
// addresses have few there, and the others one by one: a thousand at once would
// hold up everybody.
func (a *admission) spread(ctx context.Context, addr string) {
	a.mu.Lock()
	each, all := a.byAddr[addr], a.total
	a.mu.Unlock()
	if each > few {
		pause.For(ctx, rand.N(time.Duration(all)*spreading))
	}
}

func (a *admission) now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// ClientAddress is whom a request counts for where that goes by addresses: its peer, or of a peer on this
// machine, which is taken for a proxy, the last hop that its X-Forwarded-For names. It is empty where nobody can tell.
func ClientAddress(r *http.Request) string { return clientAddress(r) }

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
