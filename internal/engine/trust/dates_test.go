package trust_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
)

// history visits a page every day; each day it changes with a probability of
// rate, and date says what the site states. It returns the number of visits
// after which the dates were worth what is wanted, -1 for never.
func history(seed uint64, rate float64, span time.Duration, date func(changed, now time.Time) time.Time, want trust.Worth) (visits int, d trust.Dates) {
	r := rand.New(rand.NewPCG(seed, 6))
	now, modified := start, start.Add(-100*24*time.Hour)
	before, last := date(modified, now), now
	visits = -1
	for n := 1; n <= 200; n++ {
		now = now.Add(24 * time.Hour)
		changed := r.Float64() < rate
		if changed {
			modified = now.Add(-time.Duration(r.IntN(23*3600)) * time.Second)
		}
		stated := date(modified, now)
		d.Visit(trust.Sight{Stated: stated, Span: span, Before: before, Last: last, Read: now, Asked: now.Add(time.Second), Changed: changed})
		before, last = stated, now.Add(time.Second)
		if visits < 0 && d.Worth() == want {
			visits = n
		}
	}
	return visits, d
}

func TestVisitsRevealBadDates(t *testing.T) {
	honest := func(changed, _ time.Time) time.Time { return changed }
	for _, c := range []struct {
		what   string
		rate   float64
		span   time.Duration
		date   func(changed, now time.Time) time.Time
		want   trust.Worth
		within int
	}{
		{"honest", 0.3, 0, honest, trust.Good, 60},
		{"honest, precise to the day", 0.3, 24 * time.Hour,
			func(c, _ time.Time) time.Time { return c.Truncate(24 * time.Hour) }, trust.Good, 60},
		{"always now", 0.1, 0, func(_, now time.Time) time.Time { return now.Add(-time.Second) }, trust.Now, 20},
		{"frozen", 0.3, 0, func(_, _ time.Time) time.Time { return start.Add(-1000 * time.Hour) }, trust.Frozen, 60},
		{"date of the last nightly build", 0.05, 0,
			func(_, now time.Time) time.Time { return now.Add(-10 * time.Hour) }, trust.False, 40},
		{"in the future", 0.3, 0, func(_, now time.Time) time.Time { return now.Add(1000 * time.Hour) }, trust.Absurd, 15},
	} {
		for seed := range uint64(20) {
			after, d := history(seed, c.rate, c.span, c.date, c.want)
			if after < 0 || after > c.within {
				t.Errorf("%s, seed %d: detected after %d visits, want within %d: %v", c.what, seed, after, c.within, &d)
			}
			if d.Worth() != c.want {
				t.Errorf("%s, seed %d: in the end %v", c.what, seed, &d)
			}
		}
	}
}

func TestHonestDatesAreTrusted(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		rate := r.Float64()
		_, d := history(seed, rate, 0, func(c, _ time.Time) time.Time { return c }, trust.Good)
		if !d.Worth().Signal() || d.Worth() == trust.Frozen {
			t.Errorf("seed %d, rate %.2f: %v", seed, rate, &d)
		}
	}
}

func TestDatesOfAFileAreJudgedTogether(t *testing.T) {
	file := func(n int, date func(i int) time.Time) (list []protocol.Date) {
		for i := range n {
			list = append(list, protocol.Date{Time: date(i)})
		}
		return list
	}
	apart := func(i int) time.Time { return start.Add(-time.Duration(i*i+1) * time.Hour) }
	for _, c := range []struct {
		what  string
		dates []protocol.Date
		want  trust.Worth
	}{
		{"apart", file(100, apart), trust.Unproved},
		{"none", file(100, func(int) time.Time { return time.Time{} }), trust.Unproved},
		{"now", file(100, func(i int) time.Time { return start.Add(-time.Duration(i) * time.Millisecond) }), trust.Now},
		{"date of the build", file(100, func(int) time.Time { return start.Add(-50 * time.Hour) }), trust.Alike},
		{"of 1970", file(100, func(int) time.Time { return time.Unix(0, 0) }), trust.Absurd},
		{"few", file(9, func(int) time.Time { return start }), trust.Unproved},
		{"nine in ten equal", file(100, func(i int) time.Time {
			if i < 12 {
				return apart(i)
			}
			return start.Add(-50 * time.Hour)
		}), trust.Unproved},
	} {
		var d trust.Dates
		d.Census(c.dates, start, protocol.DateLimits{})
		if got := d.Worth(); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		d.Census(file(100, apart), start, protocol.DateLimits{})
		if got := d.Worth(); got != trust.Unproved {
			t.Errorf("%s, then corrected: still %v", c.what, got)
		}
	}

	// Whether a date is absurd depends on the limits, for a file and for visits.
	early := func(i int) time.Time { return time.Date(1980, 1, 1+i, 0, 0, 0, 0, time.UTC) }
	for earliest, want := range map[time.Time]trust.Worth{{}: trust.Absurd, early(0): trust.Unproved} {
		limits := protocol.DateLimits{Earliest: earliest}
		var file100, visits trust.Dates
		file100.Census(file(100, early), start, limits)
		for i := range 20 {
			visits.Visit(trust.Sight{Stated: early(1), Before: early(1), Last: start.Add(-time.Hour), Read: start, Asked: start.Add(time.Duration(i)), Limits: limits})
		}
		if file100.Worth() != want || visits.Worth() != want {
			t.Errorf("earliest %v: a file's dates of 1980 are %v, those that visits show are %v, want %v", earliest, file100.Worth(), visits.Worth(), want)
		}
	}
}

// A change between the reading of a sitemap and the visit is not the sitemap's fault.
func TestChangeAfterSitemapReadIsNotBlamed(t *testing.T) {
	var d trust.Dates
	now := start
	for range 100 {
		last := now
		now = now.Add(24 * time.Hour)
		stated := last.Add(-48 * time.Hour)
		d.Visit(trust.Sight{Stated: stated, Before: stated, Last: last, Read: last.Add(time.Hour), Asked: now, Changed: true})
	}
	if d.Worth() != trust.Unproved {
		t.Errorf("%v", &d)
	}
}

// A site that corrects its dates is believed again, and one whose dates become wrong is not.
func TestRecentDatesDecide(t *testing.T) {
	var d trust.Dates
	now := start
	visit := func(moved, changed bool) {
		last := now
		now = now.Add(24 * time.Hour)
		s := trust.Sight{Stated: last.Add(-48 * time.Hour), Last: last, Read: now, Asked: now, Changed: changed}
		s.Before = s.Stated
		if moved {
			s.Stated = now.Add(-5 * time.Hour)
		}
		d.Visit(s)
	}
	for range 500 {
		visit(true, false)
	}
	if d.Worth() != trust.False {
		t.Fatalf("false dates: %v", &d)
	}
	for range 150 {
		visit(true, true)
		visit(false, false)
	}
	if d.Worth() != trust.Good {
		t.Errorf("corrected dates: %v", &d)
	}
	for range 150 {
		visit(false, true)
	}
	if d.Worth() != trust.Frozen {
		t.Errorf("frozen dates: %v", &d)
	}
}

func FuzzVisit(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), true)
	f.Add(int64(1e9), int64(1e18), int64(-5), int64(1e9), int64(24*time.Hour), false)
	f.Fuzz(func(t *testing.T, stated, before, last, read, span int64, changed bool) {
		var d trust.Dates
		for range 100 {
			d.Visit(trust.Sight{Stated: time.Unix(stated, 0), Before: time.Unix(before, 0), Last: time.Unix(last, 0),
				Read: time.Unix(read, 0), Asked: time.Unix(read, 0), Span: time.Duration(span), Changed: changed})
			d.Census([]protocol.Date{{Time: time.Unix(stated, 0), Span: time.Duration(span)}}, time.Unix(read, 0), protocol.DateLimits{})
		}
		if sum := d.Right + d.Wrong + d.Missed + d.Quiet + d.Absurd; sum > 65 {
			t.Fatalf("%v visits are remembered", sum)
		}
		_ = d.String()
	})
}
