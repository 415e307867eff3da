package report

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Resolver looks up names of addresses, and addresses of names. *net.Resolver is one.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Bounds of lookups.
const (
	maxAddresses = 10_000 // distinct addresses of a crawler
	maxLookups   = 2_000  // addresses that are looked up, in all
	lookups      = 8      // at once
	lookupTime   = 3 * time.Second
	verifyTime   = 2 * time.Minute // for all
)

// Bounds of a file of ranges.
const (
	maxRangesFile = 16 << 20
	maxPrefixes   = 100_000
)

// ReadRanges reads the addresses that a crawler's operator publishes: JSON of the form
// {"prefixes":[{"ipv4Prefix":"192.0.2.0/24"},{"ipv6Prefix":"2001:db8::/32"}]}, as Google, Microsoft, OpenAI
// and others do, or text with one range or address per line, and comments after #.
func ReadRanges(r io.Reader) ([]netip.Prefix, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxRangesFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRangesFile {
		return nil, fmt.Errorf("more than %d bytes", maxRangesFile)
	}
	var ranges []string
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		var file struct {
			Prefixes []struct {
				V4 string `json:"ipv4Prefix"`
				V6 string `json:"ipv6Prefix"`
			} `json:"prefixes"`
		}
		if err := json.Unmarshal(trimmed, &file); err != nil {
			return nil, err
		}
		for _, p := range file.Prefixes {
			if s := cmp.Or(p.V4, p.V6); s != "" {
				ranges = append(ranges, s)
			}
		}
	} else {
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			line, _, _ := strings.Cut(lines.Text(), "#")
			if line = strings.TrimSpace(line); line != "" {
				ranges = append(ranges, line)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	if len(ranges) == 0 {
		return nil, errors.New(`no ranges: want JSON with "prefixes", or a range a line`)
	}
	if len(ranges) > maxPrefixes {
		return nil, fmt.Errorf("more than %d ranges", maxPrefixes)
	}
	list := make([]netip.Prefix, 0, len(ranges))
	for _, s := range ranges {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			addr, err := netip.ParseAddr(s)
			if err != nil {
				return nil, fmt.Errorf("range %q: want one such as 192.0.2.0/24", s)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		list = append(list, p.Masked())
	}
	return disjoint(list), nil
}

// disjoint sorts ranges, and drops those that are within others.
func disjoint(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	kept := list[:0]
	for _, p := range list {
		if n := len(kept); n == 0 || !kept[n-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// within reports whether an address as logged is in one of disjoint ranges.
func within(ranges []netip.Prefix, logged []byte) bool {
	addr, ok := addrOf(logged)
	if !ok {
		return false
	}
	i, found := slices.BinarySearchFunc(ranges, addr, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && ranges[i-1].Contains(addr)
}

func addrOf(logged []byte) (netip.Addr, bool) {
	if len(logged) > 64 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(string(logged))
	return addr.Unmap().WithZone(""), err == nil
}

// addresses counts a crawler's requests by address.
type addresses struct {
	ByDNS
	by map[netip.Addr]int64
}

func (a *addresses) add(logged []byte) {
	addr, ok := addrOf(logged)
	if _, known := a.by[addr]; !ok || !known && len(a.by) == maxAddresses {
		a.Unchecked++
		return
	}
	if a.by == nil {
		a.by = map[netip.Addr]int64{}
	}
	a.by[addr]++
}

// A question is an address to verify for a crawler.
type question struct {
	who  *caller
	addr netip.Addr
	n    int64 // requests
}

// verify looks up the busiest addresses. An address whose name is in a domain of the crawler's operator, and
// whose name resolves back to it, is verified; any other answer makes it false; no answer leaves it
// unchecked. Without a Resolver there is nothing to look up.
func (c *callers) verify(ctx context.Context) error {
	if c.resolver == nil {
		return nil
	}
	var list []question
	for _, who := range c.list {
		if who.addrs != nil {
			for addr, n := range who.addrs.by {
				list = append(list, question{who, addr, n})
			}
		}
	}
	slices.SortFunc(list, func(x, y question) int {
		return cmp.Or(cmp.Compare(y.n, x.n), x.addr.Compare(y.addr), cmp.Compare(x.who.number, y.who.number))
	})
	within, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	var mu sync.Mutex // guards next and the counts
	next := 0
	var wg sync.WaitGroup
	for range lookups {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= min(len(list), maxLookups) || within.Err() != nil {
					return
				}
				q := list[i]
				ok, known := confirm(within, c.resolver, q.addr, q.who.agent.Hosts)
				mu.Lock()
				switch {
				case !known:
					q.who.addrs.Unchecked += q.n
				case ok:
					q.who.addrs.Verified += q.n
				default:
					q.who.addrs.False += q.n
				}
				list[i].n = 0
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, q := range list {
		q.who.addrs.Unchecked += q.n
	}
	return ctx.Err()
}

// confirm looks up the names of an address, and reports whether one that is in the domains resolves back to
// it.
func confirm(ctx context.Context, r Resolver, addr netip.Addr, domains []string) (ok, known bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	names, err := r.LookupAddr(ctx, addr.String())
	if err != nil {
		return false, isNotFound(err)
	}
	for _, name := range names[:min(len(names), 8)] {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if !slices.ContainsFunc(domains, func(d string) bool { return name == d || strings.HasSuffix(name, "."+d) }) {
			continue
		}
		back, err := r.LookupNetIP(ctx, "ip", name)
		if err != nil && !isNotFound(err) {
			return false, false
		}
		if slices.ContainsFunc(back, func(a netip.Addr) bool { return a.Unmap().WithZone("") == addr }) {
			return true, true
		}
	}
	return false, true
}

// isNotFound reports whether an error means that the name does not exist.
func isNotFound(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}
