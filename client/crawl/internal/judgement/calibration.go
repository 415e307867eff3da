package judgement

import (
	"slices"
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

// A Calibration collects the evidence of visits and manifests since the start of the run.
type Calibration struct {
	mu  sync.Mutex
	sum [10]Decile // Expected and Found are sums here
}

// add counts a page by its estimated probability of being fresh, and whether it was.
func (t *Calibration) add(expected float64, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.sum[min(max(int(expected*10), 0), 9)]
	d.Pages++
	d.Expected += expected
	if found {
		d.Found++
	}
}

// Table returns the ten deciles, the lowest probability first; nil without evidence.
func (t *Calibration) Table() []Decile {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sum == [10]Decile{} {
		return nil
	}
	list := slices.Clone(t.sum[:])
	for i := range list {
		d := &list[i]
		n := float64(max(d.Pages, 1))
		d.Expected, d.Found = d.Expected/n, d.Found/n
	}
	return list
}

// Seen compares a visit with the estimate before it.
func (t *Calibration) Seen(v *collection.Visit, d *collection.Visited, site *fresh.Site) {
	if d.Before.Visits > 0 && v.Fault == "" && v.Status != 0 && d.Page.State == collection.Held {
		p := fresh.Page{History: d.Before, Site: site}
		t.add(p.Fresh(v.Asked), !d.Differs)
	}
}

// Listed compares a manifest's entry with the estimate for its page.
func (t *Calibration) Listed(p *collection.Page, item *protocol.Item, last, now time.Time, site *fresh.Site) {
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
