package collection

import (
	"bytes"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/adjacency"
	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/references"
)

// Graph calls yield for each page with links, in the order of IDs, until it returns false; to are the pages that the page links to,
// ascending, and valid until yield returns. If the record of a page's links is damaged, they are missing, and damaged says so. The error
// is that which ended the reading. Yield may use the collection; changes made meanwhile may appear or not.
func (c *Collection) Graph(yield func(from frontier.PageID, to []frontier.PageID, damaged error) bool) error {
	return eachPage(c, adjacency.Links, adjacency.ParseLinks, yield)
}

// References are what a page refers to besides pages of its site, and Count is how often.
type (
	References = references.Counts
	Count      = references.Count
)

// References is Graph for what else pages refer to, as of their last visit with content. Pages that refer to nothing else are left out, and
// duplicates, whose links are not stored either. If damaged is not nil, r is nil.
func (c *Collection) References(yield func(page frontier.PageID, r *References, damaged error) bool) error {
	return eachPage(c, adjacency.References, adjacency.ParseReferences, yield)
}

// eachPage calls yield for each record of a bucket whose keys are pages, as Graph does.
func eachPage[V any](c *Collection, bucket []byte, parse func(key, value []byte) (V, bool), yield func(frontier.PageID, V, error) bool) error {
	const atOnce = 1000 // so that no transaction is open for long
	type row struct {
		page    frontier.PageID
		value   V
		damaged error
	}
	var rows []row
	var next []byte
	read := 0
	for more := true; more; {
		rows = rows[:0]
		err := c.reading(func(tx *bbolt.Tx) error {
			giveBack(tx, &read, atOnce)
			b := tx.Bucket(bucket)
			if more = b != nil; !more {
				return nil
			}
			cur := b.Cursor()
			k, v := cur.Seek(next)
			for ; k != nil && len(rows) < atOnce; k, v = cur.Next() {
				if len(k) != 4 || bytes.Compare(k, next) < 0 {
					return record.Damaged(bucket, k)
				}
				r := row{page: record.KeyPage(k)}
				var ok bool
				if r.value, ok = parse(k, v); !ok {
					r = row{page: r.page, damaged: record.Damaged(bucket, k)}
				}
				rows = append(rows, r)
				after := record.PageKey(r.page + 1)
				next = after[:]
			}
			more = k != nil
			return nil
		})
		for _, r := range rows {
			if !yield(r.page, r.value, r.damaged) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", bucket, err)
		}
	}
	return nil
}

// SetRanks sets the link scores of pages, but for those below 0, and values all these pages anew, and so their ranks in the queue, in
// transactions of bounded size. It returns the ready entries whose rank has changed.
func (c *Collection) SetRanks(ranks iter.Seq2[frontier.PageID, float32]) ([]frontier.Entry, error) {
	const atOnce = 1000
	var ready []frontier.Entry
	ids, values := make([]frontier.PageID, 0, atOnce), make([]float32, 0, atOnce)
	write := func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		var done *update
		err := c.update(func(u *update) error {
			done = u
			for i, id := range ids {
				w, err := u.pages.get(id)
				if err != nil {
					return err
				}
				if w == nil {
					continue
				}
				before, value, rank := w.Rank, w.Value, w.rank
				if values[i] >= 0 {
					w.Rank = queue.Sane(values[i])
				}
				u.place(w)
				w.dirty = w.Rank != before || w.Value != value || w.rank != rank
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("set ranks: %w", err)
		}
		ready = append(ready, done.batch.Ready...)
		return nil
	}
	for id, rank := range ranks {
		if ids, values = append(ids, id), append(values, rank); len(ids) == atOnce {
			if err := write(); err != nil {
				return ready, err
			}
			ids, values = ids[:0], values[:0]
		}
	}
	err := write()
	return ready, err
}
