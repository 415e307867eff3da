package evidence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// rounds are the walks over all pages. Their methods may be called by many goroutines at once.
type rounds struct {
	flying  sync.WaitGroup // requests in flight
	settled chan struct{}  // closed after the first round
	settle  sync.Once

	said   atomic.Int64 // pages of the last round logged as withheld
	silent atomic.Int64 // requests without a response, in a row
	failed atomic.Int64 // requests without a response, in this round

	mu    sync.Mutex // guards the fields below
	last  Round
	since time.Time     // pages fetched before this are due again
	again time.Duration // until the next round, after one without any response, and until all pages have one; else 0
}

// A Round is one walk over all pages that fetches those whose evidence is old.
type Round struct {
	Began time.Time `json:"began"`
	Asked int       `json:"asked"`
	Done  bool      `json:"done"`
}

func (r *rounds) begin() {
	r.silent.Store(0)
	r.failed.Store(0)
	r.said.Store(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = Round{Began: time.Now()}
}

// asked counts a request, and returns false if too many have had no response.
func (r *rounds) asked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Asked++
	return r.silent.Load() < mostUnanswered
}

// end ends a round, of all pages or not. It returns the number of requests, and whether they had no response.
func (r *rounds) end(all bool) (asked int, silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int(r.silent.Load())
	switch {
	case r.last.Asked == 0 || r.failed.Load() == 0:
		r.again = 0
	case r.again > 0 || n >= min(r.last.Asked, mostUnanswered):
		r.again = max(silentAgain, min(2*r.again, time.Hour))
	}
	silent = !all && n >= mostUnanswered
	if r.last.Done = all || silent; r.last.Done {
		r.settle.Do(func() { close(r.settled) })
	}
	return r.last.Asked, silent
}

// anew makes all pages due.
func (r *rounds) anew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

// quiet returns the time until the next round after one without any response, else 0: it comes soon, and fetches all pages that have
// had none, since a web server may be started after the notifier.
func (r *rounds) quiet() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.again
}

// now returns the last round, and since when all pages are due.
func (r *rounds) now() (last Round, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.since
}

// pace returns the interval between two requests of a round. It is longer with Meta,
// since no reader then waits for the evidence, unless a recheck was requested.
func (k *Keeper) pace() time.Duration {
	rate := k.Rate
	if _, since := k.rounds.now(); k.Meta && k.Hurry <= 0 && since.IsZero() {
		rate = min(rate, max(metaRate, float64(k.Journal.Len())/metaRound.Seconds()))
	}
	return max(1, time.Duration(float64(time.Second)/rate))
}

const (
	metaRate  = 5 // requests a second, at least, unless Rate is less
	metaRound = 30 * time.Minute
)

// walk walks over all pages again and again, and fetches those whose evidence is
// old, or whose bytes a reader has requested.
func (k *Keeper) walk(ctx context.Context, slow chan<- job) error {
	pace := time.NewTicker(k.pace())
	defer pace.Stop()
	send := func(j job) bool {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
		k.rounds.flying.Add(1)
		select {
		case slow <- j:
		case <-ctx.Done():
			k.rounds.flying.Done()
			return false
		}
		return true
	}
	for {
		pace.Reset(k.pace())
		meant := k.isMeant() // accepted before this round began
		if err := k.round(ctx, send); err != nil {
			return err
		}
		if meant {
			k.book.do(func() { k.book.mass.meant, k.book.mass.lately = false, 0 })
		}
		wait := k.good() / unknownPart
		if again := k.rounds.quiet(); again > 0 {
			wait = min(wait, again)
		}
		t := time.NewTimer(k.hurry(wait))
		for rest := true; rest; {
			select {
			case <-t.C:
				rest = false
			case <-k.todo.round:
				rest = false
			case <-k.todo.wants:
				if err := k.askWanted(send); err != nil {
					return err
				}
			case <-ctx.Done():
				t.Stop()
				return nil
			}
		}
		t.Stop()
	}
}

// askWanted fetches the pages whose bytes readers have requested, unless they were fetched lately.
func (k *Keeper) askWanted(ask func(job) bool) error {
	for _, page := range k.todo.takeWanted() {
		e, ok, err := k.Journal.Get(page)
		if err != nil {
			return err
		}
		if r := k.book.record(page); ok && e.Held.IsZero() && time.Since(r.Asked) > k.good()/unknownPart && !ask(job{page: page, want: e.Item.Digest, length: e.Item.Length}) {
			return nil
		}
	}
	return nil
}

const (
	roundPages = 256 // pages looked up at once

	// mostUnanswered requests in a row without a response end a round.
	mostUnanswered = 20

	// silentAgain is the time from a round without any response to the next one. It doubles until all pages have one.
	silentAgain = time.Second

	// progressEvery is the interval at which the progress of a first round is logged.
	progressEvery = 10 * time.Second
)

// round walks over all pages once.
func (k *Keeper) round(ctx context.Context, send func(job) bool) error {
	if err := k.Journal.Wait(ctx, protocol.Cursor{}); err != nil { // until the journal has a head
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	first, all := k.Status().Public == 0, false
	k.rounds.begin()
	withdrawn := append(k.book.pages(k.book.refused), k.book.pages(k.book.suspect)...)
	ask := func(j job) bool { return send(j) && k.rounds.asked() }
	defer func() {
		if asked, silent := k.rounds.end(all); silent {
			k.log().Info("the web server does not respond: anonymous fetches continue later", "asked", asked)
		}
	}()
	said := time.Now()
	for _, page := range withdrawn {
		if r := k.book.record(page); k.isDue(&r, protocol.Digest{}) && !ask(job{page: page, length: -1}) {
			return nil
		}
	}
	done := 0
	for after, more := "", true; more; {
		if err := k.askWanted(ask); err != nil {
			return err
		}
		var some []job
		var err error
		if some, after, more, err = k.some(after); err != nil {
			return err
		}
		for _, j := range some {
			if r := k.book.record(j.page); k.isDue(&r, j.want) && !ask(j) {
				return nil
			}
			done++
		}
		if first && (!more || time.Since(said) > progressEvery) {
			said = time.Now()
			k.log().Info("fetching pages anonymously to learn which are public", "asked", done, "of", k.Journal.Len())
		}
	}
	k.rounds.flying.Wait()
	all = true
	k.book.dropGone(k.good())
	if s := k.Status(); s.Inside != "" && !s.Trusted && !k.Meta {
		k.log().Warn("no page contents are delivered, although they are offered: " + s.String())
	}
	return nil
}

// some returns the next pages after a URL, at most roundPages.
func (k *Keeper) some(after string) (list []job, last string, more bool, err error) {
	v, err := k.Journal.View()
	if err != nil {
		return nil, "", false, err
	}
	defer v.Close()
	r := v.Reader("", true, after)
	for n := 0; n < roundPages; n++ {
		e, ok, err := r.Next()
		if err != nil || !ok {
			return list, after, false, err
		}
		if after = e.Item.URL; e.Held.IsZero() {
			list = append(list, job{page: e.Item.URL, want: e.Item.Digest, length: e.Item.Length})
		}
	}
	return list, after, true, nil
}

// isDue reports whether a page, whose current bytes have digest d, is to be fetched again.
func (k *Keeper) isDue(r *record, d protocol.Digest) bool {
	if _, since := k.rounds.now(); r.Asked.IsZero() || r.Asked.Before(since) {
		return true
	}
	now := time.Now()
	age, good := now.Sub(r.Asked), k.good()
	switch r.State {
	case statePublic:
		if d.IsZero() || k.Meta || r.has(d, now.Add(-good/renewPart)) {
			return age > good/renewPart
		}
		return age > k.hurry(good/unknownPart)
	case stateUnknown:
		return age > k.hurry(good/unknownPart) || k.rounds.quiet() > 0
	}
	return age > k.hurry(good/againPart) || age < 0
}
