package jetlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// ErrDiverged is returned by [Log.Tell] for a journal that is not at what was told: another writer has gone on since. What was
// told wins: the journal must adopt it, or begin a new epoch.
var ErrDiverged = errors.New("the journal is not at what was told")

// A Log is a protocol.Log of what was told. Its changes are read from a journal on this machine: while NATS is away, it stays at
// what it has, and only cursors after its head cannot be judged. Either Tell or Follow must run. Fields must not change
// once a method has been called.
type Log struct {
	Stream  *Stream
	Journal *journal.Journal

	// Items returns what the site offers at a cursor of the present epoch, for a copy that begins, or that has missed what the
	// stream no longer has. Follow needs it.
	Items func(ctx context.Context) (protocol.Cursor, iter.Seq2[protocol.Item, error], error)

	// Ahead says that the journal may have changes that were not told, since its site was written here: Follow delivers nothing
	// before it has asked the stream.
	Ahead bool

	Logger *slog.Logger

	watched // guards the fields below
	told    protocol.Cursor
	floor   protocol.Cursor // of the stream, when it was asked last
	begun   protocol.Cursor // where it is written: the floor of the stream when Tell began

	forgetting sync.Mutex      // guards forgot; held while messages are deleted
	forgot     protocol.Cursor // up to here Forget has read the changes
}

var _ protocol.Log = (*Log)(nil)

// A watched guards what changes, for goroutines that wait for that.
type watched struct {
	mu   sync.Mutex
	news chan struct{} // closed at the next change; nil if nobody waits
}

// change changes what is guarded.
func (w *watched) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

// await waits until what is guarded is as it should be. It returns the error of ctx if that ends first.
func (w *watched) await(ctx context.Context, is func() bool) error {
	for {
		w.mu.Lock()
		done := is()
		if w.news == nil {
			w.news = make(chan struct{})
		}
		news := w.news
		w.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Log) reached(at protocol.Cursor) { l.change(func() { l.told = at }) }

// Head implements [protocol.Log].
func (l *Log) Head() protocol.Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// Floor implements [protocol.Log]. It is the zero Cursor as long as Head is. Changes that only the stream has are read from there.
func (l *Log) Floor() protocol.Cursor {
	l.mu.Lock()
	told, stream := l.told, l.floor
	l.mu.Unlock()
	floor := l.Journal.Floor()
	switch {
	case floor.Epoch != told.Epoch:
		return protocol.Cursor{}
	case stream.Epoch == floor.Epoch && stream.Seq < floor.Seq:
		return stream
	}
	return floor
}

// Shared is a Log as all doors have it: its floor is that of the stream, though the journal here may have older changes.
type Shared struct{ *Log }

// Floor implements [protocol.Log].
func (s Shared) Floor() protocol.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.Epoch == s.told.Epoch {
		return s.begun
	}
	return protocol.Cursor{}
}

// Read implements [protocol.Log].
func (l *Log) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	told := l.Head()
	if !after.IsZero() && (after.Epoch != told.Epoch || after.Seq > told.Seq) {
		if err := l.catchUp(ctx, after); err != nil {
			return nil, err
		}
		told = l.Head()
	}
	changes, err := l.Journal.Read(ctx, after, max)
	if errors.Is(err, protocol.ErrTooOld) && after.Epoch == told.Epoch {
		var floor protocol.Cursor
		changes, floor, err = l.Stream.read(ctx, after, max)
		if !errors.Is(err, protocol.ErrAway) {
			l.change(func() { l.floor = floor }) // which may have dropped some since
		}
	}
	for i := range changes {
		if changes[i].Seq > told.Seq {
			return changes[:i], err
		}
	}
	return changes, err
}

// catchUp asks the stream whether it has told a cursor that this log does not have, and then waits for it.
func (l *Log) catchUp(ctx context.Context, after protocol.Cursor) error {
	last, err := l.Stream.last(ctx)
	switch head := last.head(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("read after %v: %w: %w", after, protocol.ErrAway, err)
	case head.Epoch != after.Epoch || after.Seq > head.Seq:
		return fmt.Errorf("read after %v: %w: the log is at %v", after, protocol.ErrEpoch, head)
	}
	return l.Told(ctx, after)
}

// Told waits, for some seconds, until this log has a cursor. The error wraps protocol.ErrAway if it does not get there.
func (l *Log) Told(ctx context.Context, at protocol.Cursor) error {
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := l.await(late, func() bool { return l.told.Epoch == at.Epoch && l.told.Seq >= at.Seq })
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("wait for %v: %w: the log here is at %v", at, protocol.ErrAway, l.Head())
	}
	return err
}

// Wait implements [protocol.Log].
func (l *Log) Wait(ctx context.Context, after protocol.Cursor) error {
	return l.await(ctx, func() bool { return !l.told.IsZero() && after != l.told })
}

// Tell tells the changes of the journal, which its Publisher appends, until ctx ends, another writer goes on (ErrFenced), or the
// stream has been told something else (ErrDiverged). It begins an epoch that the stream does not have only if the stream is
// empty, or if it is told to: an old journal that comes back must not end the present epoch. Now and then it calls Forget.
func (l *Log) Tell(ctx context.Context, begin bool) error {
	if err := l.Journal.Wait(ctx, protocol.Cursor{}); err != nil {
		return err
	}
	w, err := l.join(ctx, begin)
	for err != nil && !errors.Is(err, ErrDiverged) && !errors.Is(err, ErrFenced) {
		if !pause.For(ctx, again) {
			return ctx.Err()
		}
		w, err = l.join(ctx, begin)
	}
	inner, cancel := context.WithCancel(ctx)
	var forgetting sync.WaitGroup
	defer forgetting.Wait()
	defer cancel()
	forgetting.Go(func() { l.keepForgetting(inner) })
	for err == nil {
		at := w.last.head()
		l.reached(at)
		var changes []protocol.Change
		if err = l.Journal.Wait(ctx, at); err == nil {
			changes, err = l.Journal.Read(ctx, at, protocol.MaxBatch)
		}
		if err == nil {
			err = w.tell(ctx, changes)
		}
	}
	return err
}

// join returns a writer that goes on after what was told last, which the journal has too.
func (l *Log) join(ctx context.Context, begin bool) (*writer, error) {
	last, floor, err := l.Stream.span(ctx)
	if err != nil {
		return nil, err
	}
	w, head := l.Stream.writer(last), l.Journal.Head()
	if at := last.head(); at.IsZero() || begin && at.Epoch != head.Epoch {
		l.change(func() { l.begun = head })
		return w, w.begin(ctx, head)
	}
	l.change(func() { l.begun = floor })
	agree, err := l.agrees(ctx, &last)
	if at := last.head(); err == nil && (!agree || head.Seq < at.Seq) {
		err = fmt.Errorf("%w: the journal is at %v, the stream at %v", ErrDiverged, head, at)
	}
	return w, err
}

// agrees reports whether the journal has the last change that both it and the stream can have, so that one continues the other.
func (l *Log) agrees(ctx context.Context, last *place) (bool, error) {
	at, floor := l.Journal.Head(), l.Journal.Floor()
	data := last.data
	switch told := last.head(); {
	case at.Epoch != told.Epoch:
		return false, nil
	case at.Seq >= told.Seq:
		at = told
	case at.Seq < last.cursor.Seq:
		return false, nil
	case at.Seq > max(last.cursor.Seq, floor.Seq):
		b, ok, err := l.Stream.message(ctx, last.messageOf(at))
		if err != nil || !ok {
			return false, err
		}
		data = b
	}
	if at.Seq <= floor.Seq || at.Seq == last.cursor.Seq { // it began there, or was adopted there
		return at.Seq >= floor.Seq, nil
	}
	told, err := journal.ParseChange(at.Seq, data)
	if err != nil {
		return false, err
	}
	changes, err := l.Journal.Read(ctx, protocol.Cursor{Epoch: at.Epoch, Seq: at.Seq - 1}, 1)
	if err != nil {
		return false, err
	}
	changes[0].Before, told.Before = nil, nil // of that copies and writers may know more or less
	return bytes.Equal(record(changes[0]), record(told)), nil
}

// Follow keeps the journal a copy of what is told, until ctx ends. What fails is logged and tried again.
func (l *Log) Follow(ctx context.Context) error {
	if !l.Ahead {
		l.reached(l.Journal.Head())
	}
	return persist(ctx, l.Logger, "the log of the site cannot be followed", l.follow)
}

// persist does something again and again until ctx ends, or another writer goes on (ErrFenced). It logs, if there is a logger, each
// other reason why that failed.
func persist(ctx context.Context, log *slog.Logger, trouble string, do func(context.Context) error) error {
	for last := ""; ; {
		err := do(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrFenced):
			return err
		case err != nil && err.Error() != last && log != nil:
			last = err.Error()
			log.Warn(trouble+": trying again", "err", err)
		}
		if !pause.For(ctx, again) {
			return ctx.Err()
		}
	}
}

// follow follows one epoch. The error is nil if another one has begun, or none.
func (l *Log) follow(ctx context.Context) error {
	last, floor, err := l.Stream.span(ctx)
	if err != nil || last.cursor.IsZero() {
		return err
	}
	l.change(func() { l.floor = floor })
	agree, err := l.agrees(ctx, &last)
	if err != nil {
		return err
	}
	if !agree || l.Journal.Head().Seq < floor.Seq {
		at, items, err := l.Items(ctx)
		if err == nil {
			last, err = l.Stream.last(ctx) // it has gone on meanwhile
		}
		if err == nil && (at.Epoch != last.cursor.Epoch || at.Seq < floor.Seq || at.Seq > last.head().Seq) {
			err = fmt.Errorf("the items are at %v, which the stream at %v does not continue", at, last.head())
		}
		if err == nil {
			err = l.Journal.Adopt(ctx, at, items)
		}
		if err != nil {
			return err
		}
	}
	head := l.Journal.Head()
	if told := last.head(); head.Seq > told.Seq {
		head = told // what follows may still be told, here; if something else is told instead, the journal adopts that
	}
	l.reached(head)
	return l.copyAfter(ctx, last.messageOf(head))
}

// copyAfter copies the changes after a message as they come.
func (l *Log) copyAfter(ctx context.Context, message uint64) error {
	came, end, err := l.Stream.consume(ctx, &jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: message + 1})
	if err != nil {
		return err
	}
	defer end()
	for {
		var batch []protocol.Change
		at := l.Journal.Head()
		m, err := l.next(ctx, came)
		if err != nil {
			return err
		}
		for n := 1; m != nil; n++ {
			p, err := placeIn(m)
			if err != nil {
				return err
			}
			if p.cursor.Epoch != at.Epoch {
				return nil
			}
			change, ok, err := p.change()
			if err != nil {
				return err
			}
			if ok {
				batch = append(batch, change)
			}
			if m = nil; n < protocol.MaxBatch {
				select {
				case m = <-came:
				default:
				}
			}
		}
		for some := fill(at.Seq, batch, protocol.MaxBatch); len(some) > 0; some = fill(at.Seq, batch, protocol.MaxBatch) {
			if err := l.Journal.Replay(ctx, at, some); err != nil {
				return err
			}
			at = l.Journal.Head()
			l.reached(at)
		}
	}
}

// next waits for a message. While none comes it asks the stream now and then whether there is one: the reader of a server that was
// lost, or of a stream that was, may not notice.
func (l *Log) next(ctx context.Context, came <-chan jetstream.Msg) (jetstream.Msg, error) {
	for {
		late := time.NewTimer(5 * silence)
		select {
		case m := <-came:
			late.Stop()
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
		}
		last, err := l.Stream.last(ctx)
		if here := l.Head(); err == nil && last.head() != here && len(came) == 0 {
			err = l.Stream.fail("follow", fmt.Errorf("no message comes after %v, though it is at %v", here, last.head()))
		}
		if err != nil {
			return nil, err
		}
	}
}
