package frontier

import (
	"fmt"
	"slices"
)

// BatchOptions sets the size and shape of a Batch. The zero value is useful.
type BatchOptions struct {
	Size     int // total pages; 0 means 100,000 (G12)
	SameSite int // pages of one site; 0 means 500 (G13)

	// Round is how many pages a site contributes before the next site's turn. 0 means 1: as many sites as
	// possible (S07). With SameSite's value the first sites contribute all that they may. Below 0 each page is
	// from the site that is first by then, as if every page were a batch of its own: so many pages of one site as
	// it stays first, then one of the next (L07).
	Round int

	Skip func(SiteID) bool // sites to leave out; see also Speed.Busy

	// Enough are sites of which only the pages requested by First are taken.
	Enough func(SiteID) bool
}

func (o *BatchOptions) skips(id SiteID) bool { return o.Skip != nil && o.Skip(id) }

// passes reports whether a site is left out but for the pages requested by First.
func (o *BatchOptions) passes(id SiteID) bool { return o.skips(id) || o.Enough != nil && o.Enough(id) }

func (o BatchOptions) withDefaults() BatchOptions {
	if o.Size <= 0 {
		o.Size = 100_000
	}
	if o.SameSite <= 0 {
		o.SameSite = 500
	}
	if o.Round == 0 {
		o.Round = 1
	}
	o.Round = min(o.Round, o.SameSite)
	return o
}

// SiteEntries are the pages of one site in a Batch.
type SiteEntries struct {
	Site    SiteID
	Entries []Entry // in the order in which to fetch them
}

// Batch gives out the pages to fetch at the time now, in milliseconds since 1970: first those requested by
// First, and then, with sites in the order of the Strategy and pages by rank, Round pages of every site in
// turn until it has Size pages. They are out until Done or Return. An empty batch means that no page is due
// now. After a long sleep not all pages that became ready meanwhile may be considered, but about twice Size.
//
// A page may have changed in the store since the frontier last heard of it: before fetching, the caller
// checks that the page is still due, and calls Done if not.
func (f *Frontier) Batch(now int64, o BatchOptions) ([]SiteEntries, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, err := f.batch(now, o.withDefaults())
	if err != nil {
		for i := range list { // the caller does not get them
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
	if err := f.promote(f.now, 2*o.Size); err != nil {
		return nil, err
	}
	if err := f.settle(1); err != nil { // after promote: pages get cash while they wait
		return nil, err
	}
	b := batch{left: o.Size, at: map[SiteID]int{}}
	read, take := f.refresh, f.takeBest
	switch {
	case o.Round < 0:
		take = f.takeSingly
	case !f.ranking.isSmall(o.Size, len(f.sites.list)):
		f.ranking.discard()
		read, take = f.readSites, f.takeRounds
	}
	f.followMeans()
	f.takeFirst(&b, &o)
	err := read()
	if err == nil {
		err = take(&b, &o)
	}
	f.spill()
	return b.list, err
}

// A batch is a Batch while it is made.
type batch struct {
	list []SiteEntries
	at   map[SiteID]int // indexes in list of the sites added by takeFirst
	left int
}

// takeFirst takes the pages requested by First.
func (f *Frontier) takeFirst(b *batch, o *BatchOptions) {
	rest := f.line.entries[:0]
	for n, e := range f.line.entries {
		if b.left == 0 {
			rest = append(rest, f.line.entries[n:]...)
			break
		}
		i, ok := b.at[e.Site]
		if ok && len(b.list[i].Entries) >= o.SameSite || o.skips(e.Site) || f.o.speed(e.Site).Busy {
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

// A turn is a site's share of a batch.
type turn struct {
	site *site
	precedence
	at    int // index in the batch's list, -1: not there
	more  int // pages that it may still contribute
	quota int // pages that it contributes now
}

// turn returns the share of a site, after stand.
func (b *batch) turn(s *site, o *BatchOptions) turn {
	t := turn{site: s, precedence: s.standing.precedence, at: -1, more: min(o.SameSite, s.left())}
	if i, ok := b.at[s.id]; ok {
		t.at = i
		t.more = min(s.left(), o.SameSite-len(b.list[i].Entries))
	}
	return t
}

// takeRounds takes pages of all sites in turn.
func (f *Frontier) takeRounds(b *batch, o *BatchOptions) error {
	if b.left == 0 {
		return nil
	}
	turns := make([]turn, 0, len(f.sites.list))
	for _, s := range f.sites.list {
		if s.left() <= 0 || o.passes(s.id) {
			continue
		}
		has, err := f.stand(s)
		if err != nil {
			return err
		}
		if t := b.turn(s, o); has && t.more > 0 {
			turns = append(turns, t)
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return a.compare(b.precedence) })
	return f.takeTurns(turns, b, o)
}

// takeTurns takes the quotas of the sites, and more of the others where a site has fewer pages than expected.
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

// share sets quotas that sum to at most n: as many whole rounds as fit, and a last one for some of the
// sites. It reports whether any page is left to take.
func share(turns []turn, n int, o *BatchOptions) bool {
	sum := func(rounds int) (sum int) {
		for i := range turns {
			sum += min(turns[i].more, rounds*o.Round)
		}
		return sum
	}
	lo, hi := 0, min((o.SameSite+o.Round-1)/o.Round, n) // lo rounds fit; hi rounds are enough for all
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

// takeFrom takes a site's quota, or fewer pages if it has fewer.
func (f *Frontier) takeFrom(t *turn, b *batch) error {
	if t.at < 0 {
		t.at = len(b.list)
		b.list = append(b.list, SiteEntries{Site: t.site.id})
	}
	e := &b.list[t.at]
	e.Entries = slices.Grow(e.Entries, t.quota)
	s := t.site
	f.mark(s)
	for want := t.quota; want > 0; {
		if err := f.fill(s, min(max(want, 64), f.o.PerSite)); err != nil {
			return err
		}
		if len(s.items) == 0 {
			t.more = 0
			return nil
		}
		n := min(want, len(s.items))
		for _, x := range s.take(n) {
			f.cash.leave(x.page)
			f.out[x.page] = given{item: x, site: s.id, counted: true}
			e.Entries = append(e.Entries, Entry{Page: x.page, Site: s.id, Rank: x.rank})
		}
		s.out += n
		f.held -= n
		t.more -= n
		b.left -= n
		want -= n
	}
	return nil
}
