package collection

import (
	"fmt"
	"math"
	"time"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

var zeroDigest protocol.Digest

// Commit takes a turn in: first its sites, then what was visited, with the links and
// the target of each, then finds, what is confirmed, and sources. All of it becomes durable,
// or, after an error, none. What the Visits and Finds hold is not kept, but
// strings.
func (c *Collection) Commit(t *Turn) (Committed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out *Committed
	n := len(t.Finds)
	for i := range t.Visits {
		n += len(t.Visits[i].Links)
	}
	c.table.reset(min(n, 1<<16))
	defer c.table.reset(0)
	err := c.update(func(u *update) error {
		out = u.out
		return u.take(t)
	})
	if err != nil {
		return Committed{}, fmt.Errorf("commit turn: %w", err)
	}
	return *out, nil
}

func (u *update) take(t *Turn) error {
	for i := range t.Sites {
		if err := u.takeSite(&t.Sites[i]); err != nil {
			return err
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
	for i := range t.Sources {
		if err := u.source(t.Sources[i]); err != nil {
			return err
		}
	}
	for i, w := range visited {
		u.out.Visited[i].Page = w.Page
	}
	u.finish = func() {
		u.out.New = u.newPages()
		u.out.Queue, u.out.Dropped = u.queue, u.dropped
	}
	return nil
}

// confirmed takes in that a page is what it was, since nobody has told otherwise
// who would. Its periods begin anew: a page that is old, or is seldom
// asked for, would else be confirmed again and again.
func (u *update) confirmed(id frontier.PageID) error {
	w, err := u.get(id)
	if err != nil || w == nil || w.State != Held || w.Told || w.visited || w.Visits == 0 {
		return err
	}
	w.History = w.History.Confirm(u.now)
	h := w.History
	h.Last = u.now
	w.At, w.planned = keepable(u.c.opts.Policy.Next(h, u.quality(w), u.now)), true
	if least := u.now.Add(leastWait); w.At.Before(least) {
		w.At = least
	}
	u.place(w)
	return nil
}

// unbelieved takes in that what was told of a page is worth nothing.
func (u *update) unbelieved(id frontier.PageID) error {
	w, err := u.get(id)
	if err != nil || w == nil || !w.Told || w.visited || w.Visits == 0 {
		return err
	}
	w.settle()
	w.History.Told = false
	w.planned, w.dirty = false, true
	u.plan(w)
	return nil
}

func (u *update) newPages() []Page {
	if len(u.fresh) == 0 {
		return nil
	}
	list := make([]Page, len(u.fresh))
	for i, w := range u.fresh {
		list[i] = w.Page
	}
	return list
}

// takeSite takes over what others know of a site.
func (u *update) takeSite(in *Site) error {
	var s *Site
	var err error
	if in.ID != 0 {
		s, err = u.site(in.ID)
	} else if origin, _, ok := split(in.Origin + "/"); ok {
		s = u.siteOf(origin)
	}
	if err != nil {
		return err
	}
	if s == nil {
		u.out.Refused++
		return nil
	}
	s.Delay, s.Soft404, s.Fault, s.FaultAt, s.Quiet = in.Delay, in.Soft404, clip(in.Fault, maxFault), in.FaultAt, in.Quiet
	s.Trust, s.Shape = clone(in.Trust), clone(in.Shape)
	return nil
}

// leastWait is the least time between two visits that nobody has asked for,
// whatever the policy says.
const leastWait = time.Second

// plan decides when a page is asked for next, if that is not decided, and
// where it stands in the queue.
func (u *update) plan(w *work) {
	w.History.Told = w.Told
	if !w.planned {
		switch {
		case w.State == Excluded:
			w.At = Never
		case w.Told || w.Visits == 0:
			w.At = time.Time{}
		default:
			w.At = u.c.opts.Policy.Next(w.History, u.quality(w), u.now)
			if least := w.Last.Add(leastWait); w.At.Before(least) {
				w.At = least
			}
			w.At = keepable(w.At)
		}
	}
	u.place(w)
}

// place decides where a page stands in the queue when it is asked for at its At.
func (u *update) place(w *work) {
	w.dirty = true
	at := u.now
	if w.At.After(at) {
		at = w.At
	}
	if w.At.Equal(Never) {
		w.Value = 0
	} else {
		w.Value = u.c.worth(&w.Page, u.siteAt(w.Site), at)
	}
	w.rank = u.rank(w)
}

// keepable brings a time to what is kept of it.
func keepable(t time.Time) time.Time {
	if t.After(Never) || t.Year() > 9999 {
		return Never
	}
	return fromMilli(toMilli(t))
}

func (u *update) quality(w *work) float64 { return u.c.opts.Quality(&w.Page, u.siteAt(w.Site)) }

// worth is what a visit at a time gains (V06).
func (c *Collection) worth(p *Page, s *Site, at time.Time) float32 {
	v := float32(c.opts.Policy.Profit(p.History, c.opts.Quality(p, s), at))
	if v != v {
		return 0
	}
	return v
}

// rank asks the strategy for the place of a page in the queue.
func (u *update) rank(w *work) float32 {
	f := frontier.Facts{Page: w.ID, Depth: w.Depth, Value: w.Value, Cash: w.Cash, Dynamic: w.Dynamic, Told: w.Told}
	if s, ok := u.c.opts.Strategy.(frontier.Sharer); ok && !w.isNew {
		f.Cash = s.Cash(w.rank) // the frontier keeps it there
		if w.visited {
			f.Cash = 0 // and has given it away
		}
	}
	return sane(u.c.opts.Strategy.Page(f))
}

// share reads an importance; what is none is unknown.
func share(i protocol.Importance) float32 {
	if s, ok := i.Share(); ok {
		return float32(s)
	}
	return float32(math.NaN())
}
