package harvest

import (
	"container/heap"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/internal/pause"
)

// A host is one name, over all its ports and schemes. The harvester's lock guards it.
type host struct {
	name  string
	sites int          // origins of it
	ips   []netip.Addr // where it is asked, that of its slot first
	until time.Time    // then it is looked up again
	slot  *slot        // nil until it was looked up
	rest  time.Time    // it has refused to be asked before
	seen  netip.Addr   // where it was found in the end, if that is not at its slot's address
}

// A slot is the right to ask a host now. Names of one registrable domain on one address
// share it. With no gaps of our own each origin has one to itself, and no address.
type slot struct {
	gate
	key     slotKey
	at      *address // nil: each origin's own
	hosts   int
	big     bool            // one of its sites has more than BigSite pages
	waiters []chan struct{} // of who ask by themselves, and come before tasks...
	owed    bool            // ...but not twice in a row while tasks wait: who asks by himself had the last turn
}

// owes reports whether the next turn is that of tasks.
func (sl *slot) owes() bool { return sl.owed && len(sl.queue) > 0 }

type slotKey struct {
	domain string
	net    netip.Addr
}

// A gate is what sites with tasks wait at.
type gate struct {
	next        time.Time // when it opens, if there is room
	taken, most int
	queue       orderHeap // who found it shut
	alarm       alarm     // when the first of them has another try
}

func (g *gate) open(now time.Time) bool { return g.taken < g.most && !g.next.After(now) }

// An alarm is when a site, or the first that waits at a gate, is to be looked at.
type alarm struct {
	at    time.Time
	place int // in the heap, -1 if it is not there
	site  *site
	gate  *gate
}

// park has a site wait at a gate that is shut. The lock is held.
func (h *Harvester) park(g *gate, s *site) {
	s.queued = true
	heap.Push(&g.queue, s)
	h.arm(g)
}

// arm sees to it that somebody tries a gate again: when it opens, or else whoever keeps it
// shut arms it. The lock is held.
func (h *Harvester) arm(g *gate) {
	if g.taken >= g.most || len(g.queue) == 0 || g.alarm.place >= 0 || h.cycle == nil {
		return
	}
	g.alarm.gate, g.alarm.at = g, g.next
	heap.Push(&h.due, &g.alarm)
	h.cycle.wake()
}

// unpark has all that wait at a gate look for another. The lock is held.
func (h *Harvester) unpark(g *gate) {
	list := g.queue
	g.queue = nil
	for _, s := range list {
		s.queued = false
		h.enqueue(s)
	}
}

// slotOf returns the slot that a site is asked by; nil if its address is not known. The lock is held.
func (h *Harvester) slotOf(s *site) *slot {
	if !h.waits() {
		return s.own
	}
	return s.host.slot
}

// enter takes the turn of a site that has tasks, or has it wait where it may not go on. The lock is held.
func (h *Harvester) enter(s *site, now time.Time) bool {
	sl := h.slotOf(s)
	if !sl.open(now) {
		h.park(&sl.gate, s)
		return false
	}
	if sl.at != nil {
		if !sl.at.open(now) {
			h.park(&sl.at.gate, s)
			return false
		}
		h.admit(s, sl, now)
	}
	sl.taken++
	sl.owed = false
	s.held = sl
	return true
}

// known reports whether it is known where a host is, or that does not matter.
func (h *Harvester) known(n *host, now time.Time) bool {
	return n.until.After(now) && (n.slot != nil || !h.waits())
}

// acquire waits until a site may be asked, and takes its turn, for who asks by himself.
func (h *Harvester) acquire(ctx context.Context, origin string) (*site, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.site(origin)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		now := time.Now()
		if wait := s.soonest().Sub(now); wait > 0 {
			h.rest(ctx, wait)
			continue
		}
		if h.waits() && !h.known(s.host, now) {
			h.mu.Unlock()
			ips, err := h.locate(ctx, s.host.name)
			h.mu.Lock()
			if err != nil {
				return nil, err
			}
			h.attach(s.host, ips)
			continue
		}
		sl := h.slotOf(s)
		if sl.taken >= sl.most || len(sl.waiters) > 0 || sl.owes() {
			if !h.queueUp(ctx, sl) {
				return nil, ctx.Err()
			}
		} else {
			sl.taken++
		}
		if h.persist(ctx, s, sl) {
			return s, nil
		}
		h.yield(sl)
	}
}

// queueUp waits until somebody hands on the turn of a slot. The lock is held, and not meanwhile.
func (h *Harvester) queueUp(ctx context.Context, sl *slot) bool {
	turn := make(chan struct{})
	sl.waiters = append(sl.waiters, turn)
	for handed := false; !handed && ctx.Err() == nil; {
		h.mu.Unlock()
		t := time.NewTimer(time.Second)
		select {
		case <-turn:
			handed = true
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		h.mu.Lock()
		if i := slices.Index(sl.waiters, turn); i == 0 && sl.taken < sl.most && (!sl.owes() || h.cycle == nil) { // tasks had the next turn, and have gone elsewhere
			sl.waiters = sl.waiters[1:]
			sl.taken++
			handed = true
		}
	}
	if ctx.Err() == nil {
		return true
	}
	if i := slices.Index(sl.waiters, turn); i >= 0 {
		sl.waiters = slices.Delete(sl.waiters, i, i+1)
	} else {
		h.yield(sl) // it came too late
	}
	return false
}

// persist waits, with the turn of a slot, until a site of it may be asked, and reports whether
// it may: not if it was to be left alone for longer than others, or is elsewhere by now. The lock
// is held, and not meanwhile.
func (h *Harvester) persist(ctx context.Context, s *site, sl *slot) bool {
	const full = 100 * time.Millisecond // until it is looked again whether an address has room
	for ctx.Err() == nil && h.slotOf(s) == sl {
		now := time.Now()
		wait := sl.next.Sub(now)
		if own := s.soonest().Sub(now); own > max(wait, 0) {
			return false
		}
		if wait <= 0 && sl.at != nil && !sl.at.open(now) {
			if wait = sl.at.next.Sub(now); wait <= 0 {
				wait = full
			}
		}
		if wait <= 0 {
			if sl.at != nil {
				h.admit(s, sl, now)
			}
			s.held, sl.owed = sl, true
			return true
		}
		h.rest(ctx, wait)
	}
	return false
}

// rest waits without the lock, which is held.
func (h *Harvester) rest(ctx context.Context, d time.Duration) {
	h.mu.Unlock()
	defer h.mu.Lock()
	pause.For(ctx, d)
}

// release gives the turn back that somebody has for a site. The lock is held.
func (h *Harvester) release(s *site) {
	sl := s.held
	s.held = nil
	if n := s.host; n.seen.IsValid() && n.slot == sl {
		h.move(n, n.seen)
		h.charge(n.slot.at, time.Now())
	}
	h.yield(sl)
}

// yield hands the turn of a slot on. The lock is held.
func (h *Harvester) yield(sl *slot) {
	if len(sl.waiters) > 0 && !sl.owes() {
		turn := sl.waiters[0]
		sl.waiters = sl.waiters[1:]
		close(turn) // the turn stays taken
		return
	}
	sl.taken--
	h.arm(&sl.gate)
}

// attach takes in where a host is. The lock is held.
func (h *Harvester) attach(n *host, ips []netip.Addr) {
	n.ips, n.until = ips, time.Now().Add(h.names.age)
	if !h.waits() {
		return
	}
	at := ips[0]
	for _, ip := range slices.Backward(ips) {
		if h.slots[slotKey{domainOf(n.name), netOf(ip)}] != nil {
			at = ip
		}
	}
	if n.slot == nil {
		h.move(n, at)
		return
	}
	if i := slices.IndexFunc(ips, func(ip netip.Addr) bool { return netOf(ip) == n.slot.key.net }); i >= 0 {
		at = ips[i]
	}
	if n.slot.taken > 0 && netOf(at) != n.slot.key.net {
		n.seen = at // whoever asks there moves it when he has done
		return
	}
	h.move(n, at)
}

// found notes at which address a host was found. The lock is held by nobody.
func (h *Harvester) found(name string, ip netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.hosts[name]; n != nil && n.slot != nil && n.slot.at != nil && netOf(ip) != n.slot.key.net {
		n.seen = ip
	}
}

// first returns the addresses of a host with that first by which it has its slot. The lock is held by nobody.
func (h *Harvester) first(name string, ips []netip.Addr) []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.hosts[name]
	if n == nil || n.slot == nil || n.slot.at == nil {
		return ips
	}
	return ordered(ips, n.slot.key.net)
}

func ordered(ips []netip.Addr, net netip.Addr) []netip.Addr {
	if len(ips) < 2 || netOf(ips[0]) == net {
		return ips
	}
	ips = slices.Clone(ips)
	slices.SortStableFunc(ips, func(a, b netip.Addr) int {
		switch x, y := netOf(a) == net, netOf(b) == net; {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	return ips
}

// move gives a host the slot that its names have at an address. The lock is held.
func (h *Harvester) move(n *host, ip netip.Addr) {
	n.seen = netip.Addr{}
	key := slotKey{domainOf(n.name), netOf(ip)}
	n.ips = ordered(n.ips, key.net)
	old := n.slot
	if old != nil && old.key == key {
		return
	}
	sl := h.slots[key]
	if sl == nil {
		a := h.addresses[key.net]
		if a == nil {
			a = &address{gate: gate{most: h.connections(), alarm: alarm{place: -1}}, kept: map[*site]struct{}{}, guests: map[*site]*welcome{}}
			h.addresses[key.net] = a
		}
		a.slots++
		h.hasten(a)
		sl = &slot{gate: gate{most: 1, alarm: alarm{place: -1}}, key: key, at: a}
		h.slots[key] = sl
	}
	n.slot = sl
	sl.hosts++
	if old != nil {
		sl.next = clock.Later(sl.next, old.next)
		h.vacate(old)
	}
}

// vacate takes a host from a slot. The lock is held.
func (h *Harvester) vacate(sl *slot) {
	if sl.hosts--; sl.hosts > 0 {
		return
	}
	delete(h.slots, sl.key)
	sl.at.slots--
	if sl.big {
		sl.at.big--
	}
	h.unpark(&sl.gate)
}

// domainOf returns the domain of a name that somebody has registered, which is all that
// those have in common who may ask for it: the rest is his. An address is its own.
func domainOf(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return name
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(strings.TrimRight(name, ".")); err == nil {
		return d
	}
	return name
}

// netOf is what counts as one address: of version 6 all that one customer has.
func netOf(ip netip.Addr) netip.Addr {
	ip = inet.Plain(ip)
	if ip.Is4() {
		return ip
	}
	return netip.PrefixFrom(ip, 64).Masked().Addr()
}

// An orderHeap has the most important site on top.
type orderHeap []*site

func (q orderHeap) Len() int           { return len(q) }
func (q orderHeap) Less(i, j int) bool { return q[i].order < q[j].order }
func (q orderHeap) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push and Pop are for container/heap.
func (q *orderHeap) Push(x any) { *q = append(*q, x.(*site)) }

func (q *orderHeap) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return s
}

// An alarmHeap has the alarm on top that comes first.
type alarmHeap []*alarm

func (q alarmHeap) Len() int           { return len(q) }
func (q alarmHeap) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q alarmHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push and Pop are for container/heap.
func (q *alarmHeap) Push(x any) {
	a := x.(*alarm)
	a.place = len(*q)
	*q = append(*q, a)
}

func (q *alarmHeap) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	a.place = -1
	return a
}
