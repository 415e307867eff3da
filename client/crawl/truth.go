package crawl

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/fresh"
)

// A Decile has the pages whose copies were thought right with a probability in
// one tenth of 0 to 1, and how many of them were.
type Decile struct {
	Pages    int     `json:"pages"`
	Expected float64 `json:"expected"` // mean of what was believed
	Found    float64 `json:"found"`    // the share that was as it was
}

// truths are what visits and manifests have shown since the crawler was started.
type truths struct {
	mu  sync.Mutex
	sum [10]Decile // Expected and Found are sums here
}

// add takes in that a page that was believed to be fresh with a probability was so, or not.
func (t *truths) add(expected float64, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.sum[min(max(int(expected*10), 0), 9)]
	d.Pages++
	d.Expected += expected
	if found {
		d.Found++
	}
}

// table returns the ten, the least fresh first; nothing if nothing was shown.
func (t *truths) table() []Decile {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Decile, len(t.sum))
	any := false
	for i, d := range t.sum {
		if d.Pages > 0 {
			any = true
			d.Expected, d.Found = d.Expected/float64(d.Pages), d.Found/float64(d.Pages)
		}
		list[i] = d
	}
	if !any {
		return nil
	}
	return list
}

// seen takes in what a visit has shown of what was believed before it.
func (r *run) seen(v *collection.Visit, d *collection.Visited, site *fresh.Site) {
	if d.Before.Visits > 0 && v.Fault == "" && v.Status != 0 && d.Page.State == collection.Held {
		p := fresh.Page{History: d.Before, Site: site}
		r.truths.add(p.Fresh(v.Asked), !d.Differs)
	}
}

// listed takes in what a manifest has shown of a page that it also named when it
// was looked at last.
func (r *run) listed(p *collection.Page, same bool, last, now time.Time, site *fresh.Site) {
	if p.Visits == 0 || p.Told || last.IsZero() {
		return
	}
	q := fresh.Page{History: p.History, Site: site}
	if last.After(q.Confirmed) {
		q.Confirmed = last
	}
	r.truths.add(q.Fresh(now), same)
}
