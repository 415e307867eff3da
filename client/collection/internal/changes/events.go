package changes

import (
	"context"
	"encoding/binary"
	"maps"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// An Event is a change, or in a Snapshot an item of the stored contents.
type Event struct {
	Change   protocol.Change
	Aside    Aside // zero in a Snapshot
	Snapshot bool
	Cursor   protocol.Cursor // the position after it; in a Snapshot only the last event has one
}

// atOnce is how many changes are read in one batch.
const atOnce = 200

// Events calls f with the changes after a cursor, in order; with follow it waits for more until ctx ends. After the
// zero Cursor these are all changes ever, or a Snapshot, and the changes since, if some of them are forgotten. An
// error of f ends it.
func (l *Log) Events(ctx context.Context, after protocol.Cursor, follow bool, f func(*Event) error) error {
	if l.journal == nil {
		return nil
	}
	if after.IsZero() {
		var err error
		if after, err = l.beginning(ctx, f); err != nil {
			return err
		}
	}
	for {
		changes, err := l.journal.Read(ctx, after, atOnce)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			if !follow {
				return nil
			}
			if err := l.journal.Wait(ctx, after); err != nil {
				return err
			}
			continue
		}
		asides, err := l.readAsides(changes[0].Seq, changes[len(changes)-1].Seq)
		if err != nil {
			return err
		}
		for _, ch := range changes {
			after.Seq = ch.Seq
			if err := f(&Event{Change: ch, Aside: asides[ch.Seq], Cursor: after}); err != nil {
				return err
			}
		}
	}
}

// readAsides returns the Asides of changes, by number.
func (l *Log) readAsides(from, to uint64) (map[uint64]Aside, error) {
	list := map[uint64]Aside{}
	maps.Copy(list, l.late)
	err := l.reading(func(tx *bbolt.Tx) error {
		b := tx.Bucket(Bucket).Bucket(asidesBucket)
		if b == nil {
			return nil
		}
		cur := b.Cursor()
		for k, v := cur.Seek(binary.BigEndian.AppendUint64(nil, from)); k != nil; k, v = cur.Next() {
			seq := binary.BigEndian.Uint64(k)
			if seq > to {
				break
			}
			a, ok := parseAside(k, v)
			if !ok {
				return record.Damaged(asidesBucket, k)
			}
			list[seq] = a
		}
		return nil
	})
	return list, err
}

// beginning gives the stored contents to a new reader, if the journal does not have all changes, and returns the
// cursor from which the reader gets changes.
func (l *Log) beginning(ctx context.Context, f func(*Event) error) (protocol.Cursor, error) {
	refilled, err := l.journal.Note(refilledNote)
	if err != nil {
		return protocol.Cursor{}, err
	}
	if floor := l.journal.Floor(); floor.Seq == 0 && refilled == nil {
		return floor, nil
	}
	// A change during the snapshot is an event after it.
	head := l.journal.Head()
	var prev *Event
	for last := ""; ; {
		entries, err := entriesAfter(l.journal, last)
		if err != nil {
			return head, err
		}
		if err := ctx.Err(); err != nil {
			return head, err
		}
		if len(entries) == 0 {
			break
		}
		for i := range entries {
			if prev != nil {
				if err := f(prev); err != nil {
					return head, err
				}
			}
			it := entries[i].Item
			last = it.URL
			prev = &Event{Change: protocol.Change{Op: protocol.Create, At: it.Modified, Item: it}, Snapshot: true}
		}
	}
	if prev == nil {
		return head, nil
	}
	prev.Cursor = head
	return head, f(prev)
}

// entriesAfter reads the next entries after a URL, in a short view of the journal.
func entriesAfter(j *journal.Journal, url string) ([]journal.Entry, error) {
	v, err := j.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	var list []journal.Entry
	for r := v.Reader("", true, url); len(list) < atOnce; {
		e, more, err := r.Next()
		if err != nil || !more {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}
