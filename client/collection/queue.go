package collection

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// Queue returns the queue of pages to fetch. Commit and Apply change its entries.
func (c *Collection) Queue() Queue { return Queue{queueStore{c}} }

// A Queue is a collection's queue of pages to fetch, a frontier.Store. It may be used by many at once.
type Queue struct{ queueStore }

// A queueStore is the queue in the form that package frontier wants.
type queueStore struct{ c *Collection }

func (q queueStore) Sites(f func(frontier.SiteID, int) error) error {
	type row struct {
		site  frontier.SiteID
		ready int
	}
	var list []row
	q.c.index.mu.RLock()
	for _, s := range q.c.index.sites {
		if s.Ready > 0 {
			list = append(list, row{s.ID, s.Ready})
		}
	}
	q.c.index.mu.RUnlock()
	for _, r := range list {
		if err := f(r.site, r.ready); err != nil {
			return err
		}
	}
	return nil
}

func (q queueStore) Ready(id frontier.SiteID) (int, error) {
	s, _ := q.c.SiteByID(id)
	return s.Ready, nil
}

func (q queueStore) Head(site frontier.SiteID, after frontier.Entry, n int) (list []frontier.Entry, err error) {
	c := q.c
	err = c.reading(func(tx *bbolt.Tx) error {
		list, err = c.stage.Head(tx, site, after, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read queue of site %d: %w", site, err)
	}
	return list, nil
}

func (q queueStore) Promote(now int64, n int) ([]frontier.Entry, error) {
	c := q.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []frontier.Entry
	err := c.reading(func(tx *bbolt.Tx) error {
		for e, err := range c.stage.Later(tx, 0) {
			if err != nil || e.At > now {
				return err
			}
			if list = append(list, e); len(list) >= n {
				break
			}
		}
		return nil
	})
	if err == nil && len(list) > 0 {
		err = c.update(func(u *update) error {
			for _, e := range list {
				s, err := u.sites.get(e.Site)
				if err != nil {
					return err
				}
				u.batch.Promote(e)
				s.Ready++
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("promote queue: %w", err)
	}
	return list, nil
}

// Waits reports whether a page waits for its At. A page that was due stays due even if the clock is set back.
func (q Queue) Waits(p *Page) (waits bool, err error) {
	e, ok := p.entry()
	if !ok {
		return true, nil
	}
	err = q.c.reading(func(tx *bbolt.Tx) error {
		waits = q.c.stage.Waits(tx, e)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read queue: %w", err)
	}
	return waits, nil
}

func (q queueStore) Next() (at int64, err error) {
	err = q.c.reading(func(tx *bbolt.Tx) error {
		at, err = q.c.stage.Next(tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read queue: %w", err)
	}
	return at, nil
}

// Denied returns when a page was fetched last, computed from its next visit, if the answer was that it is
// gone, moved or refused, or it has failed too often to be retried soon. It returns the zero time for any
// other page, and while a first 404 waits for the second.
func (q Queue) Denied(p *Page) time.Time {
	a := &q.c.opts.Again
	switch {
	case p.At.IsZero() || p.At.Equal(Never):
	case p.State == Gone:
		return p.At.Add(-a.Gone)
	case p.State == Moved:
		return p.At.Add(-a.Moved)
	case p.State == Refused && p.missing.IsZero():
		return p.At.Add(-a.Refused)
	case p.State == Failing && p.missing.IsZero() && p.Fails > len(a.Failing):
		return p.At.Add(-a.Lost)
	}
	return time.Time{}
}

// farthest returns the longest wait of any visit that is planned now.
func (a *Again) farthest(by fresh.Policy) time.Duration {
	most := max(longestAgain, a.Lost, a.Missing, a.Refused, a.Gone, a.Moved, slices.Max(a.Failing))
	switch p := by.(type) { // aging pages are left alone below, but would have to be read
	case fresh.Priced:
		most = max(most, p.Longest, 90*24*time.Hour)
	case fresh.Thesis:
		most = max(most, p.MaxPeriod, 90*24*time.Hour)
	}
	return most
}

// waitAnew repairs times computed while the clock was ahead: a page that waits for longer than any visit
// planned now, and not by its age (Aging), is due now. In a copy, where few pages wait, so is one whose
// failures began after now.
func (o *opening) waitAnew() error {
	c := o.c
	c.mu.Lock()
	defer c.mu.Unlock()
	now, farthest := c.opts.Now(), c.opts.Again.farthest(c.revisits.Policy())
	ahead := func(p *Page) bool {
		return !c.revisits.Aging(p) && (p.Failed.After(now) || p.At.After(now.Add(farthest)))
	}
	from := now.Add(farthest)
	if c.opts.Site != "" {
		from = now
	}
	var list []frontier.PageID
	err := c.reading(func(tx *bbolt.Tx) error {
		pages := c.view(tx)
		for e, err := range c.stage.Later(tx, record.Milli(from)) {
			if err != nil {
				return err
			}
			var p Page
			if ok, err := pages.page(e.Page, &p); err != nil {
				return err
			} else if ok && ahead(&p) {
				list = append(list, p.ID)
			}
		}
		return nil
	})
	for turn := range slices.Chunk(list, 10_000) {
		if err != nil {
			break
		}
		err = c.update(func(u *update) error {
			for _, id := range turn {
				w, err := u.pages.get(id)
				if err != nil {
					return err
				}
				if w.At, w.planned = u.now, true; w.Failed.After(u.now) {
					w.Failed = u.now
				}
				u.place(w)
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("recompute queue: %w", err)
	}
	return nil
}

func (q queueStore) Rerank(old, new []frontier.Entry) error {
	c := q.c
	if len(old) != len(new) {
		return fmt.Errorf("rerank queue: %d new entries for %d old ones", len(new), len(old))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.update(func(u *update) error {
		for i, o := range old {
			e := new[i]
			rank := queue.Sane(e.Rank)
			if o.Page != e.Page || o.Site != e.Site || o.Rank == rank {
				continue
			}
			w, err := u.pages.get(o.Page)
			if err != nil {
				return err
			}
			if w == nil {
				continue
			}
			own, ok := w.Page.entry()
			if !ok || own.Site != o.Site || own.Rank != o.Rank {
				continue
			}
			if u.batch.Waits(own) {
				continue
			}
			w.rank, w.dirty = rank, true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rerank queue: %w", err)
	}
	return nil
}
