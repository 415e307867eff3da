package evidence

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// Intervals between requests for a page, as fractions of Keeper.For, a day by default.
const (
	renewPart   = 2    // a public page is fetched again before its evidence expires
	againPart   = 24   // a refused page, or one with other bytes
	unknownPart = 144  // a page without a response
	massEvery   = 1440 // while many are refused: the check whether they still are
)

// saveEvery is the interval at which records are saved.
const saveEvery = time.Second

// Run fetches pages until ctx ends, and returns the error that ended it.
func (k *Keeper) Run(ctx context.Context) error {
	if k.Rate <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var owned sync.WaitGroup
	own := func(run func(context.Context) error) {
		owned.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	}
	slow := make(chan job)
	for range atOnce {
		own(func(ctx context.Context) error { k.work(ctx, slow); return nil })
	}
	own(k.postponed)
	own(func(ctx context.Context) error { return k.walk(ctx, slow) })
	own(k.doubting)
	own(k.follow)
	own(func(ctx context.Context) error {
		for pause.For(ctx, k.hurry(saveEvery)) {
			if err := k.book.save(); err != nil {
				return err
			}
		}
		return nil
	})
	if k.book.doubtful() {
		pause.Wake(k.todo.doubts)
	}
	<-ctx.Done()
	owned.Wait()
	k.stranger.http.CloseIdleConnections()
	if err := k.book.save(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Once fetches all pages whose evidence is old, as Run does in a round, and returns
// when all requests have ended. It reports whether the set of refused pages has
// changed, so that the site must be scanned again.
func (k *Keeper) Once(ctx context.Context) (changed bool, err error) {
	if k.Rate <= 0 {
		return false, nil
	}
	defer k.stranger.http.CloseIdleConnections()
	pace := time.NewTicker(k.pace())
	defer pace.Stop()
	turn := make(chan struct{}, atOnce)
	err = k.round(ctx, func(j job) bool {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
		turn <- struct{}{}
		k.rounds.flying.Go(func() { k.do(ctx, j); <-turn })
		return true
	})
	k.rounds.flying.Wait()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return false, err
	}
	mass := k.book.many(0)
	if k.book.do(func() { k.book.mass.is = mass }); !mass {
		err = k.release()
	}
	return len(k.todo.news) > 0, errors.Join(err, k.book.save())
}

// follow reads the journal, so that deleted pages do not count as public.
func (k *Keeper) follow(ctx context.Context) error {
	if k.Journal.Wait(ctx, protocol.Cursor{}) != nil { // until the journal has a head
		return nil
	}
	for at := k.Journal.Head(); k.Journal.Wait(ctx, at) == nil; {
		changes, err := k.Journal.Read(ctx, at, 0)
		if err != nil { // another epoch has begun, or the changes are no longer stored: counts may be too high until the next start
			at = k.Journal.Head()
			continue
		}
		for _, c := range changes {
			k.book.apply(c)
			at.Seq = c.Seq
		}
	}
	return nil
}

// work fetches one page after the other, the urgent ones first.
func (k *Keeper) work(ctx context.Context, slow <-chan job) {
	for ctx.Err() == nil {
		if j, ok := k.todo.next(); ok {
			k.do(ctx, j)
			continue
		}
		select {
		case <-k.todo.wake:
		case j := <-slow:
			k.do(ctx, j)
			k.rounds.flying.Done()
		case <-ctx.Done():
		}
	}
}

// postponed makes postponed pages urgent when they are due.
func (k *Keeper) postponed(ctx context.Context) error {
	for {
		wait := time.Hour
		if next := k.todo.due(time.Now()); !next.IsZero() {
			wait = time.Until(next)
		}
		t := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-t.C:
		case <-k.todo.timer:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}
