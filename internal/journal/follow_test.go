package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// waiting starts a Wait, and returns what says whether and how it has ended.
// It is for use in a bubble of synctest.
func waiting(ctx context.Context, j *journal.Journal, after protocol.Cursor) func() (bool, error) {
	var done bool
	var err error
	go func() {
		err = j.Wait(ctx, after)
		done = true
	}()
	return func() (bool, error) {
		synctest.Wait()
		return done, err
	}
}

func still(t *testing.T, what string, w func() (bool, error)) {
	t.Helper()
	if done, err := w(); done {
		t.Errorf("%s: Wait has returned %v", what, err)
	}
}

func ended(t *testing.T, what string, w func() (bool, error), want error) {
	t.Helper()
	if done, err := w(); !done || !errors.Is(err, want) {
		t.Errorf("%s: ended %v with %v, want %v", what, done, err, want)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		j := open(t, filepath.Join(t.TempDir(), "journal"), nil)

		// While the first description is incomplete there is nothing to report.
		w1, w2 := waiting(ctx, j, protocol.Cursor{}), waiting(ctx, j, protocol.Cursor{Epoch: "x", Seq: 7})
		take(t, j, create("a", "a"))
		still(t, "zero cursor, not whole", w1)
		still(t, "other cursor, not whole", w2)
		endBaseline(t, j)
		ended(t, "zero cursor, whole", w1, nil)
		ended(t, "other cursor, whole", w2, nil)

		w1 = waiting(ctx, j, j.Head())
		still(t, "at the head", w1)
		take(t, j, note("a", "s", time.Time{}))
		still(t, "after a note", w1)
		take(t, j, remove("nothing"))
		still(t, "after a step without effect", w1)
		before := j.Head()
		take(t, j, update("a", "b"))
		ended(t, "after a change", w1, nil)
		ended(t, "before the head", waiting(ctx, j, before), nil)
		ended(t, "after the head", waiting(ctx, j, protocol.Cursor{Epoch: before.Epoch, Seq: 99}), nil)

		w1 = waiting(ctx, j, j.Head())
		still(t, "at the head", w1)
		must.OK(t, j.Renew(ctx, nil))
		ended(t, "after a new epoch", w1, nil)

		w1 = waiting(ctx, j, j.Head())
		still(t, "at the head", w1)
		cancel()
		ended(t, "context", w1, context.Canceled)
		w1 = waiting(context.Background(), j, j.Head())
		still(t, "at the head", w1)
		j.Close()
		ended(t, "closed", w1, fs.ErrClosed)
	})
}

// Followers, half of which come late, each see every change once and in order
// while changes go on.
func TestFollowersMissNothing(t *testing.T) {
	const followers, rounds, each = 50, 60, 7
	j, _ := begin(t, nil)
	start := j.Head()
	follow := func(n int) error {
		at := start
		for at.Seq < rounds*each {
			if err := j.Wait(t.Context(), at); err != nil {
				return err
			}
			changes, err := j.Read(t.Context(), at, 1+n%13)
			if err != nil {
				return err
			}
			for _, c := range changes {
				if c.Seq != at.Seq+1 {
					return fmt.Errorf("change %d after %v", c.Seq, at)
				}
				if want := fmt.Sprintf("p%d", c.Seq); short(c.Item.URL) != want {
					return fmt.Errorf("change %d is of %s, want %s", c.Seq, c.Item.URL, want)
				}
				at.Seq++
			}
			if len(changes) == 0 {
				return fmt.Errorf("woken without a change at %v", at)
			}
		}
		return nil
	}
	var group sync.WaitGroup
	join := func(n int) {
		group.Go(func() {
			if err := follow(n); err != nil {
				t.Errorf("follower %d: %v", n, err)
			}
		})
	}
	for n := range followers / 2 {
		join(n)
	}
	for r := range rounds {
		var steps []journal.Step
		for k := range each {
			steps = append(steps, create(fmt.Sprintf("p%d", r*each+k+1), "x"))
		}
		take(t, j, steps...)
		if r < followers/2 {
			join(followers/2 + r)
		}
		if r%10 == 0 { // a look at the whole, as a manifest takes it
			v := view(t, j)
			check(t, "items in a view", len(collect(t, v.Entries())), int(v.Head().Seq))
			v.Close()
		}
	}
	group.Wait()
}
