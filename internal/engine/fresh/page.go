package fresh

import (
	"math"
	"time"
)

// Posterior is the probability of each rate of change of the page.
func (p *Page) Posterior() Posterior {
	if p.Site == nil {
		return new(Prior).Under(&p.Belief)
	}
	return p.Site.Prior.Under(p.Site.Predictions.hinted(&p.History))
}

// heardUntil is the posterior of a page at a time. The silence of a site that pushes counts as soon as it lasts: with its
// next notice it would count too late for pages that change seldom.
func (p *Page) heardUntil(now time.Time) Posterior {
	if s := p.Site; s != nil && s.Tells && p.Visits > 0 && s.Signal != (Signal{}) {
		q := *p
		q.Belief.Unchanged(p.signal().Recall() * days(span(p.heard(), now)))
		return q.Posterior()
	}
	return p.Posterior()
}

// Age is the number of days since the copy was last known to be right: where the pages of its site change together, those in which as many
// changes are expected on average.
func (p *Page) Age(now time.Time) float64 {
	if p.tempo() == nil {
		return days(span(p.confirmed(), now))
	}
	post := p.Posterior()
	return p.aged(&post, now)
}

// Fresh is the probability that the copy is right (F07, with a posterior instead of a known rate): 0 if there
// is none. Where the site tells of its changes and is silent, only the untold share of changes counts; a
// notice is believed as far as the site's precision.
func (p *Page) Fresh(now time.Time) float64 {
	post := p.Posterior()
	return p.fresh(&post, now)
}

func (p *Page) fresh(post *Posterior, now time.Time) float64 {
	if p.Visits <= 0 {
		return 0
	}
	var signal Signal
	share := 1. // of changes that silence does not rule out
	if p.Site != nil {
		signal = p.signal()
		if p.Site.Tells {
			share = 1 - signal.Recall()
		}
	}
	fresh := post.fresh(share * p.aged(post, now))
	if p.Outdated() {
		fresh *= math.Pow(1-signal.Precision(), float64(max(1, p.Heard.Notices)))
	}
	return fresh
}

// unannounced is the page as visits alone have shown it, for a Rule.
func (p *Page) unannounced() Page {
	if p.Site == nil {
		return Page{History: p.History.WithoutNotices(), Importance: p.Importance, Length: p.Length}
	}
	return p.unheard()
}

// Between returns two rates that enclose the page's with the probability share, with equal probability below
// and above.
func (p *Posterior) Between(share float64) (low, high float64) {
	out := (1 - min(max(0, share), 1)) / 2
	low, high = grid.rate[0], grid.rate[points-1]
	sum := 0.
	for k, w := range p {
		if sum <= out {
			low = grid.rate[k]
		}
		if sum < 1-out {
			high = grid.rate[k]
		}
		sum += w
	}
	return low, high
}

// Visit is the cost of a page request that returned a body of so many bytes, 0 for none.
func (c Costs) Visit(body int64) float64 {
	c = c.paid()
	return c.Header + c.Body*float64(max(0, body))/bodyBytes
}

// ManifestPoll is the cost of fetching a manifest of so many pages.
func (c Costs) ManifestPoll(pages int) float64 {
	c = c.paid()
	return c.Manifest + c.Entry*float64(max(0, pages))
}
