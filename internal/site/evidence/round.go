package evidence

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// pace returns the interval between two requests of a round. It is longer with Meta,
// since no reader then waits for the evidence, unless a recheck was requested.
func (k *Keeper) pace() time.Duration {
	rate := k.Rate
	k.mu.Lock()
	hurry := !k.since.IsZero() || k.Hurry > 0
	k.mu.Unlock()
	if k.Meta && !hurry {
		rate = min(rate, max(metaRate, float64(k.Journal.Len())/metaRound.Seconds()))
	}
	return max(1, time.Duration(float64(time.Second)/rate))
}

const (
	metaRate  = 5 // requests a second, at least, unless Rate is less
	metaRound = 30 * time.Minute
)

// rounds walks over all pages again and again, and fetches those whose evidence is
// old, or whose bytes a reader has requested.
func (k *Keeper) rounds(ctx context.Context, slow chan<- job) error {
	pace := time.NewTicker(k.pace())
	defer pace.Stop()
	send := func(j job) bool {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
		k.flying.Add(1)
		select {
		case slow <- j:
		case <-ctx.Done():
			k.flying.Done()
			return false
		}
		return true
	}
	for {
		pace.Reset(k.pace())
		k.mu.Lock()
		meant := k.meant // accepted before this round began
		k.mu.Unlock()
		if err := k.round(ctx, send); err != nil {
			return err
		}
		if meant {
			k.mu.Lock()
			k.meant, k.lately = false, 0
			k.mu.Unlock()
		}
		t := time.NewTimer(k.hurry(k.good() / unknownPart))
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
		if r := k.record(page); ok && e.Held.IsZero() && k.now().Sub(r.Asked) > k.good()/unknownPart && !ask(job{page: page, want: e.Item.Digest, length: e.Item.Length}) {
			return nil
		}
	}
	return nil
}

const (
	roundPages = 256 // pages looked up at once

	// mostUnanswered requests in a row without a response end a round.
	mostUnanswered = 20

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
	k.mu.Lock()
	first := k.public == 0
	k.silent, k.said, k.last = 0, 0, Round{Began: k.now()}
	withdrawn := slices.Sorted(maps.Keys(k.refused))
	withdrawn = append(withdrawn, slices.Sorted(maps.Keys(k.suspect))...)
	k.mu.Unlock()
	ask := func(j job) bool {
		if !send(j) {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.last.Asked++
		return k.silent < mostUnanswered
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.last.Done && k.silent >= mostUnanswered {
			k.log().Info("the web server does not respond: anonymous fetches continue later", "asked", k.last.Asked)
			k.last.Done = true
		}
		if k.last.Done {
			k.settleOnce.Do(func() { close(k.settled) })
		}
	}()
	said := k.now()
	for _, page := range withdrawn {
		if r := k.record(page); k.isDue(&r, protocol.Digest{}) && !ask(job{page: page, length: -1}) {
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
			if r := k.record(j.page); k.isDue(&r, j.want) && !ask(j) {
				return nil
			}
			done++
		}
		if first && (!more || k.now().Sub(said) > progressEvery) {
			said = k.now()
			k.log().Info("fetching pages anonymously to learn which are public", "asked", done, "of", k.Journal.Len())
		}
	}
	k.flying.Wait()
	k.mu.Lock()
	k.last.Done = true
	k.mu.Unlock()
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
	k.mu.Lock()
	since := k.since
	k.mu.Unlock()
	if r.Asked.IsZero() || r.Asked.Before(since) {
		return true
	}
	age, good := k.now().Sub(r.Asked), k.good()
	switch r.State {
	case statePublic:
		if d.IsZero() || k.Meta || r.has(d, k.now().Add(-good/renewPart)) {
			return age > good/renewPart
		}
		return age > k.hurry(good/unknownPart)
	case stateUnknown:
		return age > k.hurry(good/unknownPart)
	}
	return age > k.hurry(good/againPart) || age < 0
}
