package frontier

import "slices"

// Take gives out one page out of turn, whether or not its time has come, for
// a cycle that is open; false means that it is given out already. If it is
// returned it is first in line.
func (f *Frontier) Take(e Entry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.out[e.Page]; ok {
		return false
	}
	f.first = slices.DeleteFunc(f.first, func(o Entry) bool { return o.Page == e.Page })
	f.give(e)
	return true
}

// give marks a page as given out that was asked for by name.
func (f *Frontier) give(e Entry) {
	g := given{item: item{e.Page, number(e.Rank)}, site: e.Site, first: true}
	s := f.site(e.Site)
	if x, ok := f.known(s, e.Page); ok {
		g.item, g.counted = x, true
		f.held -= s.drop(x)
		s.out++
	}
	f.cash.leave(s, e.Page)
	f.out[e.Page] = g
}
