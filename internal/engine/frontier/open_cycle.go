package frontier

import "slices"

// A line is the pages requested on demand, in that order.
type line struct {
	entries []Entry
	pages   map[PageID]bool // in entries
}

func (l *line) add(e Entry) {
	if !l.pages[e.Page] {
		l.pages[e.Page] = true
		l.entries = append(l.entries, e)
	}
}

func (l *line) remove(p PageID) {
	if l.pages[p] {
		delete(l.pages, p)
		l.entries = slices.DeleteFunc(l.entries, func(e Entry) bool { return e.Page == p })
	}
}

// Take gives out one page at once, whether or not it is due, for a cycle that is open; false means that it
// is given out already. If it is returned it is first in line.
func (f *Frontier) Take(e Entry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.out[e.Page]; ok {
		return false
	}
	f.line.remove(e.Page)
	f.give(e)
	return true
}

// give marks a page as given out on request.
func (f *Frontier) give(e Entry) {
	g := given{item: item{e.Page, number(e.Rank)}, site: e.Site, first: true}
	s := f.site(e.Site)
	if x, ok := f.known(s, e.Page); ok {
		g.item, g.counted = x, true
		f.held -= s.drop(x)
		s.out++
	}
	f.cash.leave(e.Page)
	f.mark(s)
	f.out[e.Page] = g
}
