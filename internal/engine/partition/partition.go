// Package partition divides the hosts of one crawl among several crawlers, and carries the URLs that each finds for the others (V29:
// static assignment by a hash of the host, with an exchange of foreign URLs in batches).
package partition

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/protocol"
)

// most is the largest number of partitions: each host is compared with all of them.
const most = 1024

// A Partition is the hosts that one of several crawlers fetches from: Number, from 1 on, of Of. The zero Partition is the whole crawl.
type Partition struct{ Number, Of int }

// Parse reads a Partition such as "2/8"; an empty text is the zero Partition.
func Parse(text string) (p Partition, err error) {
	if text == "" {
		return p, nil
	}
	number, of, _ := strings.Cut(text, "/")
	p.Number, err = strconv.Atoi(number)
	if err == nil {
		p.Of, err = strconv.Atoi(of)
	}
	if err != nil || p.Number < 1 || p.Number > p.Of || p.Of > most {
		return Partition{}, fmt.Errorf("partition %.20q: want a number and how many there are, such as 2/8, at most %d", text, most)
	}
	return p, nil
}

func (p Partition) String() string { return fmt.Sprintf("%d/%d", p.Number, p.Of) }

// Foreign returns the number of the partition that has the host of a canonical URL or an origin, 0 if that is this one. It depends on the registrable domain alone, so
// that all hosts of a domain have one crawler, which waits between requests to them. When a partition is added to n, one domain in
// n+1 moves to it, and no other moves (rendezvous hashing).
func (p Partition) Foreign(of string) int {
	if p.Of < 2 {
		return 0
	}
	_, host, _ := strings.Cut(protocol.Origin(of), "://")
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	owner, key, largest := 0, hash(Domain(strings.ToLower(strings.Trim(host, "[]")))), uint64(0)
	for i := 1; i <= p.Of; i++ {
		if w := weight(key, uint64(i)); w >= largest {
			owner, largest = i, w
		}
	}
	if owner == p.Number {
		return 0
	}
	return owner
}

// Owner returns which of some nodes crawls a partition. When a node comes or goes, no partition moves between two others.
func Owner(number int, nodes []string) (owner string) {
	largest := uint64(0)
	for _, n := range nodes {
		if w := weight(hash(n), uint64(number)); owner == "" || w > largest || w == largest && n < owner {
			owner, largest = n, w
		}
	}
	return owner
}

func hash(text string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, text)
	return h.Sum64()
}

// weight is that of rendezvous hashing: of some candidates the one with the largest is chosen.
func weight(key, candidate uint64) uint64 { return mix(key ^ mix(candidate)) }

// mix makes each bit of the result depend on all bits of x (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Domain returns the registrable domain of a host: one owner controls all names below it. For an IP address it returns the address.
func Domain(host string) string {
	host = strings.TrimRight(host, ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return d
	}
	return host
}

// A Share is one of several partitions of a crawl, for a crawler that gets it from others while they run, and gives it back.
type Share struct {
	Partition
	Carrier

	// Ends returns until when this crawler may send requests. It becomes later while the crawler has the partition. Another crawler may begin
	// right after that time.
	Ends func() time.Time

	Market fresh.Market // of all partitions; nil: each has its own price, and its part of the budget

	Addresses Addresses // that hosts of several partitions share; nil: each partition has its part of the rate of every address
}

// Addresses are the addresses of hosts, each of which one partition at a time may send requests to.
type Addresses interface {
	// May reports whether this partition may send a request to an address now. If not, it asks for it: call it again a moment later. It does
	// not block.
	May(ip netip.Addr) bool
}
