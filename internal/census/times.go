package census

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// times are how long pages live, and how often they change (Castillo 2.1.2).
type times struct {
	changes              map[int64]int64
	intervals, lifetimes histogram
	lives                []float32 // of pages that are gone, in days
	rates                []float32 // of pages visited twice or more, in changes a day
	spans                float64   // sum of days between first and last visits of pages with changes
	changed              int64     // sum of their changes
}

func days(d time.Duration) float64 { return d.Hours() / 24 }

// add counts what is known of a page, be it in the census or not, on a site.
func (x *times) add(p *collection.Page, s *site) {
	s.listed = s.listed || p.Listed
	switch {
	case p.Digest.IsZero():
		return
	case p.State == collection.Gone:
		s.gone++
		born := p.First
		if m := p.Modified; !m.IsZero() && m.Before(born) {
			born = m
		}
		life := max(days(p.Last.Sub(born)), 0)
		x.lives = append(x.lives, float32(life))
		x.lifetimes.add(int64(life))
	default:
		s.copies++
		if p.Status == http.StatusNotFound || p.Status == http.StatusGone {
			s.suspected++
		}
	}
	if p.Visits < 2 {
		return
	}
	x.changes[int64(p.Changes)]++
	x.rates = append(x.rates, float32(fresh.Rate(p.History)))
	if p.Changes > 0 {
		span := days(p.Last.Sub(p.First))
		x.spans += span
		x.changed += int64(p.Changes)
		x.intervals.add(int64(span / float64(p.Changes)))
	}
}

// median returns the middle of the numbers, which it sorts; NaN without any.
func median(list []float32) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	return (float64(list[(len(list)-1)/2]) + float64(list[len(list)/2])) / 2
}

// halfLife returns the days after which half of the pages have probably changed, if each changes at random times at its own rate; NaN
// if that never comes, since more than half of them do not change.
func (x *times) halfLife() float64 {
	slices.Sort(x.rates)
	changed := func(days float64) float64 {
		var sum float64
		for _, rate := range x.rates {
			sum += 1 - math.Exp(-float64(rate)*days)
		}
		return sum / float64(len(x.rates))
	}
	const most = 1e6 // days
	if len(x.rates) == 0 || !(changed(most) > .5) {
		return math.NaN()
	}
	low, high := 0.0, most
	for range 60 {
		if middle := (low + high) / 2; changed(middle) < .5 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// mean returns the mean of the numbers, NaN without any.
func mean(list []float32) float64 {
	var sum float64
	for _, v := range list {
		sum += float64(v)
	}
	return per(sum, len(list))
}

// tables are the tables of times.
func (x *times) tables(s *sites) []Table {
	changes := table("changes", "F03, Castillo 2.1.2", 1, "changes", "pages")
	counts(&changes, x.changes)
	intervals := table("intervals", "F04, Castillo 2.1.2", 2, "from", "to", "pages")
	intervals.classes(x.intervals)
	lifetimes := table("lifetimes", "F04, Castillo 2.1.2", 2, "from", "to", "pages")
	lifetimes.classes(x.lifetimes)

	dead := table("dead", "F17, Castillo 2.4.2", 1, "sites", "copies", "suspected", "gone", "share")
	var sums [2]site
	for _, site := range s.byID {
		if site != nil {
			sum := &sums[0]
			if site.listed {
				sum = &sums[1]
			}
			sum.copies += site.copies
			sum.suspected += site.suspected
			sum.gone += site.gone
		}
	}
	for i, name := range []string{"without a manifest", "with a manifest"} {
		if s := &sums[i]; s.copies > 0 {
			dead.row(name, s.copies, s.suspected, s.gone, per(s.suspected, s.copies))
		}
	}
	return []Table{changes, intervals, lifetimes, dead}
}
