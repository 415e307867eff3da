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

// turns are the times at which somebody makes the site work: half of the
// processors are left to those who ask for less. Where there is but one, or
// others want it too, that would not be enough: once the site has worked for a
// while, turns pause as long as they work, in small steps.
//
// Who waits is served by address, those first who have had the least of late:
// one that asks for much waits for itself, and whoever asks for little waits
// for the turn that is being taken, however many others there are. An address
// has one turn at a time while others wait. What is told as it happens, what
// is asked for, and what is judged by expressions, come in rotation where there
// is no room for all: none waits for more than a turn of each of the others.
//
// The zero turns is ready, for many goroutines at once.
type turns struct {
	mu     sync.Mutex
	taken  [kinds]int
	byAddr map[string]*taker
	queued [kinds]map[*taker]struct{} // those for whom somebody waits
	asking int                        // who wait for what they ask for, in all
	last   kind                       // of the turn that was granted last
	all    load                       // of all addresses
	failed load                       // of refusing what is too much
	came   uint64                     // how many have waited so far
	sweep  int                        // byAddr is tidied when it holds more
}

// A kind says what a turn is for.
type kind int

const (
	telling kind = iota // what happens, to whoever listens
	asking              // an answer
	judging             // either, where an expression is evaluated: it may cost a thousand times as much
	kinds
)

const (
	// turnTime is about how long a turn is: a message ends, and an answer waits
	// for its next turn, when that is over.
	turnTime = 20 * time.Millisecond

	// mostAsking and mostAskingEach bound those who wait for an answer, in all
	// and of one address.
	mostAsking, mostAskingEach = 1000, 8

	// forgotten is after how long half of what an address has had is forgotten,
	// and forgottenAll of what all have had together.
	forgotten, forgottenAll = time.Second, 4 * time.Second

	// Beyond so much work of late, such as that of a bundle of some thousand pages,
	// a turn pauses after each stint for as long as it worked, at most turnTime.
	undivided = time.Second
	stint     = 500 * time.Microsecond

	// Refusing whoever asks too much is work as well, at least so much each time.
	// Beyond undivided of it, or of other work, who is refused is kept for about the time of brake:
	// whoever asks again at once would be refused thousands of times a second.
	brake    = time.Second
	refusing = 5 * time.Millisecond
)

var (
	// errBusy is that others have made the site work for too long.
	errBusy = errors.New("too much is asked for at the moment")

	// errCrowd is that too many of one address wait.
	errCrowd = errors.New("too much is asked for at a time from one address")
)

// A taker is an address that takes turns. The empty one is of those whom
// nothing tells apart; for it no bound of its own holds, see clientAddress.
type taker struct {
	load
	addr   string
	taken  int
	asking int // that wait for what they ask for
	queue  [kinds][]*waiter
}

// A load is how much work there was of late, as of a moment.
type load struct {
	used time.Duration
	at   time.Time
}

// A waiter waits for a turn, until granted is closed.
type waiter struct {
	granted chan struct{}
	number  uint64
	asks    bool
	paced   bool // set before granted is closed
}

// turn waits for a turn of whoever asks by a selection, which gives up after
// mostWork. An answer that has begun waits without end.
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

// A turn lasts until leave is called. One goroutine uses it.
type turn struct {
	of    *turns
	who   *taker
	kind  kind
	asks  bool          // it counts among those who wait for what they ask for
	wait  time.Duration // for how long it is waited for at most; zero: without end
	held  bool
	since time.Time
	spent time.Duration // of work, before since
	end   time.Time     // when it gives up for good; zero: never

	paced  bool
	paused time.Duration // since since
}

// turnsAtATime is how many of one kind there may be at the same time; of all, one more.
func turnsAtATime() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// take waits for a turn of an address, for wait at most if that is not zero.
// The error is errBusy then. Of those who ask there may wait so many: beyond that it is
// errCrowd if they are of the address, and else errBusy.
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

// refused keeps somebody who is about to be refused for asking too much, if that is due.
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

// taker, and what follows, is called with mu held.
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

// tidy forgets the addresses that have asked for nothing for a while.
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

// age forgets half of what was so long ago.
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

// grant gives the turns that are there to whoever comes next, beginning with
// the kind after that of the last one.
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

// following returns who comes next.
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

// leave ends the turn, if it has not ended.
func (t *turn) leave() {
	if t == nil || !t.held {
		return
	}
	t.breathe()
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.release(t)
}

// over reports whether the turn has lasted for as long as it should. No turn is
// never over. It is to be asked after each step.
func (t *turn) over() bool {
	if t == nil {
		return false
	}
	t.breathe()
	return time.Since(t.since) >= turnTime
}

// breathe pauses if that is due. So whoever asks for little need not wait until
// Go's scheduler, or the system's, takes the processor away from this one.
func (t *turn) breathe() {
	begun := time.Now()
	owed := begun.Sub(t.since) - 2*t.paused
	if !t.paced || owed < stint {
		return
	}
	time.Sleep(min(owed, turnTime))
	t.paused += time.Since(begun)
}

// worked returns how much work was done in a turn that has not ended: waits and
// pauses are none.
func (t *turn) worked() time.Duration { return t.spent + time.Since(t.since) - t.paused }

// rest lets others have their turn, if this one is over. On an error it has ended.
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
