package compare

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/server/inventory"
)

const (
	readers   = 4  // pages read at one time: more than processors, since a cold disk makes them wait
	readAhead = 64 // pages that are being read, or wait to be compared in order
)

// reads are the offers of a comparison that are being read, in order. Only the goroutine of the comparison uses the queue.
type reads struct {
	ctx   context.Context // ends with the walk
	queue []*read
	ended sync.WaitGroup
	next  chan *read // closed at the end; nil before the first
}

// A read is the reading of one page.
type read struct {
	offer inventory.Offer // after done, as it was read
	entry *journal.Entry  // of the page; nil if it is new
	err   error
	done  chan struct{} // closed at the end
}

// errUnread is the error of a page whose content could not be read, once it was recorded.
var errUnread = errors.New("content could not be read")

// read reads an offer's content, unless the Inventory already knew its digest, and compares it with the page's entry, nil if
// it has none: soon, if others can be read meanwhile. Pages are compared in the order of read.
func (c *comparison) read(ctx context.Context, o inventory.Offer, e *journal.Entry) error {
	r := &read{offer: o, entry: e, done: make(chan struct{})}
	if !o.Parallel || !o.Digest.IsZero() {
		if err := c.finishReads(ctx, 0); err != nil {
			return err
		}
		if o.Digest.IsZero() {
			r.read(ctx, c.scan.Inventory)
		}
		return c.compareReading(ctx, r)
	}
	if err := c.finishReads(ctx, readAhead-1); err != nil {
		return err
	}
	q := &c.reads
	if q.next == nil {
		q.next = make(chan *read, readAhead)
		for range readers { // not a goroutine for each page: its stack would have to grow again
			q.ended.Go(func() {
				for r := range q.next {
					r.read(q.ctx, c.scan.Inventory)
					close(r.done)
				}
			})
		}
	}
	q.queue = append(q.queue, r)
	q.next <- r
	return nil
}

// end waits until no page is being read.
func (q *reads) end() {
	if q.next != nil {
		close(q.next)
	}
	q.ended.Wait()
}

func (r *read) read(ctx context.Context, inv inventory.Inventory) {
	o, err := inv.Read(ctx, r.offer)
	if r.err = err; err == nil {
		r.offer = o
	}
}

// finishReads waits for the first reads and compares their pages, until at most most are left.
func (c *comparison) finishReads(ctx context.Context, most int) error {
	for q := &c.reads; len(q.queue) > most; {
		r := q.queue[0]
		q.queue = q.queue[1:]
		<-r.done
		if err := c.compareReading(ctx, r); err != nil {
			return err
		}
		if err := c.steps.flushFull(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) compareReading(ctx context.Context, r *read) error {
	switch {
	case r.err == nil, errors.Is(r.err, fs.ErrNotExist):
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		c.unread(&inventory.UnseenError{Page: r.offer.URL, Place: r.offer.Place, Err: r.err})
		r.err = errUnread
	}
	if r.entry != nil {
		return c.knownRead(ctx, *r.entry, r.offer, r.err)
	}
	return c.freshRead(ctx, r.offer, r.err)
}
