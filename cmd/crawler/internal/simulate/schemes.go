package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// Sizes in bytes. Header, page and entry are those of the other tables; the next two were measured (docs/schemes.md): what a change takes
// in a stream, and the share to which Zstandard reduces a batch of pages. Half of all changed pages change by less than
// editedShare within a year (Castillo 2004, section 6.2).
const (
	headerBytes, pageBytes, entryBytes = 434., 20_000., 28.

	changeBytes = 400.
	packedShare = .35
	editedShare = .05

	wantedShare = .9 // of the importance: the pages that a crawler's filter or program selects
)

// A load is what a site causes in a day: each page is polled once a day, or each change is pushed.
type load struct {
	pages   float64
	any     float64 // probability that the site changed
	changed float64 // pages
	changes float64
	wanted  struct{ changed, changes float64 } // of the selected pages
}

// A scheme is one of the twelve ways to deliver changes, or none.
type scheme struct {
	name            string
	network, result string // signs of table 6.2
	push, selects   bool   // the copies are always right; only selected pages are delivered
	cost            func(l *load) (requests, bytes float64)
}

func schemes() []scheme {
	const get = headerBytes + pageBytes
	site := func(l *load) (float64, float64) { return 1, headerBytes + l.any*l.pages*pageBytes*packedShare }
	batch := func(l *load) (float64, float64) { return 1, headerBytes + l.changed*pageBytes*packedShare }
	return []scheme{
		{"none", "0", "Normal", false, false, func(l *load) (float64, float64) { return l.pages, l.pages * get }},
		{"poll meta", "+", "Normal", false, false, func(l *load) (float64, float64) {
			return 1 + l.changed, headerBytes + l.pages*entryBytes + l.changed*get
		}},
		{"poll delta", "--", "Normal", false, false, func(l *load) (float64, float64) {
			return 1, headerBytes + l.changed*(changeBytes+editedShare*pageBytes)
		}},
		{"poll page", "-", "Normal", false, false, func(l *load) (float64, float64) { return l.pages, l.pages*headerBytes + l.changed*pageBytes }},
		{"poll batch", "-", "Normal", false, false, batch},
		{"poll site", "++", "Normal", false, false, site},
		{"poll filter", "--", "High", false, true, func(l *load) (float64, float64) {
			return 1, headerBytes + l.wanted.changed*(changeBytes+pageBytes)
		}},
		{"push meta", "+", "High", true, false, func(l *load) (float64, float64) { return l.changes, l.changes * (changeBytes + get) }},
		{"push delta", "--", "High", true, false, func(l *load) (float64, float64) {
			return 0, l.changes * (changeBytes + editedShare*pageBytes)
		}},
		{"push page", "-", "High", true, false, func(l *load) (float64, float64) { return 0, l.changes * (changeBytes + pageBytes) }},
		{"push batch", "+", "High", false, false, batch},
		{"push site", "++", "High", false, false, site},
		{"push agent", "--", "High", true, true, func(l *load) (float64, float64) { return 0, l.wanted.changes * (changeBytes + pageBytes) }},
	}
}

// loads returns the loads of all sites, the largest site first, and which pages are selected.
func loads(w *sim.World) (list []load, sites []int, wanted []bool) {
	order := make([]int, len(w.Pages))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(w.Pages[b].Weight, w.Pages[a].Weight) })
	wanted, covered := make([]bool, len(w.Pages)), 0.
	bySite, quiet := make([]load, len(w.Sites)), make([]float64, len(w.Sites))
	for _, i := range order {
		p := &w.Pages[i]
		l, changed := &bySite[p.Site], -math.Expm1(-p.Rate)
		l.pages++
		l.changed += changed
		l.changes += p.Rate
		quiet[p.Site] += p.Rate
		if wanted[i] = covered < wantedShare; wanted[i] {
			l.wanted.changed += changed
			l.wanted.changes += p.Rate
		}
		covered += p.Weight
	}
	for s := range bySite {
		bySite[s].any = -math.Expm1(-quiet[s])
		sites = append(sites, s)
	}
	slices.SortStableFunc(sites, func(a, b int) int { return cmp.Compare(bySite[b].pages, bySite[a].pages) })
	for _, s := range sites {
		list = append(list, bySite[s])
	}
	return list, sites, wanted
}

// schemes is table 6.2 of the thesis for many sites, and what it is worth if only the largest of them cooperate.
func (p *paper) schemes(context.Context) (*sheet, error) {
	const sites, pagesOfSite = 5000, 67 // on average, as in the thesis
	w := sim.Web{Rates: "lognormal", Rho: .5, Pages: p.scaled(sites * pagesOfSite), Sites: p.scaled(sites), Skew: 1.3, Seed: uint64(p.seed)}.World()
	list, order, wanted := loads(w)
	rank := make([]int, len(order))
	for at, s := range order {
		rank[s] = at
	}
	s := &sheet{names: 1}
	s.row("scheme", "requests", "bytes", "fresh", "network", "freshness", "largest 1%: bytes", "fresh", "largest 10%: bytes", "fresh")
	all := schemes()
	none := &all[0]
	var base [2]float64 // bytes and freshness without cooperation
	for i := range all {
		row := []string{all[i].name}
		for _, share := range []float64{1, .01, .1} {
			n := int(math.Ceil(share * float64(len(list))))
			var requests, bytes, right float64
			for at := range list {
				cost := none.cost
				if at < n {
					cost = all[i].cost
				}
				r, b := cost(&list[at])
				requests, bytes = requests+r, bytes+b
			}
			for j := range w.Pages {
				q := &w.Pages[j]
				switch cooperates := rank[q.Site] < n; {
				case cooperates && all[i].selects && !wanted[j]:
				case cooperates && all[i].push:
					right += q.Weight
				default:
					right += q.Weight * fresh.MeanFresh(q.Rate, 1)
				}
			}
			perPage := float64(len(w.Pages))
			if i == 0 && share == 1 {
				base = [2]float64{bytes, right}
			}
			if share == 1 {
				result := "Normal"
				if 1-right < (1-base[1])/2 {
					result = "High"
				}
				row = append(row, fmt.Sprintf("%.3f", requests/perPage), fmt.Sprintf("%.0f", bytes/perPage), fmt.Sprintf("%.3f", right),
					beside(sign(bytes/base[0]), all[i].network), beside(result, all[i].result))
				continue
			}
			row = append(row, fmt.Sprintf("%.0f", bytes/perPage), fmt.Sprintf("%.3f", right))
		}
		s.row(row...)
	}
	return s, nil
}

// sign is that of a cost relative to no cooperation, as in table 6.2: 0 within a quarter, a double one beyond a factor of four.
func sign(ratio float64) string {
	switch {
	case ratio > 4:
		return "++"
	case ratio > 1.25:
		return "+"
	case ratio < .25:
		return "--"
	case ratio < .8:
		return "-"
	}
	return "0"
}

// beside adds the thesis's sign where it differs.
func beside(measured, printed string) string {
	if measured != printed {
		return measured + " (" + printed + ")"
	}
	return measured
}
