package cluster_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/nats/cluster"
)

// parts are the partitions that run now, on all nodes, by number.
type parts struct {
	mu sync.Mutex // guards of
	of map[int]*cluster.Part
}

func (b *parts) engine(ctx context.Context, p *cluster.Part) error {
	b.mu.Lock()
	b.of[p.Number] = p
	b.mu.Unlock()
	<-ctx.Done()
	return nil
}

// may returns which of some partitions may send a request to an address, and reports an error if two may at once.
func (b *parts) may(t *testing.T, ip netip.Addr, numbers ...int) (who int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	may := func(number int) bool {
		p := b.of[number]
		return p != nil && p.May(ip) && time.Now().Before(p.Ends())
	}
	for _, number := range numbers {
		if !may(number) {
			continue
		}
		for _, other := range numbers {
			if other != number && may(other) && may(number) && may(other) {
				t.Fatalf("partitions %d and %d may ask %v at once", number, other, ip)
			}
		}
		who = number
	}
	return who
}

// Of the partitions that have hosts at an address, one at a time may ask it. Each has its turn, one that is alone keeps it, and that of a node that
// loses its power goes to the others.
func TestAddressesAreShared(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	b := &parts{of: map[int]*cluster.Part{}}
	var nodes []*running
	for i := range 2 {
		nodes = append(nodes, r.run(&cluster.Node{Name: fmt.Sprint("node", i), Partitions: 4, Lease: 2 * time.Second, Snapshots: time.Hour, Engine: b.engine}))
	}
	shared, alone := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::")
	r.eventually("all partitions run", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.of) == 4 })
	had := map[int]int{}
	last := 0
	eachHas := func(times int) func() bool {
		return func() bool {
			if who := b.may(t, shared, 1, 2, 3, 4); who != 0 && who != last {
				last = who
				had[who]++
			}
			return had[1] >= times && had[2] >= times && had[3] >= times && had[4] >= times
		}
	}
	r.eventually("each partition has its turn", eachHas(1))
	for range 20 {
		r.eventually("a partition without others has the address", func() bool { return b.may(t, alone, 3) == 3 })
	}
	b.mu.Lock()
	dir := filepath.Dir(b.of[last].Dir)
	b.mu.Unlock()
	nodes[slices.IndexFunc(nodes, func(n *running) bool { return n.Dir == dir })].abandon()
	clear(had)
	r.eventually("each partition has its turn after the power of a node was lost", eachHas(1))
	r.eventually("an address of the lost node, or of the other, goes to who wants it", func() bool { return b.may(t, alone, 1, 2, 3, 4) != 0 })
}

// Sites of several partitions at one address get no more requests together than one crawler would send there.
func TestCrawlOfOneAddress(t *testing.T) {
	t.Parallel()
	const perSecond = 4
	at := netip.MustParseAddr("20.1.0.1")
	r, w := newRig(t, 1), newWebAt(t, 8, 3, time.Second, func(int) netip.Addr { return at })
	w.perAddress = fmt.Sprint(perSecond, "/s")
	var nodes []*running
	for i := range 2 {
		nodes = append(nodes, r.run(&cluster.Node{Name: fmt.Sprint("node", i), Partitions: 6, Lease: 2 * time.Second, Snapshots: time.Second, Events: 100_000, Engine: w.engine}))
	}
	r.eventually("all pages are stored", func() bool { return w.stored() == len(w.all) })
	for _, n := range nodes {
		n.stop()
	}
	w.polite(t)
	log, of := w.Log(), map[int]bool{}
	for i, a := range log {
		of[partition.Partition{Number: 1, Of: 6}.Foreign(a.Site.Origin)] = true
		if i >= perSecond && a.Begin.Sub(log[i-perSecond].Begin) < 900*time.Millisecond { // after a delay, which a busy machine has, one may follow sooner
			t.Errorf("%d requests in %v", perSecond+1, a.Begin.Sub(log[i-perSecond].Begin))
		}
	}
	if len(of) < 3 {
		t.Errorf("the sites are in %d partitions: the test needs more", len(of))
	}
}
