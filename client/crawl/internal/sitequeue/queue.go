// Package sitequeue is the queue of pages of a crawl that has one site: it reads them from the store in their order, and
// remembers no more than those given out. For many sites there is package frontier.
package sitequeue

import (
	"fmt"
	"slices"
	"sync"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// mostReady is how many waiting pages are made ready for a batch, and mostGiven the pages of a batch.
const (
	mostReady = 10_000
	mostGiven = 500
)

// A Queue gives out pages of a Store, in the same way as a frontier.Frontier. It is safe for concurrent use.
type Queue struct {
	store frontier.Store

	mu    sync.Mutex                         // guards the rest
	out   map[frontier.PageID]given          // pages that were given out
	first []frontier.Entry                   // pages to give out before all others
	line  map[frontier.PageID]bool           // the pages of first
	after map[frontier.SiteID]frontier.Entry // all ready entries up to this one are out; none: the first may not be
}

type given struct {
	frontier.Entry
	first bool // if it is returned it is first again
	anew  bool // ready was called for it since then
}

// New returns a queue over a store; a new one continues where an earlier one ended.
func New(store frontier.Store) *Queue {
	return &Queue{store: store, out: map[frontier.PageID]given{}, line: map[frontier.PageID]bool{}, after: map[frontier.SiteID]frontier.Entry{}}
}

// Batch gives out up to 500 pages that are due at now, in milliseconds since 1970: first those of First, then by rank. They are
// out until Done or Return. Of the options, Size, Skip and Enough count.
func (q *Queue) Batch(now int64, o frontier.BatchOptions) (list []frontier.SiteEntries, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := mostGiven
	if o.Size > 0 {
		left = min(left, o.Size)
	}
	skips := func(id frontier.SiteID) bool { return o.Skip != nil && o.Skip(id) }
	give := func(e frontier.Entry, first bool) {
		if len(list) == 0 || list[len(list)-1].Site != e.Site {
			list = append(list, frontier.SiteEntries{Site: e.Site})
		}
		to := &list[len(list)-1]
		to.Entries = append(to.Entries, e)
		q.out[e.Page] = given{Entry: e, first: first}
		left--
	}
	promoted, err := q.store.Promote(now, mostReady)
	q.ready(promoted)
	var sites []frontier.SiteID
	if err == nil {
		err = q.store.Sites(func(id frontier.SiteID, ready int) error {
			if ready > 0 && !skips(id) && (o.Enough == nil || !o.Enough(id)) {
				sites = append(sites, id)
			}
			return nil
		})
	}
	waiting := q.first[:0]
	for _, e := range q.first {
		if err != nil || left == 0 || skips(e.Site) {
			waiting = append(waiting, e)
		} else {
			delete(q.line, e.Page)
			give(e, true)
		}
	}
	q.first = waiting
	for _, id := range sites {
		for err == nil && left > 0 {
			var next []frontier.Entry
			next, err = q.store.Head(id, q.after[id], mostGiven)
			for _, e := range next {
				if left == 0 {
					break
				}
				q.after[id] = e
				if _, out := q.out[e.Page]; !out {
					q.drop(e.Page)
					give(e, false)
				}
			}
			if len(next) < mostGiven {
				break
			}
		}
	}
	if err != nil {
		for i := range list { // the caller does not get them
			for _, e := range list[i].Entries {
				q.giveBack(e.Page)
			}
		}
		return nil, fmt.Errorf("make batch: %w", err)
	}
	return list, nil
}

// rewind makes sure that the next batch considers an entry.
func (q *Queue) rewind(e frontier.Entry) {
	if last, ok := q.after[e.Site]; ok && (e.Rank > last.Rank || e.Rank == last.Rank && e.Page <= last.Page) {
		last.Rank, last.Page = e.Rank, e.Page-1
		q.after[e.Site] = last
	}
}

func (q *Queue) giveBack(id frontier.PageID) {
	g, ok := q.out[id]
	if !ok {
		return
	}
	delete(q.out, id)
	if g.first {
		q.add(g.Entry)
	}
	q.rewind(g.Entry)
}

// add puts a page in front of all others, and drop takes it away from there.
func (q *Queue) add(e frontier.Entry) {
	if !q.line[e.Page] {
		q.line[e.Page] = true
		q.first = append(q.first, e)
	}
}

func (q *Queue) drop(id frontier.PageID) {
	if q.line[id] {
		delete(q.line, id)
		q.first = slices.DeleteFunc(q.first, func(e frontier.Entry) bool { return e.Page == id })
	}
}

// Take gives out one page at once, whether or not it is due; false means that it is given out already. If it is returned it is
// first.
func (q *Queue) Take(e frontier.Entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, out := q.out[e.Page]; out {
		return false
	}
	q.drop(e.Page)
	q.out[e.Page] = given{Entry: e, first: true}
	return true
}

// First puts a page in front of all others, in the order of the calls, unless it is given out.
func (q *Queue) First(e frontier.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, out := q.out[e.Page]; !out {
		q.add(e)
	}
}

// Add tells of entries that the store has made ready, or given another rank, after the commit.
func (q *Queue) Add(entries []frontier.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready(entries)
}

// ready makes sure that the next batch considers entries, or, if their pages are out, the next one after they are returned.
func (q *Queue) ready(entries []frontier.Entry) {
	for _, e := range entries {
		if g, out := q.out[e.Page]; out {
			g.Entry, g.anew = e, true
			q.out[e.Page] = g
		} else {
			q.rewind(e)
		}
	}
}

// Drop tells of pages that are not to be fetched any more, or not soon.
func (q *Queue) Drop(entries []frontier.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		q.drop(e.Page)
		if g, out := q.out[e.Page]; out {
			g.first = false
			q.out[e.Page] = g
		}
	}
}

// Done reports that pages were fetched, and that the store has their new places. Call it before Add for those. A page that the
// store has made ready since then, by Promote or for another caller of Add, goes to its place.
func (q *Queue) Done(pages []frontier.PageID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range pages {
		if g := q.out[id]; g.anew {
			q.rewind(g.Entry) // the next batch reads from the store whether it is ready
		}
		delete(q.out, id)
	}
}

// Return reports that pages were not fetched after all: they return to their places.
func (q *Queue) Return(pages []frontier.PageID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range pages {
		q.giveBack(id)
	}
}

// Moved and Settle do nothing: there is one site.
func (q *Queue) Moved(frontier.SiteID) {}
func (q *Queue) Settle() error         { return nil }

// Len returns about how many pages may be fetched now.
func (q *Queue) Len() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.store.Sites(func(_ frontier.SiteID, ready int) error { // its error is that of the function
		n += ready
		return nil
	})
	return max(0, n-len(q.out)) + len(q.first)
}

// Wake returns when the next waiting page becomes ready, in milliseconds since 1970 and not before now; 0 if none waits. If the
// store fails it returns now, so that the next Batch returns the error.
func (q *Queue) Wake(now int64) int64 {
	at, err := q.store.Next()
	switch {
	case err != nil:
		return now
	case at == 0:
		return 0
	}
	return max(at, now)
}
