// Package limit divides what clients share: the CPU among addresses, and the requests in progress.
package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/web"
)

// Slots hands out slots: permission to use the CPU. Slots leave half of the processors
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
// Two semaphores in their place are too little: docs/schemes.md has the comparison.
//
// The zero Slots is ready to use, by many goroutines at once.
type Slots struct {
	mu      sync.Mutex
	held    [kinds]int
	byAddr  map[string]*holder
	queued  [kinds]map[*holder]struct{} // addresses with a waiter
	waiting int                         // waiters that count against maxWaiting
	last    Kind                        // of the slot that was granted last
	all     load                        // of all addresses
	failed  load                        // load of rejecting requests over a limit
	came    uint64                      // number of waiters so far
	sweep   int                         // byAddr is tidied when it holds more
}

// A Kind is the purpose of a slot.
type Kind int

const (
	Delivering Kind = iota // delivery to subscribers
	Answering              // an answer to a request
	Evaluating             // either of these with an expression, which may cost a thousand times as much
	kinds
)

const (
	// slotTime is about how long a slot lasts: after it a message ends, and an
	// answer waits for its next slot.
	slotTime = 20 * time.Millisecond

	// maxWaiting and maxWaitingEach bound the requests that wait for a slot, in all
	// and from one address.
	maxWaiting, maxWaitingEach = 1000, 8

	// forgotten is the half-life of an address's load, and forgottenAll that of
	// the load of all addresses together.
	forgotten, forgottenAll = time.Second, 4 * time.Second

	// After so much recent work (that of a bundle of some thousand pages, say) a
	// slot's holder pauses after each stint for as long as it worked, at most slotTime.
	undivided = time.Second
	stint     = 500 * time.Microsecond

	// A rejection counts as this much work, at least. After undivided of rejections, or of
	// other work, a rejection is delayed by about brake: a client that retries at once
	// would be rejected thousands of times a second.
	brake    = time.Second
	refusing = 5 * time.Millisecond
)

var (
	// ErrBusy says that other work kept the site busy for too long.
	ErrBusy = errors.New("the site is busy with other requests")

	// ErrAddressBusy says that too many requests of one address wait.
	ErrAddressBusy = errors.New("too many requests from one address are waiting")
)

// Busy is the answer to a request that waited in vain for a slot: behind other clients'
// requests (ErrBusy) or its own address's (ErrAddressBusy).
func Busy(err error) *web.Problem {
	p := &web.Problem{Type: web.TypeLimit, Title: "too many requests at a time", Status: http.StatusServiceUnavailable,
		Detail: "the site is busy with other requests: try again later", Retry: 2 * time.Second}
	if errors.Is(err, ErrAddressBusy) {
		p.Status = http.StatusTooManyRequests
		p.Detail = fmt.Sprintf("%d requests from your address are waiting: send one at a time", maxWaitingEach)
	}
	return p
}

// A holder is an address that holds or awaits slots. The empty address stands for all clients that
// cannot be told apart; no per-address bound applies to it, see caller.Proxies.
type holder struct {
	load
	addr    string
	held    int
	waiting int // its waiters that count against maxWaitingEach
	queue   [kinds][]*waiter
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
	counts  bool
	paced   bool // set before granted is closed
}

// A Slot is a slot, held until Release is called. One goroutine uses it.
type Slot struct {
	of     *Slots
	by     *holder
	kind   Kind
	counts bool          // it counts against maxWaiting while it waits
	wait   time.Duration // the longest wait for it; zero: no limit
	held   bool
	since  time.Time
	spent  time.Duration // of work, before since
	End    time.Time     // after which Renew returns ErrBusy; zero: never

	paced  bool
	paused time.Duration // in pauses after since
}

// atATime is the number of slots of one kind; of all kinds together there is one more.
func atATime() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// Acquire waits for a slot of an address, for wait at most if that is not zero; then the
// error is ErrBusy. With counts, the number of waiters is bounded: beyond the bound of the
// address the error is ErrAddressBusy, beyond that of all ErrBusy.
func (t *Slots) Acquire(ctx context.Context, addr string, k Kind, wait time.Duration, counts bool) (*Slot, error) {
	t.mu.Lock()
	who := t.holder(addr)
	if crowd := addr != "" && who.waiting >= maxWaitingEach; counts && (crowd || t.waiting >= maxWaiting) {
		t.mu.Unlock()
		if crowd {
			return nil, ErrAddressBusy
		}
		return nil, ErrBusy
	}
	slot := &Slot{of: t, by: who, kind: k, wait: wait, counts: counts}
	if err := t.await(ctx, slot); err != nil { // unlocks
		return nil, err
	}
	return slot, nil
}

// DelayRejection delays a request that is about to be rejected for a limit, if that is due.
func (t *Slots) DelayRejection(ctx context.Context) {
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
func (t *Slots) await(ctx context.Context, slot *Slot) error {
	who, k := slot.by, slot.kind
	w := &waiter{granted: make(chan struct{}), number: t.came, counts: slot.counts}
	t.came++
	who.queue[k] = append(who.queue[k], w)
	if w.counts {
		t.waiting++
		who.waiting++
	}
	if t.queued[k] == nil {
		t.queued[k] = make(map[*holder]struct{})
	}
	t.queued[k][who] = struct{}{}
	t.grant()
	t.mu.Unlock()
	var late <-chan time.Time
	if slot.wait > 0 {
		timer := time.NewTimer(slot.wait)
		defer timer.Stop()
		late = timer.C
	}
	err := error(nil)
	select {
	case <-w.granted:
	case <-late:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	slot.since = time.Now()
	slot.paused = 0
	if err == nil {
		slot.held, slot.paced = true, w.paced
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(who.queue[k], w); i >= 0 {
		t.unqueue(who, k, i)
	} else {
		t.release(slot) // it was granted meanwhile
	}
	return err
}

// holder, and the methods of Slots below it, are called with mu held.
func (t *Slots) holder(addr string) *holder {
	who := t.byAddr[addr]
	if who == nil {
		t.tidy()
		if t.byAddr == nil {
			t.byAddr = make(map[string]*holder)
		}
		who = &holder{addr: addr, load: load{at: time.Now()}}
		t.byAddr[addr] = who
	}
	return who
}

// tidy forgets the addresses that have had no work for a while.
func (t *Slots) tidy() {
	if len(t.byAddr) < t.sweep {
		return
	}
	now := time.Now()
	for addr, who := range t.byAddr {
		if who.held == 0 && !slices.ContainsFunc(who.queue[:], func(q []*waiter) bool { return len(q) > 0 }) && now.Sub(who.at) > 10*forgotten {
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

func (t *Slots) unqueue(who *holder, k Kind, i int) {
	if who.queue[k][i].counts {
		t.waiting--
		who.waiting--
	}
	who.queue[k] = slices.Delete(who.queue[k], i, i+1)
	if len(who.queue[k]) == 0 {
		delete(t.queued[k], who)
	}
}

// grant gives the free slots to the next waiters, beginning with the kind after
// that of the last slot.
func (t *Slots) grant() {
	most := atATime()
	for i := Kind(1); i <= kinds && t.held[Delivering]+t.held[Answering]+t.held[Evaluating] <= most; i++ {
		k := (t.last + i) % kinds
		if t.held[k] >= most || len(t.queued[k]) == 0 {
			continue
		}
		who := t.following(k)
		w := who.queue[k][0]
		t.all.age(time.Now(), forgottenAll)
		w.paced = t.all.used > undivided
		t.unqueue(who, k, 0)
		who.held++
		t.held[k]++
		close(w.granted)
		t.last, i = k, 0
	}
}

// following returns the address whose waiter is next.
func (t *Slots) following(k Kind) (next *holder) {
	now := time.Now()
	for who := range t.queued[k] {
		if who.age(now, forgotten); next == nil || who.before(next, k) {
			next = who
		}
	}
	return next
}

func (who *holder) before(other *holder, k Kind) bool {
	if who.held != other.held {
		return who.held < other.held
	}
	if who.used != other.used {
		return who.used < other.used
	}
	return who.queue[k][0].number < other.queue[k][0].number
}

func (t *Slots) release(slot *Slot) {
	slot.held = false
	now := time.Now()
	took := now.Sub(slot.since) - slot.paused
	slot.spent += took
	slot.by.age(now, forgotten)
	slot.by.used += took
	t.all.age(now, forgottenAll)
	t.all.used += took
	slot.by.held--
	t.held[slot.kind]--
	t.grant()
}

// Release releases the slot, if it is held.
func (t *Slot) Release() {
	if t == nil || !t.held {
		return
	}
	t.pause()
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.release(t)
}

// IsOver reports whether the slot has lasted for slotTime. A nil Slot is never
// over. Call it after each step of work.
func (t *Slot) IsOver() bool {
	if t == nil {
		return false
	}
	t.pause()
	return time.Since(t.since) >= slotTime
}

// pause pauses if that is due. So cheap requests need not wait until Go's
// scheduler, or the system's, takes the processor away from this goroutine.
func (t *Slot) pause() {
	begun := time.Now()
	owed := begun.Sub(t.since) - 2*t.paused
	if !t.paced || owed < stint {
		return
	}
	time.Sleep(min(owed, slotTime))
	t.paused += time.Since(begun)
}

// Worked returns the time spent on work while the slot is held: waits and
// pauses do not count.
func (t *Slot) Worked() time.Duration { return t.spent + time.Since(t.since) - t.paused }

// Renew waits for a new slot, if this one is over. After an error no slot is held.
func (t *Slot) Renew(ctx context.Context) error {
	if !t.IsOver() {
		return nil
	}
	if !t.End.IsZero() && time.Now().After(t.End) {
		t.Release()
		return ErrBusy
	}
	t.of.mu.Lock()
	t.of.release(t)
	return t.of.await(ctx, t) // unlocks
}
