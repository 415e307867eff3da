package crawl

import (
	"net/http"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A read is the result of a response or of other news: part of a collection.Commit.
type read struct {
	visits  []collection.Visit
	pairs   []uint32 // word pairs of the page of the only visit; nil if unknown
	finds   []collection.Find
	source  *source // a fetched source; its new record is in state
	state   collection.Source
	sources []collection.Source // new ones
	again   []frontier.PageID   // not fetched after all

	// confirmed are pages that need no visit: their site would have announced a change.
	confirmed []frontier.PageID

	unbelieved []frontier.PageID // announced by a source that was found to lie
	replanned  []frontier.PageID // not worth a visit yet
	answer     *harvest.Answer   // released after the commit
	busy       int               // subtracted from run.busy by the commit
	done       chan<- error      // receives the result of the commit; may be nil
}

const (
	commitSize  = 1000                   // visits in a commit, about
	commitBytes = 4 << 20                // of bodies in a commit, about; as many more are fetched during the commit
	linger      = 300 * time.Millisecond // until reads that do not fill a commit are committed

	shortLinger = 10 * time.Millisecond // the same where nothing else is to be fetched
)

// keep commits the reads of the inbox, many at once, until the inbox is closed. It is the keeper's loop.
func (r *run) keep() error {
	timer := time.NewTimer(linger)
	timer.Stop()
	var turn []read
	for waiting := false; ; {
		hurry := false
		select {
		case <-r.in.wake:
		case <-timer.C:
			waiting, hurry = false, true
		case <-r.in.hurry:
			hurry = true
		}
		some, full, busy, urgent, closed := r.in.state()
		switch {
		case !some && closed:
			return r.commit(nil, true)
		case !some:
			continue
		case !full && !urgent && !closed && !hurry && !r.last(busy):
			if !waiting {
				waiting = true
				timer.Reset(r.linger())
			}
			continue
		}
		timer.Stop()
		waiting = false
		turn = r.in.take(turn[:0])
		err := r.commit(turn, false)
		for i := range turn {
			turn[i].end(err)
		}
		if err != nil {
			r.work.fail(err)
			r.in.fail(err)
			return err
		}
		clear(turn)
		if closed { // there will be no further wake
			return r.commit(nil, true)
		}
		r.work.checkStop(r.Stop.reached(r.count, time.Now()))
		r.work.rouse()
	}
}

// last reports whether nothing else is under way, so that waiting adds nothing to the commit.
func (r *run) last(busy int) bool {
	if !r.in.idle.Load() {
		return false
	}
	r.work.Lock()
	defer r.work.Unlock()
	return busy >= r.work.busy
}

// linger is how long a commit that is not full may wait for more reads.
func (r *run) linger() time.Duration {
	if r.in.idle.Load() { // the Manager may be waiting for just this
		return shortLinger
	}
	return r.hurried(linger)
}

// commit stores a list of reads in one transaction, and then updates the frontier and the sites.
func (r *run) commit(list []read, last bool) error {
	var t collection.Commit
	busy, pairs := 0, map[int][]uint32{} // by visit
	for i := range list {
		x := &list[i]
		if x.pairs != nil {
			pairs[len(t.Visits)] = x.pairs
		}
		t.Visits = append(t.Visits, x.visits...)
		t.Finds = append(t.Finds, x.finds...)
		t.Confirmed = append(t.Confirmed, x.confirmed...)
		t.Unbelieved = append(t.Unbelieved, x.unbelieved...)
		t.Replanned = append(t.Replanned, x.replanned...)
		if x.source != nil {
			t.Sources = append(t.Sources, x.state)
		}
		t.Sources = append(t.Sources, x.sources...)
		busy += x.busy
	}
	r.work.Lock()
	refused := r.families.refuse(&t)
	t.Sites = r.changedSites(time.Now(), last)
	t.Sources = append(t.Sources, r.sites.changedSources()...)
	r.work.Unlock()
	done, err := r.Collection.Commit(&t)
	if err != nil {
		return err
	}
	r.work.Lock()
	defer r.work.Unlock()
	r.work.busy -= busy
	asked := make([]frontier.PageID, len(t.Visits))
	for i := range t.Visits {
		asked[i] = t.Visits[i].Page
	}
	for _, id := range asked {
		delete(r.work.out, id)
	}
	r.front.Done(asked)
	r.front.Done(t.Confirmed)
	r.front.Done(t.Unbelieved)
	r.front.Done(t.Replanned)
	for i, id := range asked {
		r.front.Return(r.equal.learn(id, &t.Visits[i], &done.Visited[i]))
	}
	for i := range list {
		for _, id := range list[i].again {
			delete(r.work.out, id)
			r.front.Return(r.equal.learn(id, nil, nil))
		}
		r.judge.unasked(list[i].again)
		r.families.notTried(list[i].again)
		r.front.Return(list[i].again)
	}
	for i := range list {
		if x := &list[i]; x.source != nil {
			x.source.Source = x.state
			x.source.site.asking--
			r.sites.plan(x.source, x.state.At)
		}
	}
	for i := range done.Visited {
		r.visited(&t.Visits[i], &done.Visited[i])
	}
	for i := range done.Sources {
		if st := r.sites.of(done.Sources[i].Site); st != nil {
			r.sites.adopt(st, done.Sources[i])
		}
	}
	for i := range done.New {
		r.sites.of(done.New[i].Site)
	}
	r.count.New.Add(int64(len(done.New)))
	r.sites.tally(&t, &done)
	r.families.learn(&t, &done, pairs, refused)
	if err := r.share(&t, &done); err != nil {
		return err
	}
	r.front.Drop(done.Dropped)
	r.front.Add(done.Queue)
	return nil
}

// tally tells the Seeder what was found on each site at each depth (B11), by
// which it decides how deep to crawl the site. The run's lock is held.
func (t *siteTable) tally(did *collection.Commit, done *collection.Committed) {
	type place struct {
		origin  string
		depth   int
		dynamic bool
	}
	found := map[place]*seed.Tally{}
	at := func(url string, depth int, dynamic bool) *seed.Tally {
		p := place{protocol.Origin(url), depth, dynamic}
		n := found[p]
		if n == nil {
			n = &seed.Tally{Depth: depth, Dynamic: dynamic}
			found[p] = n
		}
		return n
	}
	for i := range did.Visits {
		if done.Visited[i].Duplicate {
			p := &done.Visited[i].Page
			at(p.URL, p.Depth, p.Dynamic).Duplicates++
			continue
		}
		for j := range did.Visits[i].Links {
			f := &did.Visits[i].Links[j]
			at(f.URL, f.Depth, f.Dynamic).Seen++
		}
	}
	for i := range done.New {
		p := &done.New[i]
		depth := p.Depth
		if p.By != collection.ByLink {
			depth = -1
		}
		n := at(p.URL, depth, p.Dynamic)
		n.New++
		n.Seen = max(0, n.Seen-1)
	}
	for p, n := range found {
		t.c.Seeder.Count(p.origin, *n)
		if st := t.byOrigin[p.origin]; st != nil {
			st.Pages += n.New
			t.touch(st)
		}
	}
}

// share distributes the cash of fetched pages to the pages that they link to,
// where the frontier is ordered by cash (L06).
func (r *run) share(t *collection.Commit, done *collection.Committed) error {
	if _, ok := r.Strategy.(frontier.Sharer); !ok {
		return nil
	}
	for i := range done.Visited {
		d := &done.Visited[i]
		if t.Visits[i].Status != http.StatusOK || t.Visits[i].Fault != "" {
			continue
		}
		to, err := r.Collection.Links(d.Page.ID)
		if err != nil {
			return err
		}
		var fresh float32
		if d.Before.Visits == 0 {
			fresh = 1
		}
		if err := r.front.Share(d.Page.ID, fresh, to); err != nil {
			return err
		}
	}
	return nil
}

// changedSources returns the changed records of followed sources. The run's lock is held.
func (t *siteTable) changedSources() (list []collection.Source) {
	for src := range t.dirtySources {
		if src.ID != 0 {
			s := src.Source
			if c := src.choice; c.As != "" {
				s.As, s.Why = c.As, c.Why
			}
			list = append(list, s)
		}
	}
	clear(t.dirtySources)
	return list
}
