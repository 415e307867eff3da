package collection

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// An Event is a change of the stored content, as one line of JSON for programs that derive something from
// it, such as an index.
type Event struct {
	// Cursor is the position after the event. The reader stores it together with the effect of the event, to
	// continue there. In a snapshot only the last event has one.
	Cursor protocol.Cursor `json:"cursor,omitzero"`

	At time.Time   `json:"at"` // when the collection stored it
	Op protocol.Op `json:"op"` // create, update, delete or move

	URL  string `json:"url"`
	From string `json:"from,omitempty"` // of a move: the old URL of the content, which is gone

	Title     string `json:"title,omitempty"`
	Language  string `json:"language,omitempty"`
	Canonical string `json:"canonical,omitempty"`

	Digest protocol.Digest `json:"digest,omitzero"` // of the body
	Text   protocol.Digest `json:"text,omitzero"`   // of the main text, if extracted

	// TextChanged is false if the main text is known to be unchanged: then an indexer has nothing to do.
	// After a delete it is true.
	TextChanged bool `json:"text_changed"`

	Marks

	Signal   Signal    `json:"signal,omitempty"` // why the page was fetched
	Length   int64     `json:"length"`           // of the body; -1: none, or unknown
	Type     string    `json:"type,omitempty"`
	Modified time.Time `json:"modified,omitzero"`

	// Stored is the place of the new body.
	Stored contents.Place `json:"stored,omitzero"`

	// Snapshot: this is not a change, but stored content: the reader began without a cursor, and the
	// collection does not have all changes any more. A page without an event between the first and the one
	// with a cursor is not stored.
	Snapshot bool `json:"snapshot,omitempty"`
}

// Marks are flags of a page in an event.
type Marks struct {
	Truncated bool `json:"truncated,omitempty"` // the body is longer than the part that was read, which is Length bytes
	NoIndex   bool `json:"noindex,omitempty"`   // the page asks for noindex
	NoFollow  bool `json:"nofollow,omitempty"`  // and for nofollow
}

func (p *Page) marks() Marks {
	return Marks{Truncated: p.Cut, NoIndex: p.NoIndex, NoFollow: p.NoFollow}
}

// Log returns the collection's journal. A Notifier can serve it like a site's, so a crawler can be a
// publisher. It is nil for a collection that is opened read-only and has never had an event.
func (c *Collection) Log() protocol.Log {
	if c.sinks.journal == nil {
		return nil
	}
	return c.sinks.journal
}

// Events yields the changes after a cursor, in order; with follow it waits for more until ctx ends, and then
// returns ctx's error. After the zero Cursor it yields all changes ever, or a snapshot if some of them are
// forgotten. A reader that stores the cursor of each event with its effect gets each event exactly once,
// however often it crashes.
//
// A cursor that cannot be continued is an error wrapping protocol.ErrEpoch or protocol.ErrTooOld: the reader
// starts over with the zero Cursor. Changes are kept for 90 days, and at most Options.MaxEvents of them. The
// loop body may take as long as it likes, and may use the collection.
func (c *Collection) Events(ctx context.Context, after protocol.Cursor, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := c.events(ctx, after, follow, yield); err != nil && err != errStopped {
			yield(Event{}, fmt.Errorf("read events: %w", err))
		}
	}
}

// errStopped is returned when the loop has ended.
var errStopped = fmt.Errorf("stopped")

// eventsAtOnce is how many changes are read in one batch.
const eventsAtOnce = 200

func (c *Collection) events(ctx context.Context, after protocol.Cursor, follow bool, yield func(Event, error) bool) error {
	j := c.sinks.journal
	if j == nil {
		return nil
	}
	if after.IsZero() {
		var err error
		if after, err = c.beginning(ctx, yield); err != nil {
			return err
		}
	}
	for {
		changes, err := j.Read(ctx, after, eventsAtOnce)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			if !follow {
				return nil
			}
			if err := j.Wait(ctx, after); err != nil {
				return err
			}
			continue
		}
		asides, err := c.asides(changes[0].Seq, changes[len(changes)-1].Seq)
		if err != nil {
			return err
		}
		for i := range changes {
			after.Seq = changes[i].Seq
			if !yield(eventOf(&changes[i], after, asides[after.Seq]), nil) {
				return errStopped
			}
		}
	}
}

func eventOf(ch *protocol.Change, cursor protocol.Cursor, a eventExtras) Event {
	it := &ch.Item
	return Event{Cursor: cursor, At: ch.At, Op: ch.Op, URL: it.URL, From: ch.From, Title: it.Title, Language: it.Language, Canonical: it.Canonical,
		Digest: it.Digest, Text: it.Text, TextChanged: !a.same, Marks: a.marks, Signal: a.signal, Length: it.Length, Type: it.Type, Modified: it.Modified, Stored: a.stored}
}

// asides returns the eventExtras of changes, by number.
func (c *Collection) asides(from, to uint64) (map[uint64]eventExtras, error) {
	list := map[uint64]eventExtras{}
	o := &c.sinks.outbox
	// A change is in the journal before its eventExtras are here: the lock waits for that.
	o.mu.RLock()
	for seq := from; seq <= to; seq++ {
		if a, ok := o.pending[seq]; ok {
			list[seq] = a
		}
	}
	o.mu.RUnlock()
	err := c.reading(func(tx *bbolt.Tx) error {
		b := tx.Bucket(outboxBucket).Bucket(extrasBucket)
		if b == nil {
			return nil
		}
		cur := b.Cursor()
		for k, v := cur.Seek(binary.BigEndian.AppendUint64(nil, from)); k != nil; k, v = cur.Next() {
			seq := binary.BigEndian.Uint64(k)
			if seq > to {
				break
			}
			body, ok := record.Unseal(k, v)
			d := record.Decoder{B: body}
			a := parseAside(&d)
			if !ok || d.Bad {
				return record.Damaged(extrasBucket, k)
			}
			list[seq] = a
		}
		return nil
	})
	return list, err
}

// beginning yields the stored contents to a new reader, if the journal does not have all changes, and
// returns the cursor from which the reader gets changes.
func (c *Collection) beginning(ctx context.Context, yield func(Event, error) bool) (protocol.Cursor, error) {
	j := c.sinks.journal
	refilled, err := j.Note(refilledNote)
	if err != nil {
		return protocol.Cursor{}, err
	}
	if floor := j.Floor(); floor.Seq == 0 && refilled == nil {
		return floor, nil
	}
	// A change during the snapshot is yielded again after it.
	head := j.Head()
	last, prev := "", Event{}
	for {
		entries, err := entriesAfter(j, last)
		if err != nil {
			return head, err
		}
		if err := ctx.Err(); err != nil {
			return head, err
		}
		for i := range entries {
			if prev.URL != "" && !yield(prev, nil) {
				return head, errStopped
			}
			it := entries[i].Item
			last = it.URL
			prev = Event{At: it.Modified, Op: protocol.Create, URL: it.URL, Title: it.Title, Language: it.Language, Canonical: it.Canonical,
				Digest: it.Digest, Text: it.Text, TextChanged: true, Length: it.Length, Type: it.Type, Modified: it.Modified, Snapshot: true}
			p, ok, err := c.Page(it.URL)
			if err != nil {
				return head, err
			}
			if ok && p.Digest == it.Digest {
				prev.Stored, prev.Signal, prev.At, prev.Marks = p.Stored, p.Signal, p.Last, p.marks()
			}
		}
		if len(entries) == 0 {
			break
		}
	}
	if prev.Cursor = head; prev.URL != "" && !yield(prev, nil) {
		return head, errStopped
	}
	return head, nil
}

// entriesAfter reads the next entries after a URL, in a short view of the journal.
func entriesAfter(j *journal.Journal, url string) ([]journal.Entry, error) {
	v, err := j.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	var list []journal.Entry
	for r := v.Reader("", true, url); len(list) < eventsAtOnce; {
		e, more, err := r.Next()
		if err != nil || !more {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}
