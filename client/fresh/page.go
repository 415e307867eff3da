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

// Fresh is the probability that the copy is right (F07, for a rate of which only a
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
	fresh := post.Fresh(share * p.Age(now))
	if p.Outdated() {
		fresh *= math.Pow(1-signal.Precision(), float64(max(1, p.Notices)))
	}
	return fresh
}
