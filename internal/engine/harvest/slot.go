package harvest

import (
	"container/heap"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/internal/pause"
)

// A host is one host name, with all its ports and schemes. The timetable's lock guards it.
type host struct {
	name  string
	sites int          // its origins
	ips   []netip.Addr // its addresses, that of its slot first
	until time.Time    // when it is looked up again
	slot  *slot        // nil until it was looked up
	rest  time.Time    // the end of its backoff after overload or a Retry-After, or of the wait after an earlier process
	seen  netip.Addr   // the address that a connection reached, if that is not its slot's
}

// A slot is the right to send a request to a host now. Names of one registrable domain on one
// address share it. With a negative Wait each origin has its own slot, without an address.
type slot struct {
	gate
	key     slotKey
	at      *address // nil: the slot of one origin
	hosts   int
	big     bool            // one of its sites has more than BigSite pages
	waiters []chan struct{} // callers of acquire, who come before tasks...
	owed    bool            // ...but not twice in a row while tasks wait: such a caller had the slot last
}

// owes reports whether tasks get the slot next.
func (sl *slot) owes() bool { return sl.owed && len(sl.queue) > 0 }

type slotKey struct {
	domain string
	net    netip.Addr
}

// A gate limits the rate and the number of requests. Sites with tasks queue at it.
type gate struct {
	next        time.Time // when it opens, if taken < most
	taken, most int
	queue       orderHeap // sites that found it shut
	alarm       alarm     // when the first of them tries again
}

func (g *gate) open(now time.Time) bool { return g.taken < g.most && !g.next.After(now) }

// An alarm is the time at which a site, or the first in the queue of a gate, tries again.
type alarm struct {
	at    time.Time
	place int // in the heap, -1 if it is not there
	site  *site
	gate  *gate
}

// park queues a site at a shut gate. The lock is held.
func (t *timetable) park(g *gate, s *site) {
	s.queued = true
	heap.Push(&g.queue, s)
	t.arm(g)
}

// arm sets the alarm of a gate for when it opens. If the gate is full, the request that
// leaves it arms it. The lock is held.
func (t *timetable) arm(g *gate) {
	if g.taken >= g.most || len(g.queue) == 0 || g.alarm.place >= 0 || t.cycle == nil {
		return
	}
	g.alarm.gate, g.alarm.at = g, g.next
	heap.Push(&t.due, &g.alarm)
	t.cycle.wake()
}

// unpark sends all sites in the queue of a gate to their new gates. The lock is held.
func (t *timetable) unpark(g *gate) {
	list := g.queue
	g.queue = nil
	for _, s := range list {
		s.queued = false
		t.enqueue(s)
	}
}

// slotOf returns the slot of a site; nil if its address is not known. The lock is held.
func (t *timetable) slotOf(s *site) *slot {
	if !t.manners.waits() {
		return s.own
	}
	return s.host.slot
}

// enter takes the slot of a site with tasks, or queues the site at the gate that is shut. The lock is held.
func (t *timetable) enter(s *site, now time.Time) bool {
	sl := t.slotOf(s)
	if !sl.open(now) {
		t.park(&sl.gate, s)
		return false
	}
	if sl.at != nil {
		if !t.admits(sl.at, s, now) {
			t.park(&sl.at.gate, s)
			return false
		}
		t.admit(s, sl, now)
	}
	sl.taken++
	sl.owed = false
	s.held, s.access = sl, 0
	return true
}

// known reports whether a host's addresses are known and not too old, and its slot, if it needs one.
func (t *timetable) known(n *host, now time.Time) bool {
	return n.until.After(now) && (n.slot != nil || !t.manners.waits())
}

// acquire waits until a site may be fetched from, and takes its slot. It serves requests that are not tasks.
func (t *timetable) acquire(ctx context.Context, origin string) (*site, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.site(origin)
	if err != nil {
		return nil, err
	}
	since, gives := ctx.Value(unlessPaused{}).(time.Time)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if gives && (t.paused(s) || s.paused.After(since)) {
			return nil, ErrPaused
		}
		if t.paused(s) {
			t.awaitPause(ctx)
			continue
		}
		now := time.Now()
		if wait := s.soonest().Sub(now); wait > 0 {
			t.rest(ctx, wait)
			continue
		}
		if t.manners.waits() && !t.known(s.host, now) {
			t.mu.Unlock()
			ips, err := t.network.locate(ctx, s.host.name)
			t.mu.Lock()
			if err != nil {
				return nil, err
			}
			t.attach(s.host, ips)
			continue
		}
		sl := t.slotOf(s)
		if sl.taken >= sl.most || len(sl.waiters) > 0 || sl.owes() {
			if !t.queueUp(ctx, sl) {
				return nil, ctx.Err()
			}
		} else {
			sl.taken++
		}
		switch {
		case !t.persist(ctx, s, sl):
			t.yield(sl)
		case gives && s.paused.After(since):
			t.release(s)
		default:
			return s, nil
		}
	}
}

// queueUp waits until the slot is handed over; false means that ctx has ended. The lock is held, but not while it waits.
func (t *timetable) queueUp(ctx context.Context, sl *slot) bool {
	waiter := make(chan struct{})
	sl.waiters = append(sl.waiters, waiter)
	for handed := false; !handed && ctx.Err() == nil; {
		t.mu.Unlock()
		timer := time.NewTimer(time.Second)
		select {
		case <-waiter:
			handed = true
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		t.mu.Lock()
		if i := slices.Index(sl.waiters, waiter); i == 0 && sl.taken < sl.most && (!sl.owes() || t.cycle == nil) { // the slot was kept for tasks, which have moved to another one
			sl.waiters = sl.waiters[1:]
			sl.taken++
			handed = true
		}
	}
	if ctx.Err() == nil {
		return true
	}
	if i := slices.Index(sl.waiters, waiter); i >= 0 {
		sl.waiters = slices.Delete(sl.waiters, i, i+1)
	} else {
		t.yield(sl) // it was handed over too late
	}
	return false
}

// persist waits, with a slot taken, until its site may be fetched from. It returns false if the
// site must rest for longer than the slot or is paused, if it has moved to another slot, or if ctx has ended.
// The lock is held, but not while it waits.
func (t *timetable) persist(ctx context.Context, s *site, sl *slot) bool {
	const full = 100 * time.Millisecond // between two checks whether a full address has room
	for ctx.Err() == nil && t.slotOf(s) == sl && !t.paused(s) {
		now := time.Now()
		wait := sl.next.Sub(now)
		if own := s.soonest().Sub(now); own > max(wait, 0) {
			return false
		}
		if wait <= 0 && sl.at != nil && !t.admits(sl.at, s, now) {
			if wait = sl.at.next.Sub(now); wait <= 0 || sl.at.guests[s] != nil {
				wait = full
			}
		}
		if wait <= 0 {
			if sl.at != nil {
				t.admit(s, sl, now)
			}
			s.held, s.access, sl.owed = sl, 0, true
			return true
		}
		t.rest(ctx, wait)
	}
	return false
}

// rest releases the lock, which is held, while it waits.
func (t *timetable) rest(ctx context.Context, d time.Duration) {
	t.mu.Unlock()
	defer t.mu.Lock()
	pause.For(ctx, d)
}

// release gives back the slot that a site holds. The lock is held.
func (t *timetable) release(s *site) {
	sl := s.held
	s.held = nil
	if n := s.host; n.seen.IsValid() && n.slot == sl {
		t.move(n, n.seen)
		t.charge(n.slot.at, time.Now())
	}
	t.yield(sl)
}

// yield hands a slot to the next waiter, or frees it for tasks. The lock is held.
func (t *timetable) yield(sl *slot) {
	if len(sl.waiters) > 0 && !sl.owes() {
		waiter := sl.waiters[0]
		sl.waiters = sl.waiters[1:]
		close(waiter) // the slot stays taken
		return
	}
	sl.taken--
	t.arm(&sl.gate)
}

// attach stores the addresses of a host, and gives it a slot there. The lock is held.
func (t *timetable) attach(n *host, ips []netip.Addr) {
	n.ips, n.until = ips, time.Now().Add(t.network.names.age)
	if !t.manners.waits() {
		return
	}
	at := ips[0]
	for _, ip := range slices.Backward(ips) {
		if t.slots[slotKey{partition.Domain(n.name), netOf(ip)}] != nil {
			at = ip
		}
	}
	if n.slot == nil {
		t.move(n, at)
		return
	}
	if i := slices.IndexFunc(ips, func(ip netip.Addr) bool { return netOf(ip) == n.slot.key.net }); i >= 0 {
		at = ips[i]
	}
	if n.slot.taken > 0 && netOf(at) != n.slot.key.net {
		n.seen = at // release moves it after the current request
		return
	}
	t.move(n, at)
}

// found notes the address at which a connection reached a host. The lock must not be held.
func (t *timetable) found(name string, ip netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.hosts[name]; n != nil && n.slot != nil && n.slot.at != nil && netOf(ip) != n.slot.key.net {
		n.seen = ip
	}
}

// first returns the addresses of a host, those of its slot first. The lock must not be held.
func (t *timetable) first(name string, ips []netip.Addr) []netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.hosts[name]
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

// move gives a host the slot of its registrable domain at an address. The lock is held.
func (t *timetable) move(n *host, ip netip.Addr) {
	n.seen = netip.Addr{}
	key := slotKey{partition.Domain(n.name), netOf(ip)}
	n.ips = ordered(n.ips, key.net)
	old := n.slot
	if old != nil && old.key == key {
		return
	}
	sl := t.slots[key]
	if sl == nil {
		a := t.addresses[key.net]
		if a == nil {
			a = &address{ip: key.net, gate: gate{most: t.manners.addressConns, alarm: alarm{place: -1}}, kept: map[*site]struct{}{}, guests: map[*site]*welcome{}}
			t.addresses[key.net] = a
		}
		a.slots++
		t.hasten(a)
		sl = &slot{gate: gate{most: 1, alarm: alarm{place: -1}}, key: key, at: a}
		t.slots[key] = sl
	}
	n.slot = sl
	sl.hosts++
	if old != nil {
		sl.next = clock.Later(sl.next, old.next)
		t.vacate(old)
	}
}

// vacate removes a host from a slot. The lock is held.
func (t *timetable) vacate(sl *slot) {
	if sl.hosts--; sl.hosts > 0 {
		return
	}
	delete(t.slots, sl.key)
	sl.at.slots--
	if sl.big {
		sl.at.big--
	}
	t.unpark(&sl.gate)
}

// netOf returns the unit that counts as one address: in IPv6 a /64, which one customer has.
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

func (q *orderHeap) Pop() any { return pop((*[]*site)(q)) }

func pop[T any](q *[]*T) *T {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return x
}

// An alarmHeap has the earliest alarm on top.
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
	a := pop((*[]*alarm)(q))
	a.place = -1
	return a
}
