package report

import (
	"maps"
	"slices"
	"time"
)

const (
	maxDays = 40_000 // distinct days
	daySecs = 24 * 60 * 60
)

// A moment is a time, and the offset of its zone from UTC in seconds.
type moment struct {
	unix   int64
	offset int
}

// day returns the number of the day since 1970 in the moment's zone, and the hour.
func (m moment) day() (day, hour int64) {
	local := m.unix + int64(m.offset)
	day = floor(local, daySecs)
	return day, (local - day*daySecs) / 3600
}

// in returns the time in a zone; nil means the moment's own.
func (m moment) in(zone *time.Location) time.Time {
	if zone == nil {
		zone = time.FixedZone("", m.offset)
	}
	return time.Unix(m.unix, 0).In(zone)
}

// floor returns n/d, rounded down.
func floor(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}

// A dayset is a set of days, of at most maxDays. Most are equal to the one before.
type dayset struct {
	days map[int64]struct{}
	last int64
}

func (s *dayset) add(day int64) {
	if s.days == nil {
		s.days = map[int64]struct{}{}
	} else if day == s.last {
		return
	}
	s.last = day
	if len(s.days) < maxDays {
		s.days[day] = struct{}{}
	}
}

// A calendar has the traffic of each day.
type calendar struct {
	days   map[int64]*Span // at most maxDays
	today  *Span           // the one that was asked for last
	number int64           // of today
}

// on returns the traffic of a day, or nil if there are too many.
func (c *calendar) on(day int64) *Span {
	if c.today == nil || day != c.number {
		c.number = day
		if c.today = c.days[day]; c.today == nil && len(c.days) < maxDays {
			c.today = &Span{}
			c.days[day] = c.today
		}
	}
	return c.today
}

// list returns the days in order, with the empty days between them unless a gap is too long.
func (c *calendar) list() []Day {
	numbers := slices.Sorted(maps.Keys(c.days))
	days := []Day{}
	for i, n := range numbers {
		if i > 0 && n-numbers[i-1] < 400 {
			for gap := numbers[i-1] + 1; gap < n; gap++ {
				days = append(days, Day{Date: dateOf(gap)})
			}
		}
		days = append(days, Day{dateOf(n), *c.days[n]})
	}
	return days
}

func dateOf(day int64) string { return time.Unix(day*daySecs, 0).UTC().Format(time.DateOnly) }
