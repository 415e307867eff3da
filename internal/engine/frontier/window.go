package frontier

import (
	"slices"
	"sort"
)

// An item is a ready entry in a window; its site is the window's.
type item struct {
	page PageID
	rank float32
}

// before reports whether a stands before b in the order of ready entries.
func (a item) before(b item) bool {
	if a.rank != b.rank {
		return a.rank > b.rank
	}
	return a.page < b.page
}

// A window is the part of a site's ready queue in memory: all from the first entry to the one at which it
// ends, except those given out. Entries after that are in the store alone.
type window struct {
	items []item // sorted
	end   item   // the last place that the window covers; page 0: none
	whole bool   // it covers all places
}

func (w *window) covers(x item) bool {
	return w.whole || w.end.page != 0 && !w.end.before(x)
}

// place returns the index of x, or where to insert it.
func (w *window) place(x item) int {
	return sort.Search(len(w.items), func(i int) bool { return !w.items[i].before(x) })
}

// add inserts x, which must not be there, if the window covers its place; it returns by how much the window
// has grown.
func (w *window) add(x item) int {
	if !w.covers(x) {
		return 0
	}
	n := len(w.items)
	if n == 0 || w.items[n-1].before(x) { // the usual case: new pages come last among equals
		w.items = append(w.items, x)
		return 1
	}
	w.items = slices.Insert(w.items, w.place(x), x)
	return 1
}

// drop removes x; it returns by how much the window has shrunk.
func (w *window) drop(x item) int {
	if i := w.place(x); i < len(w.items) && w.items[i] == x {
		w.items = slices.Delete(w.items, i, i+1)
		return 1
	}
	return 0
}

// find returns the item of a page, whatever its rank.
func (w *window) find(p PageID) (item, bool) {
	for _, x := range w.items {
		if x.page == p {
			return x, true
		}
	}
	return item{}, false
}

// take removes and returns the first n.
func (w *window) take(n int) []item {
	x := w.items[:n:n]
	if w.items = w.items[n:]; len(w.items) == 0 {
		w.items = nil
	}
	return x
}

// cut leaves at most n > 0 items; the others are then in the store alone. It returns how many it has dropped.
func (w *window) cut(n int) int {
	cut := len(w.items) - n
	if cut <= 0 {
		return 0
	}
	w.items = slices.Clone(w.items[:n]) // so that the memory is freed
	w.end, w.whole = w.items[n-1], false
	return cut
}

// forget empties the window, which restarts at the head of the queue. It returns how many items it dropped.
func (w *window) forget() int {
	n := len(w.items)
	*w = window{}
	return n
}
