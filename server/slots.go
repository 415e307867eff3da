package server

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// turns hands out slots: permission to use the CPU. Slots leave half of the processors
// to cheap requests. With one processor, or other load on the machine, that would not
// be enough: once the site has worked for a while, a slot's holder pauses for as long
// as it works, in small steps.
//
// Waiters are served by address, the address with the least recent work first: a
// client that asks for a lot waits behind its own requests, and a client that asks for
// little waits for the slot in use, however many others there are. An address has one
// slot at a time while others wait. Delivery to subscribers, answers to requests and
// evaluation of expressions get slots round-robin where there are too few for all: none
// waits for more than one slot of each of the others.
//
// The zero turns is ready to use, by many goroutines at once.
type turns struct {
	mu     sync.Mutex
	taken  [kinds]int
	byAddr map[string]*taker
	queued [kinds]map[*taker]struct{} // addresses with a waiter
	asking int                        // waiters that count against mostAsking
	last   kind                       // of the slot that was granted last
	all    load                       // of all addresses
	failed load                       // load of rejecting requests over a limit
	came   uint64                     // number of waiters so far
	sweep  int                        // byAddr is tidied when it holds more
}

// A kind is the purpose of a slot.
type kind int

const (
	telling kind = iota // delivery to subscribers
	asking              // an answer to a request
	judging             // either of these with an expression, which may cost a thousand times as much
	kinds
)

const (
	// turnTime is about how long a slot lasts: after it a message ends, and an
	// answer waits for its next slot.
	turnTime = 20 * time.Millisecond

	// mostAsking and mostAskingEach bound the requests that wait for a slot, in all
	// and from one address.
	mostAsking, mostAskingEach = 1000, 8

	// forgotten is the half-life of an address's load, and forgottenAll that of
	// the load of all addresses together.
	forgotten, forgottenAll = time.Second, 4 * time.Second

	// After so much recent work (that of a bundle of some thousand pages, say) a
	// slot's holder pauses after each stint for as long as it worked, at most turnTime.
	undivided = time.Second
	stint     = 500 * time.Microsecond

	// A rejection counts as this much work, at least. After undivided of rejections, or of
	// other work, a rejection is delayed by about brake: a client that retries at once
	// would be rejected thousands of times a second.
	brake    = time.Second
	refusing = 5 * time.Millisecond
)

var (
	// errBusy says that other work kept the site busy for too long.
	errBusy = errors.New("the site is busy with other requests")

	// errCrowd says that too many requests of one address wait.
	errCrowd = errors.New("too many requests from one address are waiting")
)

// A taker is an address that takes slots. The empty address stands for all clients that
// cannot be told apart; no per-address bound applies to it, see clientAddress.
type taker struct {
	load
	addr   string
	taken  int
	asking int // its waiters that count against mostAskingEach
	queue  [kinds][]*waiter
}

// A load is the amount of recent work, as of a moment.
type load struct {
	used time.Duration
	at   time.Time
}

// A waiter waits for a slot, until granted is closed.
type waiter struct {
	granted chan struct{}
	number  uint64
	asks    bool
	paced   bool // set before granted is closed
}

// turn waits for a slot for a selection's request, whose work rest ends with errBusy
// after mostWork. For an answer that has begun, neither wait nor work is limited.
func (n *Notifier) turn(ctx context.Context, s *selection, begun bool) (*turn, error) {
	if begun {
		return n.turns.take(ctx, s.addr, asking, 0, false)
	}
	k := asking
	switch {
	case s.where != nil:
		k = judging
	case s.listens:
		k = telling
	}
	end := time.Now().Add(mostWork)
	t, err := n.turns.take(ctx, s.addr, k, n.writeWait()/4, !s.listens)
	if err != nil {
		return nil, err
	}
	t.end = end
	return t, nil
}

// A turn is a slot, held until leave is called. One goroutine uses it.
type turn struct {
	of    *turns
	who   *taker
	kind  kind
	asks  bool          // it counts against mostAsking while it waits
	wait  time.Duration // the longest wait for it; zero: no limit
	held  bool
	since time.Time
	spent time.Duration // of work, before since
	end   time.Time     // after which rest returns errBusy; zero: never

	paced  bool
	paused time.Duration // in pauses after since
}

// turnsAtATime is the number of slots of one kind; of all kinds together there is one more.
func turnsAtATime() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// take waits for a slot of an address, for wait at most if that is not zero; then the
// error is errBusy. With asks, the number of waiters is bounded: beyond the bound of the
// address the error is errCrowd, beyond that of all errBusy.
func (t *turns) take(ctx context.Context, addr string, k kind, wait time.Duration, asks bool) (*turn, error) {
	t.mu.Lock()
	who := t.taker(addr)
	if crowd := addr != "" && who.asking >= mostAskingEach; asks && (crowd || t.asking >= mostAsking) {
		t.mu.Unlock()
		if crowd {
			return nil, errCrowd
		}
		return nil, errBusy
	}
	turn := &turn{of: t, who: who, kind: k, wait: wait, asks: asks}
	if err := t.await(ctx, turn); err != nil { // unlocks
		return nil, err
	}
	return turn, nil
}

// refused delays a request that is about to be rejected for a limit, if that is due.
func (t *turns) refused(ctx context.Context) {
	t.mu.Lock()
	now := time.Now()
	t.failed.age(now, forgottenAll)
	t.failed.used += refusing
	t.all.age(now, forgottenAll)
	due := max(t.failed.used, t.all.used) > undivided
	t.mu.Unlock()
	if due {
		pause.For(ctx, brake/2+rand.N(brake)) // not all at the same time
	}
}

// await is called with mu held, and releases it.
func (t *turns) await(ctx context.Context, turn *turn) error {
	who, k := turn.who, turn.kind
	w := &waiter{granted: make(chan struct{}), number: t.came, asks: turn.asks}
	t.came++
	who.queue[k] = append(who.queue[k], w)
	if w.asks {
		t.asking++
		who.asking++
	}
	if t.queued[k] == nil {
		t.queued[k] = make(map[*taker]struct{})
	}
	t.queued[k][who] = struct{}{}
	t.grant()
	t.mu.Unlock()
	var late <-chan time.Time
	if turn.wait > 0 {
		timer := time.NewTimer(turn.wait)
		defer timer.Stop()
		late = timer.C
	}
	err := error(nil)
	select {
	case <-w.granted:
	case <-late:
		err = errBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	turn.since = time.Now()
	turn.paused = 0
	if err == nil {
		turn.held, turn.paced = true, w.paced
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(who.queue[k], w); i >= 0 {
		t.unqueue(who, k, i)
	} else {
		t.release(turn) // it was granted meanwhile
	}
	return err
}

// taker, and the methods of turns below it, are called with mu held.
func (t *turns) taker(addr string) *taker {
	who := t.byAddr[addr]
	if who == nil {
		t.tidy()
		if t.byAddr == nil {
			t.byAddr = make(map[string]*taker)
		}
		who = &taker{addr: addr, load: load{at: time.Now()}}
		t.byAddr[addr] = who
	}
	return who
}

// tidy forgets the addresses that have had no work for a while.
func (t *turns) tidy() {
	if len(t.byAddr) < t.sweep {
		return
	}
	now := time.Now()
	for addr, who := range t.byAddr {
		if who.taken == 0 && !slices.ContainsFunc(who.queue[:], func(q []*waiter) bool { return len(q) > 0 }) && now.Sub(who.at) > 10*forgotten {
			delete(t.byAddr, addr)
		}
	}
	t.sweep = 2*len(t.byAddr) + 100
}

// age applies the half-life forgotten up to now.
func (l *load) age(now time.Time, forgotten time.Duration) {
	if past := now.Sub(l.at); past > 0 {
		l.used = time.Duration(float64(l.used) * math.Exp2(-float64(past)/float64(forgotten)))
		l.at = now
	}
}

func (t *turns) unqueue(who *taker, k kind, i int) {
	if who.queue[k][i].asks {
		t.asking--
		who.asking--
	}
	who.queue[k] = slices.Delete(who.queue[k], i, i+1)
	if len(who.queue[k]) == 0 {
		delete(t.queued[k], who)
	}
}

// grant gives the free slots to the next waiters, beginning with the kind after
// that of the last slot.
func (t *turns) grant() {
	most := turnsAtATime()
	for i := kind(1); i <= kinds && t.taken[telling]+t.taken[asking]+t.taken[judging] <= most; i++ {
		k := (t.last + i) % kinds
		if t.taken[k] >= most || len(t.queued[k]) == 0 {
			continue
		}
		who := t.following(k)
		w := who.queue[k][0]
		t.all.age(time.Now(), forgottenAll)
		w.paced = t.all.used > undivided
		t.unqueue(who, k, 0)
		who.taken++
		t.taken[k]++
		close(w.granted)
		t.last, i = k, 0
	}
}

// following returns the address whose waiter is next.
func (t *turns) following(k kind) (next *taker) {
	now := time.Now()
	for who := range t.queued[k] {
		if who.age(now, forgotten); next == nil || who.before(next, k) {
			next = who
		}
	}
	return next
}

func (who *taker) before(other *taker, k kind) bool {
	if who.taken != other.taken {
		return who.taken < other.taken
	}
	if who.used != other.used {
		return who.used < other.used
	}
	return who.queue[k][0].number < other.queue[k][0].number
}

func (t *turns) release(turn *turn) {
	turn.held = false
	now := time.Now()
	took := now.Sub(turn.since) - turn.paused
	turn.spent += took
	turn.who.age(now, forgotten)
	turn.who.used += took
	t.all.age(now, forgottenAll)
	t.all.used += took
	turn.who.taken--
	t.taken[turn.kind]--
	t.grant()
}

// leave releases the slot, if it is held.
func (t *turn) leave() {
	if t == nil || !t.held {
		return
	}
	t.breathe()
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.release(t)
}

// over reports whether the slot has lasted for turnTime. A nil turn is never
// over. Call it after each step of work.
func (t *turn) over() bool {
	if t == nil {
		return false
	}
	t.breathe()
	return time.Since(t.since) >= turnTime
}

// breathe pauses if that is due. So cheap requests need not wait until Go's
// scheduler, or the system's, takes the processor away from this goroutine.
func (t *turn) breathe() {
	begun := time.Now()
	owed := begun.Sub(t.since) - 2*t.paused
	if !t.paced || owed < stint {
		return
	}
	time.Sleep(min(owed, turnTime))
	t.paused += time.Since(begun)
}

// worked returns the time spent on work while the slot is held: waits and
// pauses do not count.
func (t *turn) worked() time.Duration { return t.spent + time.Since(t.since) - t.paused }

// rest waits for a new slot, if this one is over. After an error no slot is held.
func (t *turn) rest(ctx context.Context) error {
	if !t.over() {
		return nil
	}
	if !t.end.IsZero() && time.Now().After(t.end) {
		t.leave()
		return errBusy
	}
	t.of.mu.Lock()
	t.of.release(t)
	return t.of.await(ctx, t) // unlocks
}
