package frontier

// This file exports internals to the tests.

// Cash returns what all pages have together, and what the bank has.
func (f *Frontier) Cash() (pages, bank float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cash == nil {
		return 0, 0
	}
	for _, rows := range f.cash.rows {
		for _, cash := range rows.cash {
			pages += float64(cash)
		}
	}
	return pages, f.cash.bank
}

// Sites returns how many sites have pages that are due now.
func (f *Frontier) Sites() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.sites.list {
		if s.left() > 0 {
			n++
		}
	}
	return n
}

// Out returns how many pages are given out.
func (f *Frontier) Out() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.out)
}

// Held returns how many ready entries are in memory; see Options.Memory.
func (f *Frontier) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// Small sets which batches are small: those with a page for so many sites, at most; 0: all.
func (f *Frontier) Small(sitesPerPage int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranking.sitesPerPage = sitesPerPage
}

// ExactMeans makes sites of unknown speed follow every change of the means.
func (f *Frontier) ExactMeans() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranking.speeds.step = 1
}
