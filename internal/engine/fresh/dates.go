package fresh

import "time"

// Dates are the dates that the pages of sites had at their first visits, to the minute. The zero value is ready for use, by one goroutine.
type Dates struct {
	sites map[uint32]*minutes
}

// minutes are those that most pages of a site are dated in, with the number of these pages.
type minutes struct {
	at    [16]int64
	pages [16]uint32
}

const mostDated = 1 << 12 // sites whose dates are remembered

// Visit is [History.Visit] for a page of the site with that number. Pages that are dated in one minute were written by one program, such as a build or a
// copy of the whole site, which says little of when each of them will change again. So at the first visit to the n-th of them
// its date counts as 1/n of a change, and one of the last hour as if it were an hour ago: by a page that is a minute old, it would
// be expected to change each minute, and not be worth a visit. That it has not changed since counts in full.
func (d *Dates) Visit(site uint32, h History, at time.Time, changed bool, modified time.Time) History {
	first := h.Visits <= 0 && !modified.IsZero()
	if h = h.Visit(at, changed, modified); first {
		h.Belief.Quiet = max(h.Belief.Quiet, 1./24)
		h.Belief.Dated /= float32(d.count(site, h.Modified.Unix()/60))
	}
	return h
}

// count counts a page, and returns how many of its site are dated in that minute.
func (d *Dates) count(site uint32, minute int64) uint32 {
	if d.sites[site] == nil {
		if len(d.sites) >= mostDated || d.sites == nil {
			d.sites = map[uint32]*minutes{}
		}
		d.sites[site] = new(minutes)
	}
	x, least := d.sites[site], 0
	for i, n := range x.pages {
		if n > 0 && x.at[i] == minute {
			x.pages[i]++
			return x.pages[i]
		}
		if n < x.pages[least] {
			least = i
		}
	}
	x.at[least], x.pages[least] = minute, 1
	return 1
}
