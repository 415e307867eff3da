package frontier

import (
	"cmp"
	"fmt"
	"slices"
)

// BatchOptions says what a Batch is to be. The zero value is a useful one.
type BatchOptions struct {
	Size     int // pages in all; 0 means 100,000 (G12)
	SameSite int // pages of one site; 0 means 500 (G13)

	// Round is how many pages a site gives before the next has its turn. 0
	// means 1: as many sites as possible (S07). With SameSite's value the
	// first sites give all that they may.
	Round int

	Skip func(SiteID) bool // sites that are to give nothing
}

func (o BatchOptions) withDefaults() BatchOptions {
	if o.Size <= 0 {
		o.Size = 100_000
	}
	if o.SameSite <= 0 {
		o.SameSite = 500
	}
	if o.Round <= 0 {
		o.Round = 1
	}
	o.Round = min(o.Round, o.SameSite)
	return o
}

// SiteEntries are what a Batch has of one site.
type SiteEntries struct {
	Site    SiteID
	Entries []Entry // in the order in which to ask
}

// Batch gives out the pages that come first at a time, in milliseconds since
// 1970: those that were asked for by First, and then, sites in the order of the
// Strategy and pages by their rank, Round pages of every site in turn until it
// has Size. They are given out until Done or Return. An empty batch means that
// there is nothing now. After a long sleep not all pages that became ready
// meanwhile may be looked at, but about twice Size.
//
// A page may have changed in the store after the frontier heard of it last: whoever
// asks looks whether it still is to be asked for, and says Done if not.
func (f *Frontier) Batch(now int64, o BatchOptions) ([]SiteEntries, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, err := f.batch(now, o.withDefaults())
	if err != nil {
		for i := range list { // nobody will hear of them
			for _, e := range list[i].Entries {
				f.giveBack(e.Page)
			}
		}
		return nil, fmt.Errorf("make batch: %w", err)
	}
	return list, nil
}

func (f *Frontier) batch(now int64, o BatchOptions) ([]SiteEntries, error) {
	f.now = max(f.now, now)
	if err := f.settle(); err != nil {
		return nil, err
	}
	if err := f.promote(f.now, 2*o.Size); err != nil {
		return nil, err
	}
	if err := f.look(); err != nil {
		return nil, err
	}
	b := batch{left: o.Size, at: map[SiteID]int{}}
	f.takeFirst(&b, &o)
	err := f.takeRounds(&b, &o)
	f.spill()
	return b.list, err
}

// A batch is one in the making.
type batch struct {
	list []SiteEntries
	at   map[SiteID]int // where in list the sites are that were asked for by First
	left int
}

// takeFirst takes what was asked for by First.
func (f *Frontier) takeFirst(b *batch, o *BatchOptions) {
	rest := f.line.entries[:0]
	for _, e := range f.line.entries {
		i, ok := b.at[e.Site]
		if b.left == 0 || ok && len(b.list[i].Entries) >= o.SameSite || o.Skip != nil && o.Skip(e.Site) {
			rest = append(rest, e)
			continue
		}
		if !ok {
			i = len(b.list)
			b.at[e.Site] = i
			b.list = append(b.list, SiteEntries{Site: e.Site})
		}
		delete(f.line.pages, e.Page)
		f.give(e)
		b.list[i].Entries = append(b.list[i].Entries, e)
		b.left--
	}
	f.line.entries = rest
}

// A turn is a site's part in a batch.
type turn struct {
	*site
	score float32
	id    SiteID // the site's
	at    int    // in the batch's list, -1: not there
	more  int    // that it may give yet
	quota int    // that it is to give now
}

// takeRounds takes pages of all sites in turn.
func (f *Frontier) takeRounds(b *batch, o *BatchOptions) error {
	if b.left == 0 {
		return nil
	}
	turns := make([]turn, 0, len(f.sites.list))
	for _, s := range f.sites.list {
		left := s.left()
		if left <= 0 || o.Skip != nil && o.Skip(s.id) {
			continue
		}
		if len(s.items) == 0 {
			if err := f.fill(s, 16); err != nil {
				return err
			}
			f.spill()
			if len(s.items) == 0 {
				continue
			}
			left = s.left()
		}
		t := turn{site: s, id: s.id, at: -1, more: min(o.SameSite, left)}
		t.score = number(f.strategy.Site(SiteFacts{Site: s.id, Ready: left, Best: s.items[0].rank, Cash: float32(s.cash)}))
		if i, ok := b.at[s.id]; ok {
			t.at = i
			t.more = min(left, o.SameSite-len(b.list[i].Entries))
		}
		if t.more > 0 {
			turns = append(turns, t)
		}
	}
	// No more sites than pages can have a part in the first round.
	first := turns
	if len(turns) > b.left {
		choose(turns, b.left)
		first = turns[:b.left]
	}
	slices.SortFunc(first, turn.compare)
	if err := f.takeTurns(first, b, o); err != nil || b.left == 0 || len(first) == len(turns) {
		return err
	}
	slices.SortFunc(turns, turn.compare)
	return f.takeTurns(turns, b, o)
}

// takeTurns takes what the sites are to give, and more of the others where a
// site turns out to have less than it seemed.
func (f *Frontier) takeTurns(turns []turn, b *batch, o *BatchOptions) error {
	for b.left > 0 && share(turns, b.left, o) {
		for i := range turns {
			t := &turns[i]
			if t.quota == 0 {
				continue
			}
			if err := f.takeFrom(t, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare orders the sites of a batch: the highest score first, the lowest SiteID among equals.
func (t turn) compare(o turn) int {
	switch {
	case t.score > o.score:
		return -1
	case t.score < o.score:
		return 1
	}
	return cmp.Compare(t.id, o.id)
}

// choose brings the n first turns to the front, in any order, without sorting all.
func choose(turns []turn, n int) {
	for len(turns) > 1 && n > 0 && n < len(turns) {
		pivot := turns[len(turns)/2]
		i, j := 0, len(turns)-1
		for i <= j {
			for turns[i].compare(pivot) < 0 {
				i++
			}
			for turns[j].compare(pivot) > 0 {
				j--
			}
			if i <= j {
				turns[i], turns[j] = turns[j], turns[i]
				i++
				j--
			}
		}
		switch { // [0, j] is not behind the pivot and [i, ) not before it
		case n <= j:
			turns = turns[:j+1]
		case n >= i:
			turns, n = turns[i:], n-i
		default:
			return
		}
	}
}

// share sets quotas that sum to at most n: as many whole rounds as there is
// room for, and a last one that not all sites have a part in. It reports
// whether anything is to be had.
func share(turns []turn, n int, o *BatchOptions) bool {
	sum := func(rounds int) (sum int) {
		for i := range turns {
			sum += min(turns[i].more, rounds*o.Round)
		}
		return sum
	}
	lo, hi := 0, min((o.SameSite+o.Round-1)/o.Round, n) // so many rounds fit; so many are enough for all
	for lo < hi {
		if mid := lo + (hi-lo+1)/2; sum(mid) <= n {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	left := n
	for i := range turns {
		turns[i].quota = min(turns[i].more, lo*o.Round)
		left -= turns[i].quota
	}
	for i := range turns {
		t := &turns[i]
		last := min(t.more-t.quota, o.Round, left)
		t.quota += last
		left -= last
	}
	return left < n
}

// takeFrom takes a site's quota, or less if there is less.
func (f *Frontier) takeFrom(t *turn, b *batch) error {
	if t.at < 0 {
		t.at = len(b.list)
		b.list = append(b.list, SiteEntries{Site: t.id})
	}
	e := &b.list[t.at]
	e.Entries = slices.Grow(e.Entries, t.quota)
	for want := t.quota; want > 0; {
		if err := f.fill(t.site, min(max(want, 64), f.o.PerSite)); err != nil {
			return err
		}
		if len(t.items) == 0 {
			t.more = 0
			return nil
		}
		n := min(want, len(t.items))
		for _, x := range t.take(n) {
			f.cash.leave(t.site, x.page)
			f.out[x.page] = given{item: x, site: t.id, counted: true}
			e.Entries = append(e.Entries, Entry{Page: x.page, Site: t.id, Rank: x.rank})
		}
		t.out += n
		f.held -= n
		t.more -= n
		b.left -= n
		want -= n
	}
	return nil
}
