package crawl

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/equal"
	"github.com/parleyweb/parley/client/crawl/internal/explain"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
)

// A result is what one response, or another event, contributes to a collection.Commit.
type result struct {
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
	step       *collection.Step  // with pages that came with it, whose visits are not in visits
	fetch      func()            // begins to fetch the pages of step, which waits for them; called once the result is in the inbox
	busy       int               // subtracted from work.busy by the commit
	done       chan<- error      // receives the result of the commit; may be nil
}

const (
	commitSize  = 1000                   // visits in a commit, about
	commitBytes = 4 << 20                // of bodies in a commit, about; as many more are fetched during the commit
	linger      = 500 * time.Millisecond // until reads that do not fill a commit are committed
	quiet       = 30 * time.Millisecond  // the same where nothing else is to be fetched, and no further read has come meanwhile
)

// The committer commits the results of reading, and then updates the state that depends on them, under the work's lock.
type committer struct {
	c        *setup
	work     *work
	in       *inbox
	front    queue
	ranks    *rank.Ranks
	sites    *siteTable
	judge    *judgement.Judge
	equal    *equal.Pages
	families *families
	plan     planner
	count    *counters

	flushed time.Time // last time that site records were stored
}

// run commits the reads of the inbox, many at once, until the inbox is closed.
func (k *committer) run() error {
	timer := time.NewTimer(linger)
	timer.Stop()
	var batch []result
	var began time.Time // when the first read of the next commit had come, zero if none has
	for had := 0; ; {
		expired := false
		select {
		case <-k.in.Wake:
		case <-timer.C:
			expired = true
		}
		idle, tasks := k.in.Idle.Load(), math.MaxInt
		if idle {
			k.work.Lock()
			tasks = k.work.busy // if all of these have ended, there is nothing to wait for
			k.work.Unlock()
		}
		n, ready, closed := k.in.State(tasks)
		// It waits for more reads: half a second, or while they come where there is nothing else to fetch.
		more := began.IsZero() || !expired || (n > had || !idle) && time.Since(began) < k.c.hurried(linger)
		switch {
		case n == 0 && closed:
			return k.commit(nil, true)
		case n == 0:
			continue
		case !ready && !closed && more:
			if began.IsZero() {
				began, expired = time.Now(), true
			}
			if expired {
				had = n
				timer.Reset(k.c.hurried(quiet))
			}
			continue
		}
		timer.Stop()
		began = time.Time{}
		batch = k.in.Take(batch[:0])
		err := k.commit(batch, false)
		for i := range batch {
			batch[i].End(err)
		}
		if err != nil {
			k.work.fail(err)
			k.in.Fail(err)
			return err
		}
		clear(batch)
		if closed { // there will be no further wake
			return k.commit(nil, true)
		}
		k.work.checkStop(k.c.Stop.reached(k.count, time.Now()))
		k.work.rouse()
	}
}

// commit stores a list of reads in one transaction, and then updates the frontier and the sites.
func (k *committer) commit(list []result, last bool) error {
	work, front, sites := k.work, k.front, k.sites
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
		if x.step != nil {
			t.Steps = append(t.Steps, x.step)
		}
		t.Sources = append(t.Sources, x.sources...)
		busy += x.busy
	}
	work.Lock()
	refused := k.families.refuse(&t)
	t.Sites = k.changedSites(time.Now(), last)
	t.Sources = append(t.Sources, sites.changedSources()...)
	work.Unlock()
	done, err := k.c.Collection.Commit(&t)
	if err != nil {
		return err
	}
	if err := k.ranks.Learn(&done); err != nil {
		return err
	}
	work.Lock()
	defer work.Unlock()
	work.busy -= busy
	asked := make([]frontier.PageID, len(t.Visits))
	for i := range t.Visits {
		asked[i] = t.Visits[i].Page
		delete(work.out, asked[i])
	}
	front.Done(slices.Concat(asked, t.Confirmed, t.Unbelieved, t.Replanned))
	for i, id := range asked {
		front.Return(k.equal.Visited(id, &t.Visits[i], &done.Visited[i]))
	}
	for i := range list {
		x := &list[i]
		if x.step != nil {
			x.again = x.step.Unwanted
		}
		for _, id := range x.again {
			delete(work.out, id)
			k.plan.returned(id)
			front.Return(k.equal.Visited(id, nil, nil))
		}
		k.judge.NotFetched(x.again)
		k.families.notTried(x.again)
		front.Return(x.again)
		if x.source != nil {
			x.source.Source = x.state
			x.source.site.asking--
			sites.plan(x.source, x.state.At)
		}
	}
	for i := range done.Visited {
		k.plan.returned(asked[i])
		k.visited(&t.Visits[i], &done.Visited[i])
		front.Moved(done.Visited[i].Page.Site)
	}
	for i := range done.Sources {
		if st := sites.of(done.Sources[i].Site); st != nil {
			sites.adopt(st, done.Sources[i])
		}
	}
	for i := range done.New {
		sites.of(done.New[i].Site)
	}
	k.count.New.Add(int64(len(done.New)))
	sites.tally(&t, &done)
	k.families.learn(&t, &done, pairs, refused)
	front.Drop(done.Dropped)
	front.Add(done.Queue)
	return nil
}

// changedSources returns the changed records of followed sources. The work's lock is held.
func (t *siteTable) changedSources() (list []collection.Source) {
	for src := range t.dirtySources {
		if src.ID != 0 {
			s := src.Source
			if c := src.follow.choice; c.As != "" {
				s.As, s.Why = c.As, c.Why
			}
			list = append(list, s)
		}
	}
	clear(t.dirtySources)
	return list
}

// flushEvery is how often site records, which change with every page, are stored.
const flushEvery = 10 * time.Second

// changedSites returns the site records to be stored: none until flushEvery has passed since the last time, unless all is set. The work's lock is held.
func (k *committer) changedSites(now time.Time, all bool) (list []collection.Site) {
	if !all && now.Sub(k.flushed) < k.c.hurried(flushEvery) {
		return nil
	}
	k.flushed = now
	for st := range k.sites.dirty {
		st.Trust = k.judge.Recorded(st.standing)
		st.Shape = k.c.Seeder.Shape(st.Origin)
		if st.families != nil {
			st.Families = st.families.Append(nil)
		}
		list = append(list, st.Site)
	}
	clear(k.sites.dirty)
	return list
}

// visited evaluates a visit: it judges the announcement that led to it, charges the
// budget, and updates the estimates of the site. The work's lock is held.
func (k *committer) visited(v *collection.Visit, d *collection.Visited) {
	st := k.sites.byID[d.Page.Site]
	if st == nil {
		return
	}
	switch {
	case v.Status == http.StatusTooManyRequests || v.Status == http.StatusServiceUnavailable: // for all pages
		k.sites.failed(st, strings.ToLower(http.StatusText(v.Status)))
	case v.Status != 0:
		st.silences = 0
		k.sites.recovered(st)
	case v.Silent:
		k.sites.failed(st, v.Fault)
	}
	if k.c.Only != "" { // each visit of a copy is logged
		explain.LogVisit(k.c.Log, v, d)
	}
	if d.Page.Told && d.Page.At.IsZero() { // announced again while it was being fetched
		k.front.First(frontier.Entry{Page: d.Page.ID, Site: d.Page.Site})
	}
	if d.Changed {
		k.count.Changed.Add(1)
	}
	if d.Duplicate {
		k.count.Duplicates.Add(1)
	}
	switch {
	case v.Delivered || v.Status == 0 || d.Before.Visits == 0:
	case d.Asked > 0:
		k.count.Again.Add(1)
	case !d.Before.Heard.Notified && st.sources.publisher != nil:
		k.count.Audits.Add(1)
	}
	of, news := k.judge.Visited(st.standing, v, d)
	if news {
		k.sites.touch(st)
	}
	if k.plan.visited(st, v, d, &of) {
		k.judge.Found(st.standing, v, d)
	}
	if v.Fault == "" && d.Before.Visits > 0 && (gather.IsPage(v.Status) || v.Status == http.StatusNotModified) && !v.Soft404 {
		k.judge.SeenDates(st.standing, v, d, st.sources.read, st.polled)
	}
}
