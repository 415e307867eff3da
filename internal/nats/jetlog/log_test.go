package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
)

func randomSteps(rnd *rand.Rand, n int) []journal.Step {
	steps := make([]journal.Step, n)
	for i := range steps {
		steps[i] = step([]protocol.Op{protocol.Create, protocol.Update, protocol.Delete, protocol.Move}[rnd.IntN(4)],
			fmt.Sprint("p", rnd.IntN(12)), fmt.Sprint(rnd.IntN(5)))
		steps[i].From = fmt.Sprint("https://site.example/p", rnd.IntN(12))
	}
	return steps
}

// Whatever is read from the log, where it is written or elsewhere, is what the journal has, or the beginning of it; and in
// the end all of it.
func TestReadsAreThoseOfTheJournal(t *testing.T) {
	seeds, turns := uint64(8), 200
	if testing.Short() {
		seeds, turns = 2, 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			c := newCluster(t, 1+2*int(seed%2)) // one server, or three
			s, j := c.stream(), c.site()
			written := c.tell(s, j)
			c.reaches(written, j.Head())
			copied := c.follow(s, func() *journal.Journal { return j })
			c.reaches(copied, written.Head())
			epoch := j.Head().Epoch
			compare := func(l protocol.Log) {
				t.Helper()
				after, most := protocol.Cursor{Epoch: epoch, Seq: rnd.Uint64N(j.Head().Seq + 3)}, 1+rnd.IntN(40)
				told := written.Head() // grows while l is read
				got, err := l.Read(t.Context(), after, most)
				want, werr := j.Read(t.Context(), after, most)
				switch {
				case errors.Is(err, protocol.ErrEpoch) && after.Seq > told.Seq: // it is not told yet
				case err != nil || werr != nil:
					t.Fatalf("read after %v: %v; the journal: %v", after, err, werr)
				case len(got) > len(want) || len(got) > 0 && !reflect.DeepEqual(got, want[:len(got)]):
					t.Fatalf("read after %v:\n got %v\nwant %v", after, got, want)
				}
			}
			for range turns {
				c.append(j, randomSteps(rnd, rnd.IntN(20))...)
				for range 2 {
					compare(written)
					compare(copied)
				}
			}
			c.reaches(written, j.Head())
			c.reaches(copied, j.Head())
			want := readAll(t, j)
			for _, l := range []protocol.Log{written, copied} {
				if got := readAll(t, l); !reflect.DeepEqual(got, want) {
					t.Errorf("%d changes, the journal has %d", len(got), len(want))
				}
				if l.Floor() != j.Floor() {
					t.Errorf("floor %v, the journal's is %v", l.Floor(), j.Floor())
				}
			}
			c.sameItems(copied.Journal, j)
		})
	}
}

// readAll reads a log from the beginning of its epoch.
func readAll(t *testing.T, l protocol.Log) (all []protocol.Change) {
	t.Helper()
	for at := l.Floor(); ; {
		some, err := l.Read(t.Context(), at, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
		at.Seq = some[len(some)-1].Seq
	}
}

func (c *cluster) sameItems(a, b *journal.Journal) {
	c.Helper()
	at, is, err := items(a)
	c.must(err)
	head, want, err := items(b)
	c.must(err)
	if at != head || !slices.EqualFunc(is, want, protocol.Item.Equal) {
		c.Errorf("at %v %v\nat %v %v", at, is, head, want)
	}
}

// A reader goes to another door at each change, as soon as it has the change. No door refuses its cursor, and none
// repeats a change or leaves one out.
func TestReaderThatHopsBetweenDoors(t *testing.T) {
	hops := 1500
	if testing.Short() {
		hops = 100
	}
	c := newCluster(t, 3)
	j := c.site()
	first := c.tell(c.stream(), j)
	c.reaches(first, j.Head())
	doors := []*running{first}
	for range 3 {
		doors = append(doors, c.follow(c.stream(), func() *journal.Journal { return j }))
		c.reaches(doors[len(doors)-1], j.Head())
	}
	rnd, at := rand.New(rand.NewPCG(1, 2)), j.Head()
	for i, door := 0, 0; i < hops; i++ {
		c.append(j, step(protocol.Update, fmt.Sprint("p", i%7), fmt.Sprint(i)))
		door = (door + 1 + rnd.IntN(len(doors)-1)) % len(doors)
		for want := at.Seq + 1; at.Seq < want; {
			c.must(doors[door].Wait(t.Context(), at))
			some, err := doors[door].Read(t.Context(), at, 0)
			c.must(err)
			for _, change := range some {
				if at.Seq++; change.Seq != at.Seq {
					t.Fatalf("change %d after %d", change.Seq, at.Seq-1)
				}
			}
		}
		if i%5 == 0 { // a copy's head may be behind: the reader's cursor is good everywhere
			other := doors[(door+1)%len(doors)]
			if some, err := other.Read(t.Context(), at, 0); err != nil || len(some) > 0 {
				t.Fatalf("read after %v at another door: %v, %v", at, some, err)
			}
		}
	}
	at.Seq++
	for _, d := range doors {
		if _, err := d.Read(t.Context(), at, 0); !errors.Is(err, protocol.ErrEpoch) {
			t.Errorf("a change that nobody has made: %v", err)
		}
	}
}

// Two writers, each of which believes to be the only one, go on from the same change: the stream takes what one of them tells, and
// nothing of the other. That one is refused again when it restarts, until it has adopted what was told.
func TestOneOfTwoWritersGoesOn(t *testing.T) {
	races := 50
	if testing.Short() {
		races = 8
	}
	c := newCluster(t, 3)
	writers := []*journal.Journal{c.site(), c.journal(journal.Options{})}
	first := c.tell(c.stream(), writers[0])
	c.reaches(first, writers[0].Head())
	winner, won := 0, [2]int{}
	reader := c.follow(c.stream(), func() *journal.Journal { return writers[0] })
	c.reaches(reader, writers[0].Head())
	first.stop()
	for race := range races {
		at, list, err := items(writers[winner])
		c.must(err)
		c.must(writers[1-winner].Adopt(t.Context(), at, each(list)))
		var tell [2]*running
		for i, j := range writers {
			tell[i] = c.tell(c.stream(), j)
			c.reaches(tell[i], at)
		}
		var both sync.WaitGroup
		for i, j := range writers {
			both.Go(func() {
				_, err := j.Append(t.Context(), []journal.Step{step(protocol.Update, "p", fmt.Sprint(race, " by ", i)),
					step(protocol.Update, fmt.Sprint("q", race%5), fmt.Sprint(race, i))})
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		select {
		case <-tell[0].ended:
			winner = 1
		case <-tell[1].ended:
			winner = 0
		}
		c.reaches(tell[winner], writers[winner].Head())
		won[winner]++
		if lost, goes := tell[1-winner].stop(), tell[winner].stop(); !errors.Is(lost, jetlog.ErrFenced) || !errors.Is(goes, context.Canceled) {
			t.Fatalf("race %d: the loser: %v; the winner: %v", race, lost, goes)
		}
		if err := (&jetlog.Log{Stream: c.stream(), Journal: writers[1-winner]}).Tell(t.Context(), false); !errors.Is(err, jetlog.ErrDiverged) {
			t.Fatalf("race %d: the loser restarts: %v", race, err)
		}
		c.reaches(reader, writers[winner].Head())
	}
	c.sameItems(reader.Journal, writers[winner])
	if changes := readAll(t, reader); len(changes) != 2*races {
		t.Errorf("%d changes of %d races", len(changes), races)
	}
	t.Logf("won: %v", won)
}

// Writers take over from each other in one epoch, half of them from one that had not told everything. A reader that
// follows throughout has what the last writer has.
func TestTakeoversInOneEpoch(t *testing.T) {
	takeovers := 30
	if testing.Short() {
		takeovers = 6
	}
	c := newCluster(t, 3)
	j := c.site()
	start := j.Head()
	told := c.tell(c.stream(), j)
	c.reaches(told, j.Head())
	reader := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(reader, start)
	for n := range takeovers {
		c.append(j, step(protocol.Update, "p", fmt.Sprint(n)), step(protocol.Update, fmt.Sprint("p", n%3), fmt.Sprint(n)))
		c.reaches(told, j.Head())
		if err := told.stop(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		at, list, err := items(j)
		c.must(err)
		old := j
		if n%2 == 0 {
			c.append(old, step(protocol.Update, "p", fmt.Sprint("never told ", n)))
		}
		j = c.journal(journal.Options{})
		c.must(j.Adopt(t.Context(), at, each(list)))
		told = c.tell(c.stream(), j)
		c.append(j, step(protocol.Update, "p", fmt.Sprint("by the next one ", n)))
		c.reaches(told, j.Head())
		if n%2 == 0 {
			if err := (&jetlog.Log{Stream: c.stream(), Journal: old}).Tell(t.Context(), false); !errors.Is(err, jetlog.ErrDiverged) {
				t.Fatalf("takeover %d: the old writer: %v", n, err)
			}
		}
	}
	c.reaches(reader, j.Head())
	c.sameItems(reader.Journal, j)
	if head := reader.Head(); head.Epoch != start.Epoch || len(readAll(t, reader)) != 3*takeovers {
		t.Errorf("%d changes, up to %v", len(readAll(t, reader)), head)
	}
}

// Each of three servers fails and returns, in turn, while a site changes. What is told is stored: in the end a reader that
// followed throughout, and one that comes only then, have all of it.
func TestServersFail(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	c := newCluster(t, 3)
	j := c.site()
	start := j.Head()
	_, list, err := items(j)
	c.must(err)
	told := c.tell(c.stream(), j)
	c.reaches(told, start)
	reader := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(reader, start)
	for down := range rounds {
		c.servers[down].Stop()
		for n := range 5 {
			head := c.append(j, step(protocol.Update, "p", fmt.Sprint(down, n)), step(protocol.Update, fmt.Sprint("q", n), fmt.Sprint(down)))
			c.reaches(told, head)
			c.reaches(reader, head)
		}
		c.must(c.servers[down].Start())
		c.current(down)
	}
	want := readAll(t, j)
	late := &jetlog.Log{Stream: c.stream(), Journal: c.journal(journal.Options{})}
	c.must(late.Journal.Adopt(t.Context(), start, each(list)))
	c.run(late, late.Follow)
	for _, l := range []protocol.Log{reader, late} {
		c.reaches(l, j.Head())
		if got := readAll(t, l); len(got) != len(want) || !reflect.DeepEqual(got, want) {
			t.Errorf("%d changes, the journal has %d", len(got), len(want))
		}
	}
}

// While NATS is away, a copy delivers what it has, and refuses nothing that it cannot judge. What was written meanwhile is told when
// NATS is back.
func TestNATSIsAway(t *testing.T) {
	c := newCluster(t, 1)
	j := c.site()
	told := c.tell(c.stream(), j)
	c.reaches(told, j.Head())
	copied := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(copied, j.Head()) // a copy that begins later has fewer changes
	at := c.append(j, step(protocol.Create, "a", "1"), step(protocol.Create, "b", "1"))
	c.reaches(copied, at)
	c.servers[0].Stop()
	next := c.append(j, step(protocol.Update, "a", "2"))
	for _, l := range []protocol.Log{told, copied} {
		if got := readAll(t, l); len(got) != 2 || l.Head() != at {
			t.Errorf("%d changes, up to %v", len(got), l.Head())
		}
		if _, err := l.Read(t.Context(), next, 0); err == nil || errors.Is(err, protocol.ErrEpoch) || errors.Is(err, protocol.ErrTooOld) {
			t.Errorf("a cursor that only the stream can judge: %v", err)
		}
	}
	c.must(c.servers[0].Start())
	c.reaches(told, next)
	c.reaches(copied, next)
	if got := readAll(t, copied); len(got) != 3 {
		t.Errorf("%d changes", len(got))
	}
}

// NATS has lost all its data: the writer ends, and when it starts again it begins the stream at its own cursor. A copy that has
// everything goes on, in the same epoch.
func TestStreamIsLost(t *testing.T) {
	c := newCluster(t, 1)
	j := c.site()
	told := c.tell(c.stream(), j)
	copied := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(copied, c.append(j, step(protocol.Create, "a", "1")))
	js, err := jetstream.New(c.conn)
	c.must(err)
	c.must(js.DeleteStream(t.Context(), "site"))
	next := c.append(j, step(protocol.Update, "a", "2"))
	<-told.ended
	if err := told.stop(); !errors.Is(err, jetlog.ErrFenced) {
		t.Errorf("the writer: %v", err)
	}
	told = c.tell(c.stream(), j)
	c.reaches(told, next)
	c.reaches(copied, next)
	c.reaches(copied, c.append(j, step(protocol.Update, "a", "3")))
	c.sameItems(copied.Journal, j)
}

// The state of a site is lost: it begins a new epoch, which the copies follow, and which the old state, found again, cannot end.
func TestNewEpoch(t *testing.T) {
	c := newCluster(t, 1)
	old := c.site()
	told := c.tell(c.stream(), old)
	var present atomic.Pointer[journal.Journal]
	present.Store(old)
	copied := c.follow(c.stream(), present.Load)
	at := c.append(old, step(protocol.Create, "a", "1"), step(protocol.Create, "b", "1"))
	c.reaches(copied, at)
	told.stop()

	begun := c.site()
	c.append(begun, step(protocol.Create, "a", "2"))
	if err := (&jetlog.Log{Stream: c.stream(), Journal: begun}).Tell(t.Context(), false); !errors.Is(err, jetlog.ErrDiverged) {
		t.Errorf("an epoch that was not to begin: %v", err)
	}
	left := make(chan error)
	go func() { left <- copied.Wait(t.Context(), at) }()
	present.Store(begun)
	l := &jetlog.Log{Stream: c.stream(), Journal: begun}
	c.run(l, func(ctx context.Context) error { return l.Tell(ctx, true) })
	c.must(<-left)
	c.append(begun, step(protocol.Create, "c", "1"))
	c.reaches(copied, begun.Head())
	c.sameItems(copied.Journal, begun)
	for _, l := range []protocol.Log{l, copied} {
		if _, err := l.Read(t.Context(), at, 0); !errors.Is(err, protocol.ErrEpoch) {
			t.Errorf("a cursor of the old epoch: %v", err)
		}
	}
	c.append(old, step(protocol.Update, "a", "3"))
	if err := (&jetlog.Log{Stream: c.stream(), Journal: old}).Tell(t.Context(), false); !errors.Is(err, jetlog.ErrDiverged) {
		t.Errorf("the old state comes back: %v", err)
	}
}

// A copy that was away for longer than the stream keeps changes begins again with the present items.
func TestCopyThatMissedChanges(t *testing.T) {
	c := newCluster(t, 1)
	c.most = 10
	j := c.site()
	told := c.tell(c.stream(), j)
	copied := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(copied, c.append(j, step(protocol.Create, "a", "1")))
	copied.stop()
	for n := range 30 {
		c.append(j, step(protocol.Update, "a", fmt.Sprint(n)), step(protocol.Create, fmt.Sprint("p", n), ""))
	}
	c.reaches(told, j.Head())
	again := &jetlog.Log{Stream: c.stream(), Journal: copied.Journal, Items: copied.Items}
	c.run(again, again.Follow)
	c.reaches(again, j.Head())
	c.sameItems(copied.Journal, j)
	if floor := again.Journal.Floor(); floor != j.Head() {
		t.Errorf("the copy has changes after %v, the journal is at %v", floor, j.Head())
	}
	// What only the stream has is read from there, and refused if not even the stream has it.
	floor := again.Floor()
	if floor.Seq+10 != j.Head().Seq {
		t.Errorf("changes can be read after %v, the stream has ten up to %v", floor, j.Head())
	}
	want, err := j.Read(t.Context(), floor, 4)
	c.must(err)
	if got, err := again.Read(t.Context(), floor, 4); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read from the stream: %v, %v; want %v", got, err, want)
	}
	floor.Seq--
	if _, err := again.Read(t.Context(), floor, 4); !errors.Is(err, protocol.ErrTooOld) {
		t.Errorf("what the stream has no more: %v", err)
	}
}
