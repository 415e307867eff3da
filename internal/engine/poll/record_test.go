package poll_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/poll"
)

// follow simulates a feed that brings items by rates, and is polled after waits; it returns the record.
func follow(rng *rand.Rand, rec poll.Record, r *poll.Rates, from time.Time, days float64, window int, dated bool, wait func() float64) poll.Record {
	at, end := from, from.Add(time.Duration(days*float64(24*time.Hour)))
	if rec.Polls == 0 {
		rec = rec.Poll(poll.Poll{At: at, Window: window})
	}
	for {
		next := at.Add(time.Duration(wait() * float64(24*time.Hour)))
		if next.After(end) {
			return rec
		}
		p := poll.Poll{At: next, Window: window}
		for t := at; t.Before(next); {
			hour := t.Truncate(time.Hour).Add(time.Hour)
			if hour.After(next) {
				hour = next
			}
			n := poisson(rng, r.At(t)*hour.Sub(t).Hours()/24)
			p.New += n
			for range n {
				p.Dates = append(p.Dates, t.Add(time.Duration(rng.Int64N(int64(hour.Sub(t))))))
			}
			t = hour
		}
		if window > 0 {
			p.New = min(p.New, window)
			p.Dates = p.Dates[len(p.Dates)-p.New:]
		}
		if !dated {
			p.Dates = nil
		}
		rec, at = rec.Poll(p), next
	}
}

func poisson(rng *rand.Rand, mean float64) (n int) {
	for sum := rng.ExpFloat64(); sum < mean; sum += rng.ExpFloat64() {
		n++
	}
	return n
}

// apart is the mean difference of two rates beside the mean.
func apart(a, b *poll.Rates) (sum float64) {
	for h := range poll.Hours {
		sum += math.Abs(a.Hour(h)-b.Hour(h)) / poll.Hours
	}
	return sum / b.Mean()
}

func office() *poll.Rates {
	var r [poll.Hours]float64
	for h := range r {
		r[h] = 4
		if h%24 >= 9 && h%24 < 18 && h/24 < 5 {
			r[h] = 80
		}
	}
	return poll.NewRates(&r)
}

// The estimate comes nearer to the truth with every week, and sooner with dates. Even
// polls that are far apart do not result in a pattern that is steeper than the truth.
func TestPatternsAreLearned(t *testing.T) {
	truth := office()
	for _, c := range []struct {
		name            string
		dated           bool
		wait            float64 // days
		early, late, no float64
	}{
		{"every hour", false, 1. / 24, .40, .20, 0},
		{"every hour, dated", true, 1. / 24, .40, .20, 0},
		{"every six hours", false, .25, .80, .45, 0},
		{"every six hours, dated", true, .25, .40, .20, 0},
	} {
		rng := rand.New(rand.NewPCG(9, 9))
		wait := func() float64 { return c.wait * (.5 + rng.Float64()) }
		rec := follow(rng, poll.Record{}, truth, monday, 7, 0, c.dated, wait)
		early := apart(rec.Rates(), truth)
		rec = follow(rng, rec, truth, monday.AddDate(0, 0, 7), 70, 0, c.dated, wait)
		late := apart(rec.Rates(), truth)
		if early > c.early || late > c.late || late >= early {
			t.Errorf("%s: %.3f apart after a week, %.3f after eleven; want %.2f, %.2f", c.name, early, late, c.early, c.late)
		}
		rec = follow(rng, rec, truth, monday.AddDate(0, 0, 77), 700, 0, c.dated, wait)
		r, most := rec.Rates(), 0.
		for h := range poll.Hours {
			most = max(most, r.Hour(h))
		}
		if most > 1.4*80 || apart(r, truth) > 1.2*late+.02 {
			t.Errorf("%s: after two years %.3f apart, the highest rate is %.0f instead of 80", c.name, apart(r, truth), most)
		}
		if m := r.Mean(); math.Abs(m/truth.Mean()-1) > .1 {
			t.Errorf("%s: %.1f items a day, not %.1f", c.name, m, truth.Mean())
		}
	}
}

// A source's rate is unknown while it is not polled: the estimate does not fall for that, or it would never
// be polled again.
func TestStarvedSourceKeepsItsRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	rec := follow(rng, poll.Record{}, poll.Flat(10), monday, 28, 0, false, func() float64 { return .2 })
	before := rec.Rates().Mean()
	late := rec.Last.AddDate(1, 0, 0)
	src := &poll.Source{Record: &rec}
	if rank := (poll.PostingRate{}).Rank(src, late); rank < 360*before {
		t.Errorf("a year later %v items are expected", rank)
	}
	rec = rec.Poll(poll.Poll{At: late, New: 3650})
	if r := rec.Rates().Mean(); math.Abs(r/before-1) > .2 {
		t.Errorf("%.1f items a day, then %.1f", before, r)
	}
}

// A source that is silent for a day, or half a year, is still polled, and found again when it wakes up (A10).
func TestSilentSourceIsStillPolled(t *testing.T) {
	for _, silent := range []int{1, 180} {
		rng := rand.New(rand.NewPCG(3, 3))
		rec := follow(rng, poll.Record{}, poll.Flat(20), monday, 28, 15, false, func() float64 { return .1 })
		now, wakes := rec.Last, rec.Last.AddDate(0, 0, silent)
		asked := 0
		next := func() time.Time { return poll.Schedule{}.Next(&poll.Source{Record: &rec}, .01, now) }
		for {
			if at := next(); at.After(wakes) {
				break
			} else {
				now = at
			}
			asked++
			rec = rec.Poll(poll.Poll{At: now, Window: 15})
		}
		if asked < silent/3 {
			t.Errorf("silent for %d days, polled %d times", silent, asked)
		}
		found := next()
		if found.Sub(wakes) > 3*24*time.Hour {
			t.Errorf("silent for %d days: found after %v", silent, found.Sub(wakes))
		}
		slow := rec.Rates().Mean()
		rec = follow(rng, rec, poll.Flat(20), found, 7, 15, false, func() float64 { return .2 })
		if fast := rec.Rates().Mean(); fast < 8 || fast > 30 || slow > 20 {
			t.Errorf("silent for %d days: %.2f items a day, and %.2f a week after it woke up to 20", silent, slow, fast)
		}
	}
}

// A feed of 15 items that has 15 new ones has probably had more.
func TestFullFeedImpliesMoreItems(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	rec := follow(rng, poll.Record{}, poll.Flat(60), monday, 28, 15, false, func() float64 { return .35 * rng.Float64() })
	if seen := rec.Items() / rec.Covered(); seen < 45 || seen > 66 {
		t.Errorf("%.1f items a day of 60", seen)
	}
	if r := (poll.Record{}).Poll(poll.Poll{At: monday, Window: 15}).Poll(poll.Poll{At: monday.Add(24 * time.Hour), New: 15, Window: 15}); r.Items() > 30 {
		t.Errorf("a full feed of 15 items counts as %v", r.Items())
	}
}

// The first response of a feed with dates reveals its rate.
func TestFirstResponseRevealsRate(t *testing.T) {
	var dates []time.Time
	for i := range 15 {
		dates = append(dates, monday.Add(-time.Duration(i)*2*time.Hour))
	}
	rec := poll.Record{}.Poll(poll.Poll{At: monday, New: 15, Window: 15, Dates: dates})
	if r := rec.Rates().Mean(); r < 8 || r > 14 {
		t.Errorf("%.1f items a day, not 12", r)
	}
	// A sitemap's dates are those of the last change of each page, and none before.
	if rec = (poll.Record{}).Poll(poll.Poll{At: monday, New: 15, Dates: dates}); rec.Items() != 0 {
		t.Errorf("a list of all items has a history of %v", rec.Items())
	}
	// Dates that anybody could have made up are not all believed.
	lies := []time.Time{{}, monday.AddDate(10, 0, 0), time.Unix(math.MinInt64, 0), time.Unix(math.MaxInt64, 0), monday.AddDate(-90, 0, 0)}
	if rec = (poll.Record{}).Poll(poll.Poll{At: monday, Window: 5, Dates: lies}); !(rec.Rates().Mean() < 2) || rec.Covered() > 85 {
		t.Errorf("%v items in %v days", rec.Items(), rec.Covered())
	}
}

func TestHourOfDay(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	rec := follow(rng, poll.Record{}, office(), monday, 56, 0, true, func() float64 { return .05 })
	day := rec.Daily()
	for h, want := range map[int]float64{3: 4, 12: (5*80. + 2*4) / 7, 20: 4} {
		if math.Abs(day[h]-want) > 2+.15*want {
			t.Errorf("hour %d: %.1f items a day, want %.1f", h, day[h], want)
		}
	}
	noon := rec.Rates()
	if week, end := noon.Hour(12), noon.Hour(5*24+12); week < 5*end {
		t.Errorf("%.1f at noon on Mondays, %.1f on Saturdays", week, end)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	rec, longest := poll.Record{}, 0
	for i := range 200 {
		b := rec.Append(nil)
		longest = max(longest, len(b))
		back, err := poll.ParseRecord(b)
		if err != nil || back != rec {
			t.Fatalf("after %d: %+v, %v; want %+v", i, back, err, rec)
		}
		if _, err := poll.ParseRecord(b[:rng.IntN(len(b))]); err == nil {
			t.Fatal("a truncated record was parsed")
		}
		rec = follow(rng, back, office(), monday.AddDate(0, 0, i), 1, 15, i%2 == 0, func() float64 { return .02 + .1*rng.Float64() })
	}
	if longest > poll.MaxRecord {
		t.Errorf("%d bytes", longest)
	}
	t.Logf("at most %d bytes", longest)
}

func FuzzParseRecord(f *testing.F) {
	rng := rand.New(rand.NewPCG(8, 8))
	f.Add([]byte{1})
	f.Add((&poll.Record{}).Append(nil))
	one := follow(rng, poll.Record{}, office(), monday, 3, 15, false, func() float64 { return .1 })
	f.Add(one.Append(nil))
	year := follow(rng, poll.Record{}, office(), monday, 365, 15, false, func() float64 { return .3 })
	f.Add(year.Append(nil))
	old := follow(rng, poll.Record{}, office(), time.Time{}.Add(time.Second), 3, 15, false, func() float64 { return .1 })
	f.Add(old.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := poll.ParseRecord(b)
		if err != nil {
			return
		}
		again := rec.Append(nil)
		if len(again) > poll.MaxRecord {
			t.Fatalf("%d bytes", len(again))
		}
		if back, err := poll.ParseRecord(again); err != nil || back != rec {
			t.Fatalf("%+v is decoded as %+v, %v", rec, back, err)
		}
		now := monday.AddDate(1, 0, 0)
		for _, p := range poll.Policies() {
			if x := p.Rank(&poll.Source{Record: &rec}, now); !(x >= 0) || math.IsInf(x, 1) {
				t.Fatalf("%s: rank %v of %+v", p.Name(), x, rec)
			}
		}
		rec = rec.Poll(poll.Poll{At: now, New: 3, Window: 3})
		if back, err := poll.ParseRecord(rec.Append(nil)); err != nil || back != rec {
			t.Fatalf("after a poll %+v is decoded as %+v, %v", rec, back, err)
		}
	})
}
