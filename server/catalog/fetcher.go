package catalog

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/inventory"
)

const (
	maxQueue   = 10_000 // pages in the queue; more are found when these are done
	maxWorkers = 8      // pages fetched at once, if the rate requires it

	troubles   = 5           // failures of the server in a row before fetching pauses
	leaveAlone = time.Minute // length of that pause

	tellAfter = 500 * time.Millisecond // answers this close together are reported together
)

// A fetcher fetches the pages that are due.
type fetcher struct {
	catalog *Catalog
	opts    Fetch
	client  fetch.Client
	ledger  ledger
	pace    pace
	wake    chan struct{} // the sources were read
	running atomic.Bool   // Watch is fetching

	mu      sync.Mutex // guards what follows
	queue   queue
	trouble int       // failures of the server in a row
	quiet   time.Time // nothing is fetched before then
}

// A queue has the pages to fetch next.
type queue struct {
	due    []due           // in reverse: the next page is the last element
	more   bool            // more pages are due than the queue holds
	replan bool            // there may be something more urgent
	flying map[string]bool // being fetched
}

// A due is a page to be fetched.
type due struct {
	offer inventory.Offer
	claim claim
}

// A pace keeps fetches apart. Its method may be called by many goroutines at once.
type pace struct {
	every time.Duration

	slot  sync.Mutex // its holder waits until after
	after time.Time  // the earliest time of the next fetch; guarded by slot
}

// await waits until the next fetch may begin.
func (p *pace) await(ctx context.Context) bool {
	p.slot.Lock()
	defer p.slot.Unlock()
	if wait := time.Until(p.after); wait > 0 && !pause.For(ctx, wait) {
		return false
	}
	p.after = time.Now().Add(p.every)
	return ctx.Err() == nil
}

func newFetcher(c *Catalog) *fetcher {
	f := &fetcher{catalog: c, opts: *c.Fetch, wake: make(chan struct{}, 1),
		queue: queue{flying: make(map[string]bool)},
		ledger: ledger{partial: slices.ContainsFunc(c.Sources, Source.Partial), recheck: cmp.Or(max(c.Fetch.Recheck, 0), 24*time.Hour), seed: maphash.MakeSeed(),
			pages: make(map[uint64]*page), answers: make(map[string]answer)}}
	if !(f.opts.Rate > 0) {
		f.opts.Rate = 2
	}
	f.pace.every = time.Duration(min(float64(time.Second)/f.opts.Rate, float64(math.MaxInt64/2)))
	f.opts.MaxBytes = cmp.Or(max(f.opts.MaxBytes, 0), 16_000_000)
	f.client = fetch.Client{Agent: userAgent, Timeout: cmp.Or(max(c.Fetch.Timeout, 0), 20*time.Second), MaxBytes: f.opts.MaxBytes}
	if c.Fetch.Client != nil {
		f.client.Transport = c.Fetch.Client.Transport
	}
	return f
}

// beforeLook prepares for a scan: it fetches the pages that are due, unless Watch does.
func (f *fetcher) beforeLook(ctx context.Context, whole bool) error {
	if err := f.ledger.load(ctx, f.catalog.Journal); err != nil {
		return err
	}
	if whole {
		f.fetchForLook(ctx)
	}
	return errors.Join(ctx.Err(), f.ledger.verify(f.catalog.Journal))
}

// fetchForLook fetches the pages that are due, within the Budget of one scan.
func (f *fetcher) fetchForLook(ctx context.Context) {
	if f.running.Load() && f.catalog.Journal.Whole() {
		f.mu.Lock()
		f.queue.replan = true
		f.mu.Unlock()
		pause.Wake(f.wake)
		return
	}
	waiting := f.plan()
	before := time.Now()
	f.work(ctx, before.Add(cmp.Or(max(f.opts.Budget, 0), time.Minute)))
	waiting -= len(f.ledger.report(!f.running.Load())) // while Watch runs, this scan may be of another part
	if waiting > 0 {
		f.catalog.log().Info("pages left for the next scan to fetch", "pages", waiting, "fetched_for", time.Since(before).Round(time.Second))
	}
}

// plan queues the pages that are due, and returns their number.
func (f *fetcher) plan() (waiting int) {
	border := &f.catalog.site.border
	rules := border.rules.Current()
	readings := f.catalog.site.listing.present()
	if rules == nil || slices.Contains(readings, nil) {
		return 0
	}
	now := f.catalog.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh, known := f.ledger.due(readings, now, func(url string) bool { return f.queue.flying[url] || border.left(rules, url) != "" })
	waiting = len(fresh) + len(known)
	q := &f.queue
	q.due = q.due[:0]
	for i := 0; len(q.due) < maxQueue && (i < len(fresh) || i < len(known)); i++ {
		for _, list := range [][]candidate{known, fresh} {
			if i >= len(list) {
				continue
			}
			x := list[i]
			url := strings.Clone(x.reading.url(x.i))
			e, record := x.reading.entry(x.i)
			q.due = append(q.due, due{e.offer(url, border.place(url), now), claimOf(record)})
		}
	}
	q.more, q.replan = waiting > len(q.due), false
	slices.Reverse(q.due)
	return waiting
}

// work fetches the pages in the queue, until the queue is empty, a time has come, ctx ends, or the server is
// in trouble.
func (f *fetcher) work(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	workers := 1
	if i := f.pace.every; i < time.Second {
		workers = min(maxWorkers, int(time.Second/max(i, time.Millisecond)))
	}
	var owned sync.WaitGroup
	for range workers {
		owned.Go(func() {
			for f.step(ctx) {
			}
		})
	}
	owned.Wait()
}

// step fetches the next page, and reports whether there may be another.
func (f *fetcher) step(ctx context.Context) bool {
	if !f.pace.await(ctx) {
		return false
	}
	f.mu.Lock()
	q := &f.queue
	if len(q.due) == 0 || q.replan || f.rests() {
		f.mu.Unlock()
		return false
	}
	d := q.due[len(q.due)-1]
	q.due = q.due[:len(q.due)-1]
	url := d.offer.URL
	if q.flying[url] {
		f.mu.Unlock()
		return true
	}
	q.flying[url] = true
	f.mu.Unlock()

	a := f.fetch(ctx, d.offer, d.claim)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(q.flying, url)
	if ctx.Err() != nil && a.err != nil {
		return false // cancelled
	}
	now := f.catalog.now()
	f.ledger.note(d, a, now, f.running.Load())
	f.judge(url, a, now)
	return true
}

// rests reports whether nothing is fetched at present. The caller holds mu.
func (f *fetcher) rests() bool { return f.ledger.isFull() || f.catalog.now().Before(f.quiet) }

// judge pauses fetching if the server is in trouble. The caller holds mu.
func (f *fetcher) judge(url string, a answer, now time.Time) {
	if a.failed() {
		f.catalog.log().Debug("page could not be fetched: its stored state is kept", "url", url, "err", a.err)
	}
	if !a.trouble {
		f.trouble = 0
		return
	}
	if f.trouble++; f.trouble >= troubles || a.retry > 0 {
		wait := max(a.retry, leaveAlone)
		f.quiet, f.trouble = now.Add(wait), 0
		f.catalog.log().Warn("the site keeps failing: page fetches are paused", "url", url, "err", a.err, "again_in", wait)
	}
}

// run fetches until ctx ends, plans anew at least every so often, and reports which parts of the site are to be scanned.
func (f *fetcher) run(ctx context.Context, every time.Duration, dirty func([]inventory.Scope)) {
	f.running.Store(true)
	defer f.running.Store(false)
	var owned sync.WaitGroup
	defer owned.Wait()
	owned.Go(func() { f.tell(ctx, dirty) })
	for ctx.Err() == nil {
		if f.plan() > 0 {
			f.work(ctx, time.Now().Add(every))
			if f.hasMore() {
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-time.After(every):
		}
	}
}

// hasMore reports whether there is something to fetch right now.
func (f *fetcher) hasMore() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return (len(f.queue.due) > 0 || f.queue.more || f.queue.replan) && !f.rests()
}

// tell calls dirty with the scopes of fetched pages, every tellAfter.
func (f *fetcher) tell(ctx context.Context, dirty func([]inventory.Scope)) {
	t := time.NewTicker(tellAfter)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		untold := f.ledger.report(true)
		scopes := make([]inventory.Scope, 0, len(untold))
		for _, url := range untold {
			scopes = append(scopes, inventory.ScopeOf(url))
		}
		slices.SortFunc(scopes, func(a, b inventory.Scope) int { return strings.Compare(a.Prefix, b.Prefix) })
		if scopes = slices.Compact(scopes); len(scopes) > 0 {
			dirty(scopes)
		}
	}
}
