package catalog

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/server/inventory"
)

// A due is a page to be fetched.
type due struct {
	offer inventory.Offer
	claim claim
}

// plan queues the pages that are due, and returns their number.
func (f *fetcher) plan() (waiting int) {
	type candidate struct {
		checked int64
		tie     uint32
		reading *sourceSnapshot
		i       int
	}
	var fresh, known []candidate
	rules := f.catalog.rules.Current()
	readings := f.catalog.present()
	if rules == nil || slices.Contains(readings, nil) {
		return 0
	}
	now := f.catalog.now()
	recheck := int64(cmp.Or(max(f.opts.Recheck, 0), 24*time.Hour) / time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans++
	named := 0
	m := newMerge(readings)
	for url, r, i, ok := m.next(); ok; url, r, i, ok = m.next() {
		named++
		p := f.pages[f.hash(url)]
		if p != nil {
			p.plan = f.plans
		}
		_, answered := f.answers[url]
		if answered || f.flying[url] || f.catalog.left(rules, url) != "" {
			continue
		}
		c := candidate{tie: rand.Uint32(), reading: r, i: i}
		_, record := r.entry(i)
		changed := p != nil && p.claim != claimOf(record).short()
		switch {
		case p == nil:
			fresh = append(fresh, c)
			continue
		case p.next > now.Unix() && !(changed && p.verdict != fine):
			continue
		case p.doubt || changed || p.verdict == missing:
			c.checked = 1 // before all others
		case p.verdict != fine || p.stamp == "":
			fresh = append(fresh, c)
			continue
		default:
			s, ok := parseFetchStamp(p.stamp)
			if c.checked = max(s.checked, 2); ok && now.Unix() < c.checked+recheck && c.checked <= now.Unix() {
				continue
			}
		}
		known = append(known, c)
	}
	f.forget(named)
	order := func(a, b candidate) int { return cmp.Or(cmp.Compare(a.checked, b.checked), cmp.Compare(a.tie, b.tie)) }
	slices.SortFunc(fresh, order)
	slices.SortFunc(known, order)
	waiting = len(fresh) + len(known)
	f.queue = f.queue[:0]
	for i := 0; len(f.queue) < maxQueue && (i < len(fresh) || i < len(known)); i++ {
		for _, list := range [][]candidate{known, fresh} {
			if i >= len(list) {
				continue
			}
			x := list[i]
			url := strings.Clone(x.reading.url(x.i))
			e, record := x.reading.entry(x.i)
			f.queue = append(f.queue, due{e.offer(url, f.catalog.place(url), now), claimOf(record)})
		}
	}
	f.more, f.replan = waiting > len(f.queue), false
	slices.Reverse(f.queue)
	return waiting
}

// forget drops pages that no source lists any more, when they are the larger part.
func (f *fetcher) forget(named int) {
	if len(f.pages) < 2*named+maxQueue {
		return
	}
	for h, p := range f.pages {
		if p.plan != f.plans {
			delete(f.pages, h)
		}
	}
}

// short returns the beginning of a claim.
func (c claim) short() (v uint64) {
	for _, b := range c[:8] {
		v = v<<8 | uint64(b)
	}
	return v
}
