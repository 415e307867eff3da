package catalog

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/inventory"
)

const (
	maxQueue   = 10_000 // pages in the queue; more are found when these are done
	maxAnswers = 1000   // answers that wait for a scan
	maxWorkers = 8      // pages fetched at once, if the rate requires it

	againLeast = 30 * time.Second // before a failed page is fetched again; doubled each time
	troubles   = 5                // failures of the server in a row before fetching pauses
	leaveAlone = time.Minute      // length of that pause

	tellAfter = 500 * time.Millisecond // answers this close together are reported together
)

// A fetcher knows when each page was last checked, and fetches pages that are due. Its own state is lost with
// the process, except for the stamps in the journal. A nil fetcher fetches nothing.
type fetcher struct {
	catalog *Catalog
	opts    Fetch
	client  fetch.Client
	partial bool // a source is partial
	seed    maphash.Seed
	wake    chan struct{} // the sources were read

	slot  sync.Mutex // its holder waits until after
	after time.Time  // the earliest time of the next fetch; guarded by slot

	mu      sync.Mutex // guards what follows
	loaded  bool
	running bool             // Watch is fetching
	pages   map[uint64]*page // by hash of the URL
	plans   uint32           // number of plans so far
	queue   []due            // in reverse: the next page is the last element
	more    bool             // more pages are due than the queue holds
	replan  bool             // there may be something more urgent
	flying  map[string]bool  // being fetched
	answers map[string]answer
	untold  []string  // URLs with a result that no scan has been told of
	trouble int       // failures of the server in a row
	quiet   time.Time // nothing is fetched before then
}

// A page is the fetcher's state of a URL. There may be a million.
type page struct {
	stamp   string // of the published entry; empty if there is none
	next    int64  // Unix seconds: not fetched before then
	claim   uint64 // the beginning of the claim that it was last fetched for
	plan    uint32 // the last plan in which a source listed it
	verdict verdict
	fails   uint8
	doubt   bool // it must be fetched before it is offered
}

type verdict uint8

const (
	fine    verdict = iota
	missing         // it answered once that it does not exist: the published entry stays until a second time
	gone
	noIndex
	redirects
	large
)

func (v verdict) left() string {
	return [...]string{"", "", "", leftNoIndex, leftRedirects, leftLarge}[v]
}

func verdictOf(left string) verdict {
	for v := noIndex; v <= large; v++ {
		if v.left() == left {
			return v
		}
	}
	return fine
}

func newFetcher(c *Catalog) *fetcher {
	f := &fetcher{catalog: c, opts: *c.Fetch, seed: maphash.MakeSeed(), wake: make(chan struct{}, 1),
		pages: make(map[uint64]*page), flying: make(map[string]bool), answers: make(map[string]answer)}
	for _, s := range c.Sources {
		f.partial = f.partial || s.Partial()
	}
	f.client = fetch.Client{Agent: userAgent, Timeout: cmp.Or(max(c.Fetch.Timeout, 0), 20*time.Second), MaxBytes: c.Fetch.maxBytes()}
	if c.Fetch.Client != nil {
		f.client.Transport = c.Fetch.Client.Transport
	}
	return f
}

func (f *fetcher) hash(url string) uint64 { return maphash.String(f.seed, url) }

// left returns why the result of fetching url keeps it from being published, or the empty string.
func (f *fetcher) left(url string) string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pages[f.hash(url)]; p != nil {
		return p.verdict.left()
	}
	return ""
}

// offer completes the offer of a page that a source lists, and reports whether Scan is to yield it.
func (f *fetcher) offer(o *inventory.Offer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.Digest, o.Type, o.Stamp = [32]byte{}, "", nil
	p := f.pages[f.hash(o.URL)]
	_, answered := f.answers[o.URL]
	switch {
	case answered: // Read returns it
	case p == nil:
		return false
	case p.verdict == gone && f.partial && p.fails > 1: // with a partial source absence would mean nothing
		o.LeftOut = leftGone
	case p.verdict == gone:
		return false
	case p.verdict.left() != "":
		o.LeftOut = p.verdict.left()
	case p.stamp == "":
		return false // never fetched
	case p.doubt:
		o.Unsettled = true
	default:
		o.Stamp = []byte(p.stamp)
	}
	return true
}

var errNotFetched = errors.New("not fetched yet")

// take returns the result of fetching a page.
func (f *fetcher) take(o inventory.Offer) (inventory.Offer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.answers[o.URL]
	p := f.pages[f.hash(o.URL)]
	if !ok {
		// The journal differs from this fetcher's state: the page was announced meanwhile, or is gone, or
		// could not be written.
		if p != nil {
			p.doubt = true
		}
		return o, errNotFetched
	}
	delete(f.answers, o.URL)
	if p != nil {
		p.stamp = string(a.offer.Stamp)
	}
	return a.offer, nil
}

// beforeLook prepares for a scan: it fetches the pages that are due, unless Watch does.
func (f *fetcher) beforeLook(ctx context.Context, whole bool) error {
	if f == nil {
		return nil
	}
	if err := f.load(ctx); err != nil {
		return err
	}
	if whole {
		f.fetchForLook(ctx)
	}
	return errors.Join(ctx.Err(), f.verify())
}

// fetchForLook fetches the pages that are due, within the Budget of one scan.
func (f *fetcher) fetchForLook(ctx context.Context) {
	f.mu.Lock()
	background := f.running && f.catalog.Journal.Whole()
	f.replan = background
	f.mu.Unlock()
	if background {
		pause.Wake(f.wake)
		return
	}
	waiting := f.plan()
	before := time.Now()
	f.work(ctx, before.Add(cmp.Or(max(f.opts.Budget, 0), time.Minute)))
	f.mu.Lock()
	waiting -= len(f.untold)
	untold := f.untold
	if f.untold = nil; f.running {
		f.untold = untold // this scan may be of another part
	}
	f.mu.Unlock()
	if waiting > 0 {
		f.catalog.log().Info("pages left for the next scan to fetch", "pages", waiting, "fetched_for", time.Since(before).Round(time.Second))
	}
}

// load reads the state that earlier runs have stored in the journal. It opens a second View while the scan
// has one, which is safe as long as the file does not outgrow its mapping: see journal.View.
func (f *fetcher) load(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded {
		return nil
	}
	v, err := f.catalog.Journal.View()
	if err != nil {
		return err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		p := &page{stamp: string(e.Stamp), doubt: !e.Held.IsZero()}
		if s, ok := parseFetchStamp(p.stamp); ok { // else it was published by other means, and is fetched soon
			p.claim = s.claim.short()
		}
		f.pages[f.hash(e.Item.URL)] = p
	}
	f.loaded = true
	return nil
}

// work fetches the pages in the queue, until the queue is empty, a time has come, ctx ends, or the server is
// in trouble.
func (f *fetcher) work(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	workers := 1
	if i := f.opts.interval(); i < time.Second {
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
	if !f.await(ctx) {
		return false
	}
	f.mu.Lock()
	if len(f.queue) == 0 || f.replan || len(f.answers) >= maxAnswers || f.catalog.now().Before(f.quiet) {
		f.mu.Unlock()
		return false
	}
	d := f.queue[len(f.queue)-1]
	f.queue = f.queue[:len(f.queue)-1]
	if f.flying[d.offer.URL] {
		f.mu.Unlock()
		return true
	}
	f.flying[d.offer.URL] = true
	f.mu.Unlock()

	a := f.fetch(ctx, d.offer, d.claim)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.flying, d.offer.URL)
	if ctx.Err() != nil && a.err != nil {
		return false // cancelled
	}
	f.note(d, a)
	return true
}

// await waits until the rate allows the next fetch.
func (f *fetcher) await(ctx context.Context) bool {
	f.slot.Lock()
	defer f.slot.Unlock()
	if wait := time.Until(f.after); wait > 0 && !pause.For(ctx, wait) {
		return false
	}
	f.after = time.Now().Add(f.opts.interval())
	return ctx.Err() == nil
}

// note records the result of fetching a page. The caller holds mu.
func (f *fetcher) note(d due, a answer) {
	url, now := d.offer.URL, f.catalog.now()
	h := f.hash(url)
	p := f.pages[h]
	if p == nil {
		p = new(page)
		f.pages[h] = p
	}
	was := p.verdict
	p.plan = f.plans
	if a.err != nil && !errors.Is(a.err, fs.ErrNotExist) {
		p.next = now.Add(max(f.again(p), a.retry)).Unix()
		p.fails = min(p.fails+1, 100)
		f.failed(url, a, now)
		return
	}
	f.trouble = 0
	p.claim, p.doubt, p.next = d.claim.short(), false, 0
	switch {
	case a.err != nil:
		f.noteGone(p, now)
		if p.fails == 2 {
			was = fine
		}
	case a.offer.LeftOut != "":
		p.verdict, p.fails, p.next = verdictOf(a.offer.LeftOut), 0, now.Add(cmp.Or(max(f.opts.Recheck, 0), 24*time.Hour)).Unix()
	default:
		p.verdict, p.fails = fine, 0
		f.answers[url] = a
	}
	if p.verdict == fine || p.verdict != was && p.verdict != missing {
		f.untold = append(f.untold, url)
	}
}

// noteGone records that a page does not exist. While Watch runs, a published page is fetched again before
// that counts; otherwise the next run does that.
func (f *fetcher) noteGone(p *page, now time.Time) {
	if p.verdict != missing && p.verdict != gone {
		p.fails = 0 // they counted other failures
	}
	p.next = now.Add(f.again(p)).Unix()
	p.fails = min(p.fails+1, 100)
	if p.verdict = gone; p.fails == 1 && p.stamp != "" && f.running {
		p.verdict = missing
	}
}

// again returns how long to wait before a failed page is fetched again.
func (f *fetcher) again(p *page) time.Duration {
	return min(againLeast<<min(p.fails, 20), max(cmp.Or(max(f.opts.Recheck, 0), 24*time.Hour), againLeast))
}

// failed records a failure without a result, and pauses fetching if the server is in trouble.
func (f *fetcher) failed(url string, a answer, now time.Time) {
	f.catalog.log().Debug("page could not be fetched: its stored state is kept", "url", url, "err", a.err)
	if !a.trouble {
		f.trouble = 0
		return
	}
	if f.trouble++; f.trouble >= troubles || a.retry > 0 {
		f.quiet, f.trouble = now.Add(max(a.retry, leaveAlone)), 0
		f.catalog.log().Warn("the site keeps failing: page fetches are paused", "url", url, "err", a.err, "again_in", max(a.retry, leaveAlone))
	}
}

// run fetches until ctx ends, and reports which parts of the site are to be scanned.
func (f *fetcher) run(ctx context.Context, dirty func([]inventory.Scope)) {
	f.setRunning(true)
	defer f.setRunning(false)
	var owned sync.WaitGroup
	defer owned.Wait()
	owned.Go(func() { f.tell(ctx, dirty) })
	every := cmp.Or(max(f.catalog.Every, 0), time.Minute)
	for ctx.Err() == nil {
		if f.isLoaded() {
			f.plan()
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

func (f *fetcher) setRunning(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = is
}

func (f *fetcher) isLoaded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loaded
}

// hasMore reports whether there is something to fetch right now.
func (f *fetcher) hasMore() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return (len(f.queue) > 0 || f.more || f.replan) && len(f.answers) < maxAnswers && !f.catalog.now().Before(f.quiet)
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
		f.mu.Lock()
		untold := f.untold
		f.untold = nil
		f.mu.Unlock()
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

// verify drops the answers for pages whose published entry has changed since they were fetched, as by an
// announcement: it may be newer. During a scan nothing is announced.
func (f *fetcher) verify() error {
	f.mu.Lock()
	urls := slices.Collect(maps.Keys(f.answers))
	f.mu.Unlock()
	for _, url := range urls {
		e, _, err := f.catalog.Journal.Get(url)
		if err != nil {
			return err
		}
		f.mu.Lock()
		if a, ok := f.answers[url]; ok && string(e.Stamp) != a.was {
			delete(f.answers, url)
			if p := f.pages[f.hash(url)]; p != nil {
				p.doubt = true
			}
		}
		f.mu.Unlock()
	}
	return nil
}
