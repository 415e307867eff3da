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

// A Linking is a page with the pages that it links to.
type Linking struct {
	From frontier.PageID
	To   []frontier.PageID // ascending; valid until the next step of the loop
}

// Graph yields all links: for each page with links, in the order of IDs, the pages that it links to. The links of a page whose record is
// damaged are missing: it comes with an error. A Linking without a page comes with the error that ended the loop. The loop body may use
// the collection; changes made meanwhile may appear or not. It may be ranged over many times.
func (c *Collection) Graph() iter.Seq2[Linking, error] {
	const atOnce = 1000 // so that no transaction is open for long
	type row struct {
		page     frontier.PageID
		from, to int
		err      error
	}
	return func(yield func(Linking, error) bool) {
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
					r := row{page: record.KeyPage(k), from: len(links)}
					if list, ok := parseLinks(v); ok {
						links = append(links, list...)
					} else {
						r.err = record.Damaged(linksBucket, k)
					}
					r.to = len(links)
					rows = append(rows, r)
					after := record.PageKey(record.KeyPage(k) + 1)
					next = after[:]
				}
				more = k != nil
				return nil
			})
			for _, r := range rows {
				if !yield(Linking{r.page, links[r.from:r.to]}, r.err) {
					return
				}
			}
			if err != nil {
				yield(Linking{}, fmt.Errorf("read links: %w", err))
				return
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
