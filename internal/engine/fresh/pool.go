package fresh

// A pool learns a prior from what is believed of many pages (empirical Bayes). It takes one pass over the
// pages, in any order, and keeps none of them. Each page counts with its posterior under the current prior;
// as the prior follows from the pages, and their posteriors from the prior, every pass brings it nearer to
// the prior under which all observations are likeliest (this is the EM algorithm), and a few passes are
// enough.
//
// The zero value is empty.
type pool struct {
	sum   [points]float64
	pages float64
}

// add adds a page with the posterior post. A page without observations is no evidence, and not added.
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

// Prior is the prior learned from the pages, with a base that counts as much as weight of them. For a site
// the base is the prior of all sites, so that a site with few pages is taken to be like others, and one with
// many by its own; for all sites it is the zero Prior, that of the Web at large. The weight should not be 0:
// a rate that no page was seen to have is not impossible.
func (p *pool) Prior(base Prior, weight float64) (prior Prior) {
	weight = max(finite(weight), 1e-3)
	post := base.Under(&Belief{})
	sum := weight + p.pages
	for k, share := range &post {
		prior[k] = float32((weight*share + p.sum[k]) / sum)
	}
	return prior
}
