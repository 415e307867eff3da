package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/engine/partition"
)

// An address may have hosts of several partitions. One partition at a time sends requests there: the one that NATS has in the key of the address, as long as it has
// its own lease. Another one that wants it asks that partition for it, which gives it up after its turn, or at once if it does not need it now.

const (
	addressTurn  = 10 * time.Second // how long a partition keeps an address that another one wants, while it needs it; the lease time at most
	addressNeeds = 2 * time.Second  // a partition that has not asked for an address for so long does not need it now
	addressKeeps = 10 * time.Minute // and gives it up after so long, though nobody wants it
	addressLooks = time.Second      // between two looks at what is wanted
)

// A holder is the value of the key of an address.
type holder struct {
	Partition int    `json:"partition"`
	Process   string `json:"process"` // that had the partition then
	Age       uint64 `json:"age"`     // the revision with which its lease began
}

// A sharedAddress is one that a partition has or wants.
type sharedAddress struct {
	revision uint64    // of its key; 0: the partition does not have it
	since    time.Time // it has it
	needed   time.Time // last
	wanted   bool      // by another one
	rests    time.Time // until then the others come first
}

// addresses are those of a partition.
type addresses struct {
	mu   sync.Mutex // guards of
	of   map[netip.Addr]*sharedAddress
	more chan struct{} // has room for one who wants a new one
}

var _ partition.Addresses = (*Part)(nil)

// May implements partition.Addresses.
func (p *Part) May(ip netip.Addr) bool {
	a := &p.addresses
	a.mu.Lock()
	defer a.mu.Unlock()
	is := a.of[ip]
	if is == nil {
		is = new(sharedAddress)
		a.of[ip] = is
		select {
		case a.more <- struct{}{}:
		default:
		}
	}
	is.needed = time.Now()
	return is.revision != 0
}

func (n *Node) wantSubject(number int) string {
	return fmt.Sprintf("%s.wants.%d", bucketName(n.Crawl), number)
}

func addressKey(ip netip.Addr) string { return strings.ReplaceAll(ip.String(), ":", "-") }

// share gets and gives addresses until ctx ends, when it gives up all.
func (p *Part) share(ctx context.Context) {
	a, n := &p.addresses, p.is.n
	asked, err := n.Conn.Subscribe(n.wantSubject(p.Number), func(m *nats.Msg) {
		ip, err := netip.ParseAddr(string(m.Data))
		if err != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		is := a.of[ip]
		if is == nil {
			is = new(sharedAddress)
			a.of[ip] = is
		}
		if is.wanted = true; is.revision == 0 { // NATS still has it from an earlier lease, or it could not be given up: it is got, and then given up
			is.needed = time.Now()
		}
	})
	if err != nil {
		n.Log.Warn("other partitions cannot ask this one for addresses", "partition", p.Number, "err", plain(err))
	} else {
		defer asked.Unsubscribe()
	}
	ticks := time.NewTicker(addressLooks)
	defer ticks.Stop()
	for trouble := ""; ctx.Err() == nil; {
		select {
		case <-ticks.C:
		case <-a.more:
		case <-ctx.Done():
		}
		text := ""
		if err := p.exchange(ctx); err != nil {
			text = plain(err).Error()
		}
		if text != "" && text != trouble && ctx.Err() == nil {
			n.Log.Warn("addresses that partitions share wait for NATS", "partition", p.Number, "err", text)
		}
		trouble = text
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.wait())
	defer cancel()
	for ip, is := range p.all() {
		if is.revision != 0 && p.give(end, ip, is.revision) != nil {
			return // others see that the partition has gone
		}
	}
}

// all returns what the partition has and wants.
func (p *Part) all() map[netip.Addr]sharedAddress {
	p.addresses.mu.Lock()
	defer p.addresses.mu.Unlock()
	all := make(map[netip.Addr]sharedAddress, len(p.addresses.of))
	for ip, is := range p.addresses.of {
		all[ip] = *is
	}
	return all
}

// exchange gives up what others shall have, and gets what is wanted. If NATS does not answer, the rest is for the next time.
func (p *Part) exchange(ctx context.Context) error {
	for ip, is := range p.all() {
		now, err := time.Now(), error(nil)
		switch idle := now.Sub(is.needed); {
		case is.revision == 0 && idle > addressKeeps:
			p.addresses.mu.Lock()
			delete(p.addresses.of, ip)
			p.addresses.mu.Unlock()
		case is.revision == 0 && idle < addressNeeds && !now.Before(is.rests):
			err = p.get(ctx, ip)
		case is.revision != 0 && (idle > addressKeeps || is.wanted && (idle > addressNeeds || now.Sub(is.since) > min(addressTurn, p.is.n.Lease))):
			err = p.give(ctx, ip, is.revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// get gets an address that no other partition has, or else asks for it.
func (p *Part) get(ctx context.Context, ip netip.Addr) error {
	n := p.is.n
	ctx, cancel := context.WithTimeout(ctx, n.wait())
	defer cancel()
	mine := holder{p.Number, n.run.process, p.is.age}
	value, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	revision, err := n.in.addresses.Create(ctx, addressKey(ip), value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		e, err := n.in.addresses.Get(ctx, addressKey(ip))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil // it was given up just now
		} else if err != nil {
			return err
		}
		var has holder
		if json.Unmarshal(e.Value(), &has) == nil && (has.Partition != mine.Partition || has.Process != mine.Process) && n.has(has) {
			return n.Conn.Publish(n.wantSubject(has.Partition), []byte(ip.String()))
		}
		if revision, err = n.in.addresses.Update(ctx, addressKey(ip), value, e.Revision()); errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return nil // another one was faster
		} else if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	p.addresses.mu.Lock()
	defer p.addresses.mu.Unlock()
	if is := p.addresses.of[ip]; is != nil {
		is.revision, is.since, is.wanted = revision, time.Now(), false
	}
	return nil
}

// give gives up an address. First the engine must not use it any more.
func (p *Part) give(ctx context.Context, ip netip.Addr, revision uint64) error {
	p.addresses.mu.Lock()
	if is := p.addresses.of[ip]; is != nil {
		is.revision, is.rests = 0, time.Now().Add(2*addressLooks)
	}
	p.addresses.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, p.is.n.wait())
	defer cancel()
	err := p.is.n.in.addresses.Purge(ctx, addressKey(ip), jetstream.LastRevision(revision), jetstream.PurgeTTL(time.Hour))
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return nil // another one has it already
	}
	return err
}

// has reports whether a partition may still have an address. It may not if its node has lost it since, or has been silent for so long that its lease is over.
func (n *Node) has(h holder) bool {
	n.run.tenants.Lock()
	defer n.run.tenants.Unlock()
	is, known := n.run.tenants.of[h.Partition]
	return !known || is.revision < h.Age || is.process == h.Process && !is.silent
}

// tenants are the processes that have the partitions, as far as this node has heard.
type tenants struct {
	sync.Mutex // guards of
	of         map[int]tenant
}

type tenant struct {
	process  string
	revision uint64 // of the record that says so
	silent   bool
}

// note notes them.
func (t *tenants) note(n *Node) {
	t.Lock()
	defer t.Unlock()
	t.of = map[int]tenant{}
	for number := 1; number <= n.Partitions; number++ {
		if s := n.run.seen[partKey(number)]; s != nil {
			t.of[number] = tenant{parseRecord(s.value).Process, s.revision, n.silent(s)}
		}
	}
}
