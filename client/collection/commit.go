package collection

import (
	"fmt"
	"math"
	"time"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

var zeroDigest protocol.Digest

// Commit stores t in one transaction: first its sites, then steps, visits with their links and targets, then finds, the
// confirmed, unbelieved and replanned pages, and sources. All of it becomes durable, or, after an error,
// nothing. Of the memory of Visits and Finds only strings are retained.
func (c *Collection) Commit(t *Commit) (Committed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var done *update
	n := len(t.Finds)
	for i := range t.Visits {
		n += len(t.Visits[i].Links)
	}
	c.index.cache.Reset(min(n, 1<<16))
	defer c.index.cache.Reset(0)
	err := c.update(func(u *update) error {
		done = u
		return u.take(t)
	})
	if err != nil {
		return Committed{}, fmt.Errorf("commit: %w", err)
	}
	out := done.out
	out.New, out.Queue, out.Dropped = done.pages.made(), done.batch.Ready, done.batch.Dropped
	return *out, nil
}

func (u *update) take(t *Commit) error {
	for i := range t.Sites {
		if err := u.takeSite(&t.Sites[i]); err != nil {
			return err
		}
	}
	for _, s := range t.Steps {
		if err := u.step(s, t); err != nil {
			return fmt.Errorf("step of source %d: %w", s.Source, err)
		}
	}
	visited := make([]*work, len(t.Visits))
	u.out.Visited = make([]Visited, len(t.Visits))
	for i := range t.Visits {
		w, err := u.visit(&t.Visits[i], &u.out.Visited[i])
		if err != nil {
			return fmt.Errorf("visit of page %d: %w", t.Visits[i].Page, err)
		}
		visited[i] = w
	}
	for i := range t.Finds {
		if _, err := u.find(&t.Finds[i]); err != nil {
			return err
		}
	}
	for _, id := range t.Confirmed {
		if err := u.confirmed(id); err != nil {
			return err
		}
	}
	for _, id := range t.Unbelieved {
		if err := u.unbelieved(id); err != nil {
			return err
		}
	}
	for _, id := range t.Replanned {
		if err := u.replanned(id); err != nil {
			return err
		}
	}
	for i := range t.Sources {
		if err := u.source(t.Sources[i]); err != nil {
			return err
		}
	}
	for i, w := range visited {
		u.out.Visited[i].Page = w.Page
	}
	if t.Steering != nil {
		return putSteering(u.tx, t.Steering)
	}
	return nil
}

// step stores a step, and adds the visits of the pages that are pending by it.
func (u *update) step(s *Step, t *Commit) error {
	s.Applied = Applied{Foreign: s.Step.Skipped}
	a := &applying{u: u, o: s.Options, by: s.By, a: &s.Applied, step: &s.Step}
	if err := a.apply(s.Source); err != nil {
		return err
	}
	if !s.Step.Cursor.IsZero() {
		delete(u.c.naming, s.Source)
	}
	for _, v := range s.Visits {
		w, err := u.pages.get(v.Page)
		switch {
		case err != nil:
			return err
		case w == nil || !w.Told || w.Debt != v.Want || w.State == Excluded:
			s.Unwanted = append(s.Unwanted, v.Page)
			continue
		}
		v.Asked, v.Claimed = u.now, w.claimed
		t.Visits = append(t.Visits, v)
	}
	return nil
}

// confirmed stores that a page is unchanged, since its site would have announced a change. The wait for the
// next visit begins anew: otherwise a page that is old, or seldom visited, would be confirmed again and again.
func (u *update) confirmed(id frontier.PageID) error {
	w, err := u.pages.get(id)
	if err != nil || w == nil || w.State != Held || w.Told || w.visited || w.Visits == 0 {
		return err
	}
	w.History = w.History.Confirm(u.now)
	p := u.believed(w)
	p.Last = u.now
	w.At, w.planned = keepable(u.c.revisits.Policy().Next(&p, u.now)), true
	if least := u.now.Add(u.c.opts.hurried(leastWait)); w.At.Before(least) {
		w.At = least
	}
	u.place(w)
	return nil
}

// unbelieved drops the pending fetch of a page whose announcements are worth nothing.
func (u *update) unbelieved(id frontier.PageID) error {
	w, err := u.pages.get(id)
	if err != nil || w == nil || !w.Told || w.visited || w.Visits == 0 {
		return err
	}
	w.settle()
	w.planned, w.dirty = false, true
	u.plan(w)
	return nil
}

// replanned lets the policy decide again about a page that waits because of its age, or of an announcement.
func (u *update) replanned(id frontier.PageID) error {
	w, err := u.pages.get(id)
	if err != nil || w == nil || w.visited || !u.c.revisits.Aging(&w.Page) {
		return err
	}
	w.planned = false
	u.plan(w)
	return nil
}

// takeSite stores the fields of a site that the crawler maintains.
func (u *update) takeSite(in *Site) error {
	var s *Site
	var err error
	if in.ID != 0 {
		s, err = u.sites.get(in.ID)
	} else if origin, _, ok := split(in.Origin + "/"); ok {
		s = u.sites.of(origin)
	}
	if err != nil {
		return err
	}
	if s == nil {
		u.out.Refused++
		return nil
	}
	if in.IP.IsValid() && in.Resolved.After(s.Resolved) {
		s.IP, s.Resolved = in.IP, in.Resolved
	}
	s.Delay, s.Soft404, s.Fault, s.FaultAt, s.Quiet = in.Delay, in.Soft404, record.Clip(in.Fault, maxFault), in.FaultAt, in.Quiet
	s.Trust, s.Shape, s.Families, s.Belief = clone(in.Trust), clone(in.Shape), clone(in.Families), in.Belief
	return nil
}

// leastWait is the shortest time between two visits without an announcement, whatever the policy says.
const leastWait = time.Second

// plan decides when a page is fetched next, unless that is decided, and its place in the queue.
func (u *update) plan(w *work) {
	w.Heard.Notified = w.Told
	if !w.planned {
		switch {
		case w.State == Excluded:
			w.At = Never
		case w.Visits == 0 || w.Told && (w.Signal == ByPerson || !w.has()):
			w.At = time.Time{}
		default:
			p := u.believed(w)
			w.At = u.c.revisits.Policy().Next(&p, u.now)
			if w.Told && !w.At.After(u.now) {
				w.At = time.Time{}
			} else if least := w.Last.Add(u.c.opts.hurried(leastWait)); w.At.Before(least) {
				w.At = least
			}
			w.At = keepable(w.At)
		}
	}
	u.place(w)
}

// place sets a page's value and rank in the queue for a visit at its At.
func (u *update) place(w *work) {
	w.dirty = true
	at := u.now
	if w.At.After(at) {
		at = w.At
	}
	if w.At.Equal(Never) {
		w.Value = 0
	} else {
		w.Value = worth(u.c.revisits.Policy(), u.believed(w), at)
	}
	w.rank = u.rank(w)
}

// sooner makes a page due at a time, if it would be due later.
func (u *update) sooner(w *work, at time.Time) {
	if at = keepable(at); at.Before(w.At) && !w.Told {
		w.At, w.dirty = at, true
		u.place(w)
	}
}

// said stores the claim made about a page.
func (u *update) said(w *work, item *protocol.Item) {
	w.claim, w.claimed, w.said, w.span = item.Digest, u.now, keepable(item.Modified), item.Span
	w.dirty = true
}

// keepable reduces a time to the range and precision that are stored.
func keepable(t time.Time) time.Time {
	if t.After(Never) || t.Year() > 9999 {
		return Never
	}
	return record.Time(record.Milli(t))
}

// believed returns the page as the policy sees it.
func (u *update) believed(w *work) fresh.Page {
	return u.c.revisits.Believed(&w.Page, u.sites.at(w.Site))
}

// worth returns the expected gain of a visit at a time (V06).
func worth(p fresh.Policy, q fresh.Page, at time.Time) float32 {
	return queue.Sane(float32(p.Profit(&q, at)))
}

// rank asks the strategy for a page's rank in the queue.
func (u *update) rank(w *work) float32 {
	f := frontier.Facts{Page: w.ID, Depth: w.Depth, Value: w.Value, Told: w.Told, Start: w.isNew && w.By == ByPerson}
	if s, ok := u.c.opts.Strategy.(frontier.Sharer); ok && !w.isNew {
		f.Cash = s.Cash(w.rank) // the frontier keeps the cash in the rank
		if w.visited && w.State != Failing {
			_, kept := s.Pass(float64(f.Cash), 1) // and has distributed the rest
			f.Cash = float32(kept)
		}
	}
	return queue.Sane(u.c.opts.Strategy.Page(f))
}

// share returns an importance as a number; NaN if it is not valid.
func share(i protocol.Importance) float32 {
	if s, ok := i.Share(); ok {
		return float32(s)
	}
	return float32(math.NaN())
}
