package fresh

import (
	"math"
	"time"
)

// Posterior is what is believed of how often the page changes.
func (p *Page) Posterior() Posterior {
	if p.Site == nil {
		return new(Prior).Under(&p.Belief)
	}
	return p.Site.Prior.Under(&p.Belief)
}

// Age is for how many days nobody has known whether the copy is right.
func (p *Page) Age(now time.Time) float64 { return days(span(p.confirmed(), now)) }

// fresh is the probability that the copy is right (F07, for a rate of which only a
// posterior is known): 0 if there is none. Where the site tells of its changes and has said
// nothing, only those count that it does not tell of; what it has said is believed as far as
// it has been right.
func (p *Page) Fresh(now time.Time) float64 {
	if p.Visits <= 0 {
		return 0
	}
	var signal Signal
	share := 1. // of changes, of which silence says nothing
	if p.Site != nil {
		signal = p.Site.Signal
		if p.Site.Tells {
			share = 1 - signal.Recall()
		}
	}
	post := p.Posterior()
	fresh := post.fresh(share * p.Age(now))
	if p.Outdated() {
		fresh *= math.Pow(1-signal.Precision(), float64(max(1, p.Notices)))
	}
	return fresh
}

// Between returns two rates between which the page's lies with a probability of
// a share, and as likely below as above.
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

// Visit is what asking for a page has cost that brought so many bytes of a body, 0 for none.
func (c Costs) Visit(body int64) float64 {
	c = c.paid()
	return c.Header + c.Body*float64(max(0, body))/bodyBytes
}

// Look is what asking for a manifest costs that names so many pages.
func (c Costs) Look(pages int) float64 {
	c = c.paid()
	return c.Manifest + c.Entry*float64(max(0, pages))
}
