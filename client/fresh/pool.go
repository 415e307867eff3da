package fresh

import "math"

// A pool gathers what is believed of many pages, from which follows what to
// believe of one more (empirical Bayes): a prior that is learned. It takes one pass over the pages, in any order, and
// keeps none of them. Each page counts as it is believed to be under the prior that it has
// now; as the prior follows from the pages, and what is believed of them from the
// prior, every pass brings it nearer to the one under which all that was observed is likeliest
// (this is the EM algorithm), and a few are enough.
//
// The zero value is empty.
type pool struct {
	sum   [points]float64
	pages float64
}

// Add adds a page. One of which nothing was observed is no evidence, and not added.
func (p *pool) Add(page *Page) {
	post := page.Posterior()
	p.add(page, &post)
}

func (p *pool) add(page *Page, post *Posterior) {
	if page.Belief.None() {
		return
	}
	for k, share := range post {
		p.sum[k] += share
	}
	p.pages++
}

// Merge adds all pages of another pool: that of a site to that of all.
func (p *pool) Merge(other *pool) {
	for k, sum := range other.sum {
		p.sum[k] += sum
	}
	p.pages += other.pages
}

// Pages is how many were added.
func (p *pool) Pages() int { return int(p.pages) }

// Prior is what the pages say of the next one, beside a base that counts as much as so many
// of them. For a site the base is the prior of all sites, so that one of few pages is
// taken for one like others, and one of many for what it is; for all of them it is
// the zero Prior, what is believed of the Web at large. Its weight should not be 0: what
// no page was seen to be is not impossible.
func (p *pool) Prior(base Prior, weight float64) (prior Prior) {
	if base == (Prior{}) {
		base = anyPage
	}
	weight = max(bounded(weight, math.MaxFloat32), 1e-3)
	post := base.Under(&Belief{})
	sum := weight + p.pages
	for k, share := range &post {
		prior[k] = float32((weight*share + p.sum[k]) / sum)
	}
	return prior
}
