package jetlog

import (
	"context"
	"errors"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// forgetEvery is how often the messages of pages that have gone are deleted: for that the whole stream is read.
const forgetEvery = 10 * time.Minute

// Forget deletes from the stream what it says of pages that have gone: every creation and update from before a page's last deletion, with
// title and digest. With a page it deletes what is said of that one before its last change, even if it has not gone, and overwrites it on
// the disks of NATS. When Forget returns, no reader gets those messages any more. The log must be told.
//
// Other messages stay. Nothing else tells readers that the page of a deletion, or the old address of a move, is gone; a deletion has the
// page's URL and last digest, and a move all that was said of its new address.
//
// The numbers of deleted messages stay, so that cursors do. A reader who comes to such a number reads there the change that comes after
// it in the stream, and later once more under its own number: to be told twice that a page was changed, or is gone, does no harm. There
// always is one, since the last message stays. So copies may differ in what they have of such numbers, and some say that a page was
// updated whose creation others have.
func (l *Log) Forget(ctx context.Context, page string) error {
	head := l.Journal.Head()
	if err := l.Told(ctx, head); err != nil { // what was not told might never be
		return err
	}
	if page != "" {
		return l.Stream.erase(ctx, nil, page)
	}
	l.forgetting.Lock()
	defer l.forgetting.Unlock()
	gone, err := l.gone(ctx, head)
	if err == nil && len(gone) > 0 {
		err = l.Stream.erase(ctx, gone, "")
	}
	if err == nil {
		l.forgot = head
	}
	return err
}

// gone returns the pages that have gone since Forget was called last, with the last change that says so.
func (l *Log) gone(ctx context.Context, head protocol.Cursor) (map[pageID]uint64, error) {
	gone, at := map[pageID]uint64{}, l.forgot
	if floor := l.Journal.Floor(); at.Epoch != floor.Epoch || at.Seq < floor.Seq {
		at = floor
	}
	for at.Seq < head.Seq {
		changes, err := l.Journal.Read(ctx, at, 0)
		if err != nil || len(changes) == 0 {
			return gone, err
		}
		for _, c := range changes {
			at.Seq = c.Seq
			if dead, ok := c.Tombstone(); ok && c.Seq <= head.Seq {
				gone[idOf(dead.URL)] = c.Seq
			}
		}
	}
	return gone, nil
}

// erase deletes what the stream says of pages before the change by which they have gone, and of one page before its last change.
func (s *Stream) erase(ctx context.Context, gone map[pageID]uint64, page string) error {
	last, at, err := s.span(ctx)
	before := uint64(0) // the last creation or update of the page
	for err == nil && at.Seq < last.head().Seq {
		var changes []protocol.Change
		late, cancel := context.WithTimeout(ctx, patience)
		changes, err = s.changes(late, &last, at, protocol.MaxBatch)
		cancel()
		for i := 0; i < len(changes) && err == nil; i++ {
			c := &changes[i]
			at.Seq = c.Seq
			if c.Item.URL == page && before > 0 {
				err, before = s.remove(ctx, &last, before, true), 0
			}
			switch {
			case err != nil || c.Op == protocol.Delete || c.Op == protocol.Move:
			case c.Item.URL == page:
				before = c.Seq
			case c.Seq < gone[idOf(c.Item.URL)]:
				err = s.remove(ctx, &last, c.Seq, false)
			}
		}
	}
	return err
}

// remove deletes the message of a change, which may be gone already.
func (s *Stream) remove(ctx context.Context, last *place, seq uint64, overwrite bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := s.open(ctx)
	if err != nil {
		return s.fail("open", err)
	}
	number, by := last.number-last.head().Seq+seq, stream.DeleteMsg
	if overwrite {
		by = stream.SecureDeleteMsg
	}
	if err := by(ctx, number); err != nil {
		if _, there, gerr := s.message(ctx, number); there || gerr != nil {
			return s.fail("delete from", errors.Join(err, gerr))
		}
	}
	return nil
}

// keepForgetting calls Forget until ctx ends, now and then. What fails is logged and tried again.
func (l *Log) keepForgetting(ctx context.Context) {
	persist(ctx, l.Logger, "what the stream says of pages that have gone cannot be deleted", func(ctx context.Context) error {
		wait, err := forgetEvery, l.Forget(ctx, "")
		if err != nil {
			wait = patience
		}
		pause.For(ctx, wait)
		return err
	})
}
