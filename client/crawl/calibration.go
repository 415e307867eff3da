package crawl

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/protocol"
)

// A Decile calibrates the freshness estimates: it covers the pages whose estimated
// probability of being fresh was in one tenth of 0 to 1.
type Decile struct {
	Pages    int     `json:"pages"`
	Expected float64 `json:"expected"` // mean estimated probability
	Found    float64 `json:"found"`    // share of pages that were fresh
}

// calibration collects the evidence of visits and manifests since the start of the run.
type calibration struct {
	mu  sync.Mutex
	sum [10]Decile // Expected and Found are sums here
}

// add counts a page by its estimated probability of being fresh, and whether it was.
func (t *calibration) add(expected float64, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.sum[min(max(int(expected*10), 0), 9)]
	d.Pages++
	d.Expected += expected
	if found {
		d.Found++
	}
}

// table returns the ten deciles, the lowest probability first; nil without evidence.
func (t *calibration) table() []Decile {
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

// seen compares a visit with the estimate before it.
func (t *calibration) seen(v *collection.Visit, d *collection.Visited, site *fresh.Site) {
	if d.Before.Visits > 0 && v.Fault == "" && v.Status != 0 && d.Page.State == collection.Held {
		p := fresh.Page{History: d.Before, Site: site}
		t.add(p.Fresh(v.Asked), !d.Differs)
	}
}

// listed compares a manifest's entry with the estimate for its page.
func (t *calibration) listed(p *collection.Page, item *protocol.Item, last, now time.Time, site *fresh.Site) {
	if p.Visits == 0 || p.Told || last.IsZero() || item.Digest.IsZero() {
		return
	}
	share := 1.
	if site != nil && site.Manifest.Recall > 0 {
		share = site.Manifest.Recall
	}
	q := fresh.Page{History: p.History.Silence(last, share), Site: site}
	t.add(q.Fresh(now), item.Digest == p.Digest)
}
