package catalog

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

const (
	maxAnswers = 1000 // answers that wait for a scan

	againLeast = 30 * time.Second // before a failed page is fetched again; doubled each time
)

// A ledger has what is known of each page, and the answers that no scan has read yet. It is lost with the process, except
// for the stamps in the journal. Its methods may be called by many goroutines at once.
type ledger struct {
	partial bool          // a source is partial
	recheck time.Duration // see Fetch
	seed    maphash.Seed

	mu      sync.Mutex // guards what follows
	loaded  bool
	pages   map[uint64]*page // by hash of the URL
	plans   uint32           // number of plans so far
	answers map[string]answer
	untold  []string // URLs with a result that no scan has been told of
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

// lefts are why pages with a verdict are left out.
var lefts = []string{noIndex: leftNoIndex, redirects: leftRedirects, large: leftLarge}

func (l *ledger) hash(url string) uint64 { return maphash.String(l.seed, url) }

// page returns the state of a page, nil if nothing is known of it. The caller holds mu.
func (l *ledger) page(url string) *page { return l.pages[l.hash(url)] }

// left returns why the result of fetching url keeps it from being published, or the empty string.
func (l *ledger) left(url string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.page(url); p != nil {
		return lefts[p.verdict]
	}
	return ""
}

// offer completes the offer of a page that a source lists, and reports whether Scan is to yield it.
func (l *ledger) offer(o *inventory.Offer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.Digest, o.Type, o.Stamp = [32]byte{}, "", nil
	p := l.page(o.URL)
	_, answered := l.answers[o.URL]
	switch {
	case answered: // Read returns it
	case p == nil:
		return false
	case p.verdict == gone && l.partial && p.fails > 1: // with a partial source absence would mean nothing
		o.LeftOut = leftGone
	case p.verdict == gone:
		return false
	case lefts[p.verdict] != "":
		o.LeftOut = lefts[p.verdict]
	case p.stamp == "":
		return false // never fetched
	case p.doubt:
		o.Unsettled = true
	default:
		o.Stamp = []byte(p.stamp)
	}
	return true
}

// take returns the result of fetching a page.
func (l *ledger) take(o inventory.Offer) (inventory.Offer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.answers[o.URL]
	p := l.page(o.URL)
	if !ok {
		// The journal differs from this fetcher's state: the page was announced meanwhile, or is gone, or
		// could not be written.
		if p != nil {
			p.doubt = true
		}
		return o, errors.New("not fetched yet")
	}
	delete(l.answers, o.URL)
	if p != nil {
		p.stamp = string(a.offer.Stamp)
	}
	return a.offer, nil
}

// isFull reports whether no further answers fit.
func (l *ledger) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answers) >= maxAnswers
}

// report returns the URLs with a result that no scan has been told of. told says that it will be.
func (l *ledger) report(told bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	untold := l.untold
	if told {
		l.untold = nil
	}
	return untold
}

// load reads the state that earlier runs have stored in the journal, unless it has been read. Only the scan calls it. It
// holds mu at no time while it reads: who writes to the journal may wait for mu.
func (l *ledger) load(ctx context.Context, j *server.Journal) error {
	l.mu.Lock()
	loaded := l.loaded
	l.mu.Unlock()
	if loaded {
		return nil
	}
	pages := make(map[uint64]*page)
	err := eachPublished(ctx, j, func(url string, stamp []byte, held bool) {
		p := &page{stamp: string(stamp), doubt: held}
		if s, ok := parseFetchStamp(p.stamp); ok { // else it was published by other means, and is fetched soon
			p.claim = s.claim.short()
		}
		pages[l.hash(url)] = p
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages, l.loaded = pages, true
	return nil
}

// verify drops the answers for pages whose published entry has changed since they were fetched, for example by an
// announcement: the entry may be newer than the answer. During a scan nothing is announced.
func (l *ledger) verify(j *server.Journal) error {
	l.mu.Lock()
	urls := slices.Collect(maps.Keys(l.answers))
	l.mu.Unlock()
	for _, url := range urls {
		e, _, err := j.Get(url)
		if err != nil {
			return err
		}
		l.mu.Lock()
		if a, ok := l.answers[url]; ok && string(e.Stamp) != a.was {
			delete(l.answers, url)
			if p := l.page(url); p != nil {
				p.doubt = true
			}
		}
		l.mu.Unlock()
	}
	return nil
}

// note records the result of fetching a page. running says that Watch runs.
func (l *ledger) note(d due, a answer, now time.Time, running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	url := d.offer.URL
	p := l.page(url)
	if p == nil {
		p = new(page)
		l.pages[l.hash(url)] = p
	}
	was := p.verdict
	p.plan = l.plans
	if a.failed() {
		p.next = now.Add(max(l.again(p), a.retry)).Unix()
		p.fails = min(p.fails+1, 100)
		return
	}
	p.claim, p.doubt, p.next = d.claim.short(), false, 0
	switch {
	case a.err != nil:
		l.noteGone(p, now, running)
		if p.fails == 2 {
			was = fine
		}
	case a.offer.LeftOut != "":
		p.verdict, p.fails, p.next = verdict(slices.Index(lefts, a.offer.LeftOut)), 0, now.Add(l.recheck).Unix()
	default:
		p.verdict, p.fails = fine, 0
		l.answers[url] = a
	}
	if p.verdict == fine || p.verdict != was && p.verdict != missing {
		l.untold = append(l.untold, url)
	}
}

// noteGone records that a page does not exist. While Watch runs, a published page is fetched again before
// that counts; otherwise the next run does that.
func (l *ledger) noteGone(p *page, now time.Time, running bool) {
	if p.verdict != missing && p.verdict != gone {
		p.fails = 0 // they counted other failures
	}
	p.next = now.Add(l.again(p)).Unix()
	p.fails = min(p.fails+1, 100)
	if p.verdict = gone; p.fails == 1 && p.stamp != "" && running {
		p.verdict = missing
	}
}

// again returns how long to wait before a failed page is fetched again.
func (l *ledger) again(p *page) time.Duration {
	return min(againLeast<<min(p.fails, 20), max(l.recheck, againLeast))
}

// A candidate is a page that may be fetched: entry i of a snapshot.
type candidate struct {
	checked int64 // the earliest first
	tie     uint32
	reading *sourceSnapshot
	i       int
}

// due returns the pages that are due, in the order in which to fetch them: those never fetched, and the others. skip
// says which not to fetch now.
func (l *ledger) due(readings []*sourceSnapshot, now time.Time, skip func(url string) bool) (fresh, known []candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.loaded {
		return nil, nil
	}
	l.plans++
	named := 0
	m := newMerge(readings)
	for url, r, i, ok := m.next(); ok; url, r, i, ok = m.next() {
		named++
		p := l.page(url)
		if p != nil {
			p.plan = l.plans
		}
		if _, answered := l.answers[url]; answered || skip(url) {
			continue
		}
		c := candidate{tie: rand.Uint32(), reading: r, i: i}
		_, record := r.entry(i)
		changed := p != nil && p.claim != claimOf(record).short()
		switch {
		case p == nil:
			fresh = append(fresh, c)
			continue
		case p.next > now.Unix() && !(changed && p.verdict != fine):
			continue
		case p.doubt || changed || p.verdict == missing:
			c.checked = 1 // before all others
		case p.verdict != fine || p.stamp == "":
			fresh = append(fresh, c)
			continue
		default:
			s, ok := parseFetchStamp(p.stamp)
			if c.checked = max(s.checked, 2); ok && now.Unix() < c.checked+int64(l.recheck/time.Second) && c.checked <= now.Unix() {
				continue
			}
		}
		known = append(known, c)
	}
	l.forget(named)
	for _, list := range [][]candidate{fresh, known} {
		slices.SortFunc(list, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.checked, b.checked), cmp.Compare(a.tie, b.tie)) })
	}
	return fresh, known
}

// forget drops pages that no source lists any more, when they are the larger part. The caller holds mu.
func (l *ledger) forget(named int) {
	if len(l.pages) < 2*named+maxQueue {
		return
	}
	for h, p := range l.pages {
		if p.plan != l.plans {
			delete(l.pages, h)
		}
	}
}

// short returns the beginning of a claim.
func (c claim) short() uint64 { return binary.BigEndian.Uint64(c[:]) }
