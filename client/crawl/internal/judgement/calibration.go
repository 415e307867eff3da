package judgement

import (
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A Decile calibrates the freshness estimates: it covers the pages whose estimated
// probability of being fresh was in one tenth of 0 to 1, or the pages of one site.
type Decile struct {
	Pages    int     `json:"pages"`
	Expected float64 `json:"expected"` // mean estimated probability
	Found    float64 `json:"found"`    // share of pages that were fresh
}

// A Calibration collects the evidence of visits and manifests since the start of the run.
type Calibration struct {
	mu    sync.Mutex
	sum   [10]Decile // Expected and Found are sums here
	sites map[frontier.SiteID]Decile
}

// add counts a page by its estimated probability of being fresh, and whether it was.
func (t *Calibration) add(p *collection.Page, expected float64, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sites == nil {
		t.sites = map[frontier.SiteID]Decile{}
	}
	decile, site := &t.sum[min(max(int(expected*10), 0), 9)], t.sites[p.Site]
	for _, d := range []*Decile{decile, &site} {
		d.Pages++
		d.Expected += expected
		if found {
			d.Found++
		}
	}
	t.sites[p.Site] = site
}

// mean returns d with means in place of the sums.
func (d Decile) mean() Decile {
	n := float64(max(d.Pages, 1))
	return Decile{d.Pages, d.Expected / n, d.Found / n}
}

// Of returns the evidence about one site's pages.
func (t *Calibration) Of(site frontier.SiteID) Decile {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sites[site].mean()
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
		list[i] = list[i].mean()
	}
	return list
}

// Seen compares a visit with the estimate before it.
func (t *Calibration) Seen(v *collection.Visit, d *collection.Visited, site *fresh.Site) {
	if d.Before.Visits > 0 && v.Fault == "" && v.Status != 0 && d.Page.State == collection.Held {
		p := fresh.Page{History: d.Before, Site: site, Directory: fresh.Directory(d.Page.URL)}
		t.add(&d.Page, p.Fresh(v.Asked), !d.Differs)
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
	t.add(p, q.Fresh(now), item.Digest == p.Digest)
}
