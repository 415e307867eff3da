package server

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// turns are the times at which somebody makes the site work: half of the
// processors are left to those who ask for less.
//
// Who waits is served by address, those first who have had the least of late:
// one that asks for much waits for itself, and whoever asks for little waits
// for the turn that is being taken, however many others there are. An address
// has one turn at a time while others wait. What is told as it happens and what
// is asked for have room of their own, so that neither waits for the other.
//
// The zero turns is ready, for many goroutines at once.
type turns struct {
	mu     sync.Mutex
	taken  [kinds]int
	byAddr map[string]*taker
	queued [kinds]map[*taker]struct{} // those for whom somebody waits
	asking int                        // who wait for what they ask for, in all
	came   uint64                     // how many have waited so far
	sweep  int                        // byAddr is tidied when it holds more
}

// A kind says what a turn is for.
type kind int

const (
	telling kind = iota // what happens, to whoever listens
	asking              // an answer
	kinds
)

const (
	// turnTime is about how long a turn is: a message ends, and an answer waits
	// for its next turn, when that is over.
	turnTime = 20 * time.Millisecond

	// mostAsking and mostAskingEach bound those who wait for an answer, in all
	// and of one address.
	mostAsking, mostAskingEach = 1000, 8

	// brake is for how long somebody is kept who is refused for asking too much
	// at a time: else whoever asks again at once is refused thousands of times
	// a second, which is work as well.
	brake = time.Second

	// forgotten is after how long half of what an address has had is forgotten.
	forgotten = time.Second
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
	addr  string
	used  time.Duration // of late, as of at
	at    time.Time
	taken int
	queue [kinds][]*waiter
}

// A waiter waits for a turn, until granted is closed.
type waiter struct {
	granted chan struct{}
	number  uint64
}

// turn waits for a turn of whoever asks by a selection, which is not to last
// for more than mostWork. An answer that has begun waits without end.
func (n *Notifier) turn(ctx context.Context, s *selection, begun bool) (*turn, error) {
	if begun {
		return n.turns.take(ctx, s.addr, asking, 0, true)
	}
	k := asking
	if s.listens {
		k = telling
	}
	end := time.Now().Add(mostWork - n.writeWait()/4)
	t, err := n.turns.take(ctx, s.addr, k, n.writeWait()/4, false)
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
	wait  time.Duration // for how long it is waited for at most; zero: without end
	held  bool
	since time.Time
	spent time.Duration // before since
	end   time.Time     // when it gives up for good; zero: never
}

// turnsAtATime is how many of one kind there may be at the same time; and one more of the other.
func turnsAtATime() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// take waits for a turn of an address, for wait at most if that is not zero.
// The error is errBusy then, and errCrowd if too many of the address wait for
// answers; an answer that is under way, going, is not counted among them.
func (t *turns) take(ctx context.Context, addr string, k kind, wait time.Duration, going bool) (*turn, error) {
	t.mu.Lock()
	who := t.taker(addr)
	if k == asking && !going {
		crowd := addr != "" && len(who.queue[k]) >= mostAskingEach
		if crowd || t.asking >= mostAsking {
			t.mu.Unlock()
			return nil, braked(ctx, crowd)
		}
	}
	turn := &turn{of: t, who: who, kind: k, wait: wait}
	err := t.await(ctx, turn) // unlocks
	if err != nil {
		return nil, err
	}
	return turn, nil
}

// braked returns why somebody is refused, not at once.
func braked(ctx context.Context, crowd bool) error {
	end := time.NewTimer(brake)
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if crowd {
		return errCrowd
	}
	return errBusy
}

// await is called with mu held, and releases it.
func (t *turns) await(ctx context.Context, turn *turn) error {
	who, k := turn.who, turn.kind
	w := &waiter{granted: make(chan struct{}), number: t.came}
	t.came++
	who.queue[k] = append(who.queue[k], w)
	if k == asking {
		t.asking++
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
	if err == nil {
		turn.held = true
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
		who = &taker{addr: addr, at: time.Now()}
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
		if who.taken == 0 && len(who.queue[telling])+len(who.queue[asking]) == 0 && now.Sub(who.at) > 10*forgotten {
			delete(t.byAddr, addr)
		}
	}
	t.sweep = 2*len(t.byAddr) + 100
}

// age forgets what an address had long ago.
func (who *taker) age(now time.Time) {
	if past := now.Sub(who.at); past > 0 {
		who.used = time.Duration(float64(who.used) * math.Exp2(-float64(past)/float64(forgotten)))
		who.at = now
	}
}

func (t *turns) unqueue(who *taker, k kind, i int) {
	who.queue[k] = slices.Delete(who.queue[k], i, i+1)
	if len(who.queue[k]) == 0 {
		delete(t.queued[k], who)
	}
	if k == asking {
		t.asking--
	}
}

// grant gives the turns that are there to whoever comes next.
func (t *turns) grant() {
	most := turnsAtATime()
	for k := range kinds {
		for t.taken[k] < most && t.taken[telling]+t.taken[asking] <= most && len(t.queued[k]) > 0 {
			who := t.following(k)
			w := who.queue[k][0]
			t.unqueue(who, k, 0)
			who.taken++
			t.taken[k]++
			close(w.granted)
		}
	}
}

// following returns who comes next.
func (t *turns) following(k kind) (next *taker) {
	now := time.Now()
	for who := range t.queued[k] {
		if who.age(now); next == nil || who.before(next, k) {
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
	took := now.Sub(turn.since)
	turn.spent += took
	turn.who.age(now)
	turn.who.used += took
	turn.who.taken--
	t.taken[turn.kind]--
	t.grant()
}

// leave ends the turn, if it has not ended.
func (t *turn) leave() {
	if t == nil || !t.held {
		return
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.release(t)
}

// over reports whether the turn has lasted for as long as it should. No turn is never over.
func (t *turn) over() bool { return t != nil && time.Since(t.since) >= turnTime }

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
