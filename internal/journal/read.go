package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// Head returns the cursor of the newest change; the zero Cursor while the
// journal is not whole.
func (j *Journal) Head() protocol.Cursor {
	m, _, _ := j.current()
	return m.headCursor()
}

// Floor returns the oldest cursor that can be read after; the zero Cursor
// while the journal is not whole.
func (j *Journal) Floor() protocol.Cursor {
	m, _, _ := j.current()
	return m.floorCursor()
}

// readable returns an error if changes after a cursor cannot be read.
func (m meta) readable(after protocol.Cursor) error {
	switch {
	case after.IsZero():
		return fmt.Errorf("%w: it is before all changes", protocol.ErrTooOld)
	case !m.whole:
		return fmt.Errorf("%w: the first scan is not complete", protocol.ErrEpoch)
	case after.Epoch != m.epoch:
		return fmt.Errorf("%w: the current epoch is %s", protocol.ErrEpoch, m.epoch)
	case after.Seq > m.head:
		return fmt.Errorf("%w: it is after the head %v", protocol.ErrEpoch, m.headCursor())
	case after.Seq < m.floor:
		return fmt.Errorf("%w: it is before the floor %v", protocol.ErrTooOld, m.floorCursor())
	}
	return nil
}

// Read returns the changes after the cursor, oldest first, at most max of them; max < 1 means
// protocol.MaxBatch. While the journal is not whole it has no cursor: then every cursor but the zero Cursor
// is of another epoch.
func (j *Journal) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	changes, err := j.read(ctx, after, max)
	switch {
	case errors.Is(err, protocol.ErrEpoch), errors.Is(err, protocol.ErrTooOld):
		return nil, fmt.Errorf("read after %v: %w", after, err) // crawlers see this error: no path
	case err != nil:
		return nil, j.fail("read", err)
	}
	return changes, nil
}

func (j *Journal) read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, _, closed := j.current()
	switch {
	case closed:
		return nil, errClosed
	case !after.IsZero() && after == m.headCursor():
		return nil, nil // most reads are of waiting subscribers
	}
	if max < 1 {
		max = protocol.MaxBatch
	}
	tx, err := j.begin()
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	var changes []protocol.Change
	err = boltfile.RecoverDamage(func() error {
		known := m
		if m, err = readMeta(tx); err != nil {
			return err
		}
		if m.epoch == known.epoch { // in a shared file, changes may be on disk that are not published yet
			m.head = min(m.head, known.head)
		}
		if err := m.readable(after); err != nil {
			return err
		}
		n := min(uint64(max), m.head-after.Seq)
		changes = make([]protocol.Change, 0, n)
		c := tx.Bucket(changesBucket).Cursor()
		seq := after.Seq + 1
		for k, v := c.Seek(seqKey(seq)); uint64(len(changes)) < n; k, v = c.Next() {
			if seqOf(k) != seq {
				return fmt.Errorf("file is %w: change %d is missing", ErrDamaged, seq)
			}
			ch, err := ParseChange(seq, v)
			if err != nil {
				return err
			}
			changes = append(changes, ch)
			seq++
		}
		return nil
	})
	return changes, err
}

// Wait blocks until Read(after) would return changes or an error, and then returns nil. While the journal is
// not whole it blocks for any after. It returns an error when ctx ends, and when the journal is closed.
func (j *Journal) Wait(ctx context.Context, after protocol.Cursor) error {
	for {
		m, wake, closed := j.current()
		switch {
		case closed:
			return j.fail("wait for", errClosed)
		case ctx.Err() != nil:
			return ctx.Err()
		case m.whole && after != m.headCursor():
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
}

// Get returns the entry of a URL, and false if there is none.
func (j *Journal) Get(url string) (Entry, bool, error) {
	tx, err := j.begin()
	if err != nil {
		return Entry{}, false, j.fail("read", err)
	}
	defer tx.Rollback()
	var e Entry
	var ok bool
	err = boltfile.RecoverDamage(func() error {
		m, err := readMeta(tx)
		if err == nil && url != "" {
			e, ok, err = getEntry(tx.Bucket(itemsBuckets[m.slot]), itemKey(url))
		}
		return err
	})
	if err != nil {
		return Entry{}, false, j.fail("read", err)
	}
	return e, ok, nil
}
