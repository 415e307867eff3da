// Package poll decides when to poll a source that lists news: a feed, a sitemap, a manifest. It is pure: no
// clock, no network, no state.
//
// The results of a source's polls are a [Record]: a small value with the number of items in each hour of the
// week. From it a [Policy] decides when the next poll is worth its cost, or which of many sources to poll
// first, and a [Schedule] enforces the limits:
//
//	rec = rec.Poll(poll.Poll{At: now, New: 3, Window: 15})
//	src := poll.Source{Record: &rec}
//	next := poll.Schedule{}.Next(&src, price, now)
//
// With a price of 0.01 item-days, a source of ten items a day is polled about once an hour, one of an item a
// day every three and a half hours, and one of an item a month every 19 hours.
//
// An item is an entry of the source: an article of a feed, a page that a manifest says has changed (A13).
// Rates are in items a day; gains are in item-days, items times the days by which they became known earlier.
// Hours are those of UTC.
package poll

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// A Source is a policy's input about one source.
type Source struct {
	Record *Record // nil: never polled
	Rates  *Rates  // expected items; nil: those that the record has learned. Many calls for one record are faster with Record.Rates() here

	Weight float64 // of one item relative to those of other sources: its importance, or 1 and a constant for each subscriber (A08); 0 means 1
	Cost   float64 // of one poll, in the unit of the price; 0 means 1
}

// A Policy decides when sources are polled that were polled before: a [Schedule] sees to the others. It has no state:
// it may be used by many goroutines, and keeps none of its arguments.
type Policy interface {
	Name() string

	// Rank is the priority of polling a source now, 0 or more. A crawler that can poll only k sources polls
	// the k that rank highest. Ranks of different policies have different units.
	Rank(s *Source, now time.Time) float64

	// Next is the earliest time at which a poll is worth its cost at a price in item-days of weight 1 per
	// unit of cost; the zero time means at once. Only Index, Ahead and MinimumDelay use the price; the others
	// have rules of their own.
	Next(s *Source, price float64, now time.Time) time.Time
}

// Named returns a policy by its name. Execution is the period of advaRSS's training, see [Trained]; all other settings are 0.
func Named(name string, execution time.Duration) (Policy, error) {
	for _, p := range policies(execution) {
		if p.Name() == name {
			return p, nil
		}
	}
	names := ""
	for _, p := range policies(0) {
		names += ", " + p.Name()
	}
	return nil, fmt.Errorf("unknown poll policy %q: want one of %s", name, names[2:])
}

// policies returns one of each kind.
func policies(execution time.Duration) []Policy {
	trained := Trained{Every: execution}
	return []Policy{Ahead{}, Index{}, MinimumDelay{}, PostingRate{}, AdvaRSS{Trained: trained}, trained, RoundRobin{}}
}

// shortest is the default of Schedule.Shortest: no source needs to be polled more often (A09).
const shortest = 10 * time.Minute

// A Schedule enforces the limits of all policies. The zero value uses Ahead.
type Schedule struct {
	Policy            Policy        // nil means Ahead
	Shortest, Longest time.Duration // between two polls; 0 means 10 minutes (A09), and 30 days
}

// Next is when to poll a source again: never sooner than Shortest after the last poll, whatever policy and
// price, and never later than Longest. The zero time means at once: it was never polled.
func (s Schedule) Next(src *Source, price float64, now time.Time) time.Time {
	r := src.record()
	if r.Polls == 0 {
		return time.Time{}
	}
	shortest, longest := cmp.Or(max(s.Shortest, 0), shortest), cmp.Or(max(s.Longest, 0), 30*24*time.Hour)
	at := s.policy().Next(src, price, now)
	if latest := r.Last.Add(max(longest, shortest)); at.After(latest) {
		at = latest
	}
	if soonest := r.Last.Add(shortest); at.Before(soonest) {
		at = soonest
	}
	return at
}

// Rank is the policy's, 0 for a source that was polled less than Shortest ago, and above all for one that was never
// polled.
func (s Schedule) Rank(src *Source, now time.Time) float64 {
	switch r := src.record(); {
	case r.Polls == 0:
		return most
	case now.Sub(r.Last) < cmp.Or(max(s.Shortest, 0), shortest):
		return 0
	}
	return s.policy().Rank(src, now)
}

func (s Schedule) policy() Policy {
	if s.Policy == nil {
		return Ahead{}
	}
	return s.Policy
}

// most limits all inputs, so that products of three stay finite.
const most = 1e60

// never is the longest interval that is computed.
const (
	never     = neverDays * 24 * time.Hour
	neverDays = 100 * 365
)

var unasked Record // never modified

func (s *Source) record() *Record {
	if s.Record == nil {
		return &unasked
	}
	return s.Record
}

func (s *Source) rates() *Rates {
	if s.Rates == nil {
		return s.record().Rates()
	}
	return s.Rates
}

func (s *Source) weight() float64 { return positive(s.Weight) }
func (s *Source) cost() float64   { return positive(s.Cost) }

// positive limits x to 1/most..most; 0, negative and NaN become 1.
func positive(x float64) float64 {
	if !(x > 0) {
		return 1
	}
	return min(max(x, 1/most), most)
}

// need is the gain, in items of weight 1 times days, that makes a poll worth its cost.
func (s *Source) need(price float64) float64 {
	if !(price > 0) {
		return 0
	}
	return min(price, most) * s.cost() / s.weight()
}

// after adds days to a time, at most [never].
func after(t time.Time, days float64) time.Time {
	if !(days < neverDays) {
		return t.Add(never)
	}
	return t.Add(time.Duration(math.Ceil(max(0, days) * float64(24*time.Hour))))
}

// between is the number of days from a to b, 0 if b is not later.
func between(a, b time.Time) float64 {
	s := float64(b.Unix()-a.Unix()) + float64(b.Nanosecond()-a.Nanosecond())/1e9
	return max(0, s/(24*3600))
}
