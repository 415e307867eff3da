package collection

import (
	"bytes"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// Graph yields all links: for each page with links, in the order of IDs, the pages that it links to, in the
// same order. The slice is valid until the next step. The loop body may use the collection; changes made
// meanwhile may appear or not. It may be ranged over many times.
func (c *Collection) Graph() iter.Seq2[frontier.PageID, []frontier.PageID] {
	const atOnce = 1000 // so that no transaction is open for long
	type row struct {
		page     frontier.PageID
		from, to int
	}
	return func(yield func(frontier.PageID, []frontier.PageID) bool) {
		var rows []row
		var links []frontier.PageID
		var next []byte
		for more := true; more; {
			rows, links = rows[:0], links[:0]
			err := c.reading(func(tx *bbolt.Tx) error {
				cur := tx.Bucket(linksBucket).Cursor()
				k, v := cur.Seek(next)
				for ; k != nil && len(rows) < atOnce; k, v = cur.Next() {
					if len(k) != 4 || bytes.Compare(k, next) < 0 {
						return record.Damaged(linksBucket, k)
					}
					list, ok := parseLinks(v)
					if !ok {
						return record.Damaged(linksBucket, k)
					}
					rows = append(rows, row{record.KeyPage(k), len(links), len(links) + len(list)})
					links = append(links, list...)
					after := record.PageKey(record.KeyPage(k) + 1)
					next = after[:]
				}
				more = k != nil
				return nil
			})
			if err != nil {
				return // the next read of pages reports the damage
			}
			for _, r := range rows {
				if !yield(r.page, links[r.from:r.to]) {
					return
				}
			}
		}
	}
}

// SetRanks sets the link scores of pages, and with them their values and ranks in the queue, in transactions
// of bounded size. It returns the ready entries whose rank has changed.
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
				if w != nil && w.Rank != values[i] {
					w.Rank = queue.Sane(values[i])
					u.place(w)
				}
			}
			return nil
		})
		if err == nil {
			ready = append(ready, done.batch.Ready...)
		}
		return err
	}
	for id, rank := range ranks {
		if ids, values = append(ids, id), append(values, rank); len(ids) == atOnce {
			if err := write(); err != nil {
				return ready, fmt.Errorf("set ranks: %w", err)
			}
			ids, values = ids[:0], values[:0]
		}
	}
	if err := write(); err != nil {
		return ready, fmt.Errorf("set ranks: %w", err)
	}
	return ready, nil
}
