package frontier

import (
	"cmp"
	"container/heap"
	"slices"
)

// A precedence says which of two sites comes first in a batch: the one with the highest score, and among equals
// the one whose first page was found first.
type precedence struct {
	score float32
	first PageID
}

func (a precedence) compare(b precedence) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	}
	return cmp.Compare(a.first, b.first)
}

// A standing is where a site stands among the others.
type standing struct {
	precedence
	slot    int  // in the heap; -1: it is not there
	moved   bool // it is in the list of sites whose standing may have changed
	guessed bool // it depends on a mean speed
}

// A ranking has the sites with pages to give in a heap, so that a small batch considers only the first of them.
// A large one sorts all sites, without a heap, which would have to be kept up to date.
type ranking struct {
	heap    siteHeap
	current bool    // apart from the sites in moved; if not, heap and moved are empty
	moved   []*site // to be placed anew
	age     int     // pages and batches given out since the store was asked about all sites
	busy    bool    // since then a site was left out, see Speed.Busy

	speeds speeds

	// sitesPerPage is how many sites there must be for each page of a batch that is small. 0: all are small.
	sitesPerPage int
}

func (r *ranking) discard() { r.heap, r.moved, r.current = nil, nil, false }

func (r *ranking) isSmall(size, sites int) bool {
	return r.sitesPerPage == 0 || size <= sites/r.sitesPerPage
}

// mark records that the standing of a site may have changed.
func (f *Frontier) mark(s *site) {
	if f.ranking.current && !s.standing.moved {
		s.standing.moved = true
		f.ranking.moved = append(f.ranking.moved, s)
	}
}

// stand computes the precedence of a site; false means that it has no page to give now.
func (f *Frontier) stand(s *site) (bool, error) {
	speed := f.o.speed(s.id)
	if s.left() <= 0 || speed.Busy {
		f.ranking.busy = f.ranking.busy || s.left() > 0
		return false, nil
	}
	if len(s.items) == 0 {
		err := f.fill(s, 16)
		f.spill()
		if err != nil || len(s.items) == 0 {
			return false, err
		}
	}
	s.standing.guessed = f.ranking.speeds.guess(&speed)
	x := SiteFacts{Site: s.id, Ready: s.left(), First: s.items[0].page, Best: s.items[0].rank, Speed: speed}
	if f.ranking.speeds.summed {
		n := min(x.Ready, speed.PerConnection)
		if n > len(s.items) {
			if err := f.load(s, n-len(s.items)); err != nil {
				return false, err
			}
		}
		sum := 0.
		for _, x := range s.items[:min(n, len(s.items))] {
			sum += float64(x.rank)
		}
		x.Sum = float32(sum)
	}
	s.standing.precedence = precedence{number(f.strategy.Site(x)), x.First}
	return true, nil
}

// refresh brings the heap up to date. It asks the store about the sites that have changed, and now and then about
// all, so that changes that nobody has reported come to light.
func (f *Frontier) refresh() (err error) {
	r := &f.ranking
	if !r.current || r.age > len(f.sites.list) {
		r.discard()
		if err := f.readSites(); err != nil {
			return err
		}
		r.current, r.busy, r.age, r.moved = true, false, 0, slices.Clone(f.sites.list)
		for _, s := range r.moved {
			s.standing.slot, s.standing.moved = -1, true
		}
	}
	for _, s := range r.moved {
		has := false
		if s.ready, err = f.store.Ready(s.id); err == nil {
			has, err = f.stand(s)
		}
		if err != nil {
			r.discard()
			return err
		}
		s.standing.moved = false
		switch {
		case has && s.standing.slot < 0:
			heap.Push(&r.heap, s)
		case has:
			heap.Fix(&r.heap, s.standing.slot)
		case s.standing.slot >= 0:
			heap.Remove(&r.heap, s.standing.slot)
		}
	}
	r.moved = r.moved[:0]
	return nil
}

// takeBest takes the pages of a small batch from the sites at the top of the heap: the pages that takeRounds would take.
func (f *Frontier) takeBest(b *batch, o *BatchOptions) error {
	r := &f.ranking
	var passed []*site
	skipped, err := false, error(nil)
	for b.left > 0 && len(r.heap) > 0 && err == nil {
		var turns []turn
		for n := 0; n < b.left && len(r.heap) > 0; {
			s := heap.Pop(&r.heap).(*site)
			passed = append(passed, s)
			if o.passes(s.id) {
				skipped = true
			} else if t := b.turn(s, o); t.more > 0 {
				turns = append(turns, t)
				n += min(t.more, o.Round)
			}
		}
		err = f.takeTurns(turns, b, o)
	}
	for _, s := range passed {
		if !s.standing.moved { // the others return at the next refresh
			heap.Push(&r.heap, s)
		}
	}
	r.age += 1 + o.Size - b.left
	if err != nil || len(b.list) > 0 || skipped || r.age == 1 || r.busy {
		return err
	}
	r.discard() // as far as is known there is nothing to fetch: the store decides
	if err := f.refresh(); err != nil {
		return err
	}
	return f.takeBest(b, o)
}

// takeSingly takes one page after the other, each from the site that is then first.
func (f *Frontier) takeSingly(b *batch, o *BatchOptions) (err error) {
	r, size := &f.ranking, b.left
	var passed []*site // they may give no page to this batch
	for b.left > 0 && len(r.heap) > 0 && err == nil {
		s := heap.Pop(&r.heap).(*site)
		t := b.turn(s, o)
		if t.more <= 0 || o.passes(s.id) {
			passed = append(passed, s)
			continue
		}
		t.quota = 1
		if err = f.takeFrom(&t, b); err == nil {
			b.at[s.id] = t.at
			err = f.refresh() // the site returns to its new place
		}
	}
	for _, s := range passed {
		if !s.standing.moved { // the others return at the next refresh
			heap.Push(&r.heap, s)
		}
	}
	if err == nil && b.left == size { // the others count the pages that they took
		rounds := *o
		rounds.Round = 1
		return f.takeBest(b, &rounds)
	}
	r.age += 1 + size - b.left
	return err
}

// A siteHeap is a heap.Interface; the first site is the one that comes first in a batch.
type siteHeap []*site

func (h siteHeap) Len() int           { return len(h) }
func (h siteHeap) Less(i, j int) bool { return h[i].standing.compare(h[j].standing.precedence) < 0 }

func (h siteHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].standing.slot, h[j].standing.slot = i, j
}

func (h *siteHeap) Push(s any) {
	s.(*site).standing.slot = len(*h)
	*h = append(*h, s.(*site))
}

func (h *siteHeap) Pop() any {
	s := (*h)[len(*h)-1]
	s.standing.slot = -1
	*h = (*h)[:len(*h)-1]
	return s
}
