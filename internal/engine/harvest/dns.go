package harvest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	lookupTime = 30 * time.Second // the longest that a lookup may take
	badName    = 5 * time.Minute  // how long a failure is cached
	maxNames   = 100_000          // in the cache
	window     = 50               // the last outcomes, by which the resolver is judged
	enough     = 20               // outcomes before it is judged
)

// ResolverAt returns a resolver that uses only this name server, a host or an address with or without a port.
func ResolverAt(address string) *net.Resolver {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "53")
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// names looks up and caches addresses. It distinguishes a broken resolver from
// names that do not exist.
type names struct {
	resolver   Resolver
	age, bad   time.Duration // how long addresses, and failures, are cached
	slots      chan struct{} // holds a token for each lookup under way, see Limits
	mostFailed float64       // the share of failures above which the resolver is broken
	count      *counters

	mu     sync.Mutex // guards the rest
	known  map[string]*name
	public map[string]bool // hosts that had a public address, see stays
	last   [window]bool    // outcomes; true is a failure
	seen   int
}

// A name is the result of a lookup, once done is closed; until then the lock guards it.
type name struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
	until time.Time // zero: the lookup is under way, or was canceled
}

// lookup returns the addresses of a host, of which there is at least one.
func (n *names) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap().WithZone("")}, nil
	}
	for {
		n.mu.Lock()
		e := n.known[host]
		if e != nil {
			select {
			case <-e.done:
				if time.Now().Before(e.until) {
					n.mu.Unlock()
					return e.addrs, e.err
				}
			default:
				n.mu.Unlock()
				select {
				case <-e.done:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if e.until.IsZero() {
					continue // that lookup was canceled
				}
				return e.addrs, e.err
			}
		}
		e = &name{done: make(chan struct{})}
		n.known[host] = e
		n.mu.Unlock()
		n.ask(ctx, host, e)
		return e.addrs, e.err
	}
}

func (n *names) ask(ctx context.Context, host string, e *name) {
	defer close(e.done)
	addrs, err := n.resolve(ctx, host)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		e.err = ctx.Err()
		delete(n.known, host)
		return
	}
	n.count.lookups.Add(1)
	e.until = time.Now().Add(n.age)
	var dns *net.DNSError
	if err != nil {
		n.count.unresolved.Add(1)
		if errors.As(err, &dns) { // its Server may be one that was not asked: that of the system, and not --resolver
			dns = &net.DNSError{Name: dns.Name, Err: dns.Err, IsTimeout: dns.IsTimeout, IsTemporary: dns.IsTemporary, IsNotFound: dns.IsNotFound}
			err = dns
		}
		e.err, e.until = fmt.Errorf("look up %.100q: %w", host, err), time.Now().Add(n.bad)
	}
	for _, a := range addrs {
		e.addrs = append(e.addrs, a.Unmap().WithZone(""))
	}
	// "Not found" is the answer of a working resolver.
	n.last[n.seen%window] = err != nil && (dns == nil || !dns.IsNotFound)
	n.seen++
	n.tidy()
}

// resolve queries the resolver, when a token is free.
func (n *names) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := n.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("it has no address")
	}
	return addrs, err
}

// tidy shrinks a full cache to three quarters: expired entries first, then any, so
// that it need not run again soon. Lookups under way stay. The lock is held.
func (n *names) tidy() {
	if len(n.known) <= maxNames {
		return
	}
	now := time.Now()
	maps.DeleteFunc(n.known, func(_ string, e *name) bool { return !e.until.IsZero() && now.After(e.until) })
	for host, e := range n.known {
		if len(n.known) <= maxNames*3/4 {
			break
		}
		if !e.until.IsZero() {
			delete(n.known, host)
		}
	}
}

// reset forgets failures, and the judgement of the resolver.
func (n *names) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = 0
	maps.DeleteFunc(n.known, func(_ string, e *name) bool { return !e.until.IsZero() && e.err != nil })
}

// A verdict on the resolver.
type verdict int

const (
	unknown verdict = iota
	sound
	broken
)

// failure returns the error of a broken resolver.
func (n *names) failure() error {
	return fmt.Errorf("%w: more than %.4g %% of the last lookups failed", ErrResolver, 100*n.mostFailed)
}

// verdict judges the resolver by the last lookups (P04, G33).
func (n *names) verdict() verdict {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, failed := min(n.seen, window), 0
	for _, f := range n.last[:all] {
		if f {
			failed++
		}
	}
	switch {
	case all < enough:
		return unknown
	case float64(failed) > n.mostFailed*float64(all):
		return broken
	case failed*2 > all:
		return unknown // more lookups may decide it; until then no site is blamed
	}
	return sound
}
