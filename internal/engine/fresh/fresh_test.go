package fresh_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

const day = 24 * time.Hour

// step is the logarithm of the ratio of two rates that beliefs tell apart, one after the other.
var step = math.Log(fresh.Rates()[1] / fresh.Rates()[0])

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func page(h fresh.History, importance float64) *fresh.Page {
	return &fresh.Page{History: h, Importance: importance}
}

func about(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(math.Abs(want), 1e-12)
}

// The manager's example (fig 7.1, V07): three pages and what a visit would gain.
func TestThesisExample(t *testing.T) {
	var policy fresh.Thesis
	for _, c := range []struct {
		quality, fresh, profit float64
		visited                bool
	}{{0.4, 0.1, 0.36, true}, {0.7, 0.9, 0.07, true}, {0.6, 0, 0.6, false}} {
		// One visit to a page of age 1 makes the rate 1, and freshness e^-t.
		age := time.Duration(-math.Log(c.fresh) * float64(100*day))
		h := fresh.History{First: epoch, Last: epoch, Visits: 1, Modified: epoch.Add(-100 * day)}
		if !c.visited {
			h, age = fresh.History{}, 0
		}
		if got := fresh.Fresh(h, epoch.Add(age)); !about(got, c.fresh, 1e-9) {
			t.Errorf("freshness is %v, want %v", got, c.fresh)
		}
		if got := policy.Profit(page(h, c.quality), epoch.Add(age)); !about(got, c.profit, 1e-9) {
			t.Errorf("quality %v, freshness %v: profit %v, want %v", c.quality, c.fresh, got, c.profit)
		}
	}
}

// Both estimators meet the true rate in the mean over many pages: (2.2) divided by T
// instead of S T (E11), and the bias-reduced form of (2.3) (E12). The ratios of estimate and
// rate were computed by another program before.
func TestEstimatorsConvergeToTrueRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		perInterval     float64
		visits          int
		dated, compared float64 // estimate through truth, as computed there
	}{
		{0.5, 10, 1.006, 1.0025}, {0.5, 50, 1.001, 1.0000}, {1, 10, 1.010, 1.006},
		{1, 50, 1.002, 1.0000}, {3, 10, 1.002, 0.852}, {0.05, 30, 0.995, 0.995},
	} {
		const trials = 20_000
		rate := c.perInterval
		var dated, compared float64
		for range trials {
			h := fresh.History{}.Visit(epoch, false, epoch.Add(-day))
			bare := fresh.History{}.Visit(epoch, false, time.Time{})
			next := rng.ExpFloat64() / c.perInterval // in days
			var modified time.Time
			for visit := 1; visit <= c.visits; visit++ {
				changed := false
				for next < float64(visit) {
					changed = true
					modified = epoch.Add(time.Duration(next * float64(day)))
					next += rng.ExpFloat64() / c.perInterval
				}
				at := epoch.Add(time.Duration(visit) * day)
				h = h.Visit(at, changed, modified)
				bare = bare.Visit(at, changed, time.Time{})
			}
			dated += fresh.Dated(h.Visits-1, h.Changes, h.Unchanged) / rate / trials
			compared += fresh.Rate(bare) / rate / trials
		}
		if !about(dated, c.dated, 0.025) || !about(compared, c.compared, 0.025) {
			t.Errorf("rate x interval %v, %d visits: dated %.4f (want %v), compared %.4f (want %v)",
				c.perInterval, c.visits, dated, c.dated, compared, c.compared)
		}
	}
}

// The limits of the formulas, by hand.
func TestEstimatorLimits(t *testing.T) {
	d := 1.
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"never changed, dated", fresh.Dated(10, 0, 10*day), 0},
		{"never changed, compared", fresh.Compared(10, 0, 10*day), 0},
		{"always changed, dated: (X-1)/T", fresh.Dated(5, 5, 2*day), 4 / (2 * d)},
		{"always changed, compared", fresh.Compared(5, 5, 5*day), 5 * math.Log(11) / (5 * d)},
		{"half changed, dated", fresh.Dated(10, 5, 4*day), (4 + 5/(10*math.Ln2)) / (4 * d)},
		{"half changed, compared", fresh.Compared(10, 5, 10*day), math.Log(10.5/5.5) * 10 / (10 * d)},
		{"one visit after the first, dated", fresh.Dated(1, 1, day), 0},
		{"changed without any time known to be quiet", fresh.Dated(3, 2, 0), 24 * 3600},
		{"visits at one moment", fresh.Compared(3, 2, 0), 24 * 3600},
		{"more changes than visits", fresh.Compared(3, 9, 3*day), fresh.Compared(3, 3, 3*day)},
		{"less than no visits", fresh.Dated(-3, 2, day), 0},
		{"less than no time", fresh.Dated(3, 2, -day), 24 * 3600},
		{"nothing known", fresh.Rate(fresh.History{}), 0},
		{"one visit without a date", fresh.Rate(fresh.History{Visits: 1, First: epoch, Last: epoch}), 0},
		{"one visit, the page ten days old",
			fresh.Rate(fresh.History{Visits: 1, First: epoch, Last: epoch, Modified: epoch.Add(-10 * day)}), 1 / (10 * d)},
		{"one visit, the page as old as the visit", fresh.Rate(fresh.History{Visits: 1, First: epoch, Last: epoch, Modified: epoch}), 24 * 3600},
		{"changed at the only visit after the first", fresh.Rate(fresh.History{Visits: 2, Changes: 1, First: epoch,
			Last: epoch.Add(day), Modified: epoch.Add(day / 2), Unchanged: day / 2}), math.Log(3) / d},
	} {
		if !about(c.got, c.want, 1e-12) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

// E13 and E14: a copy is as fresh as the time since it was known to be right says; what is
// told weighs more than any estimate.
func TestFreshness(t *testing.T) {
	h := fresh.History{}
	if f := fresh.Fresh(h, epoch); f != 0 {
		t.Errorf("a page that was never visited has freshness %v", f)
	}
	h = h.Visit(epoch, true, epoch.Add(-10*day))
	if h.Changes != 0 || h.Unchanged != 0 || h.Visits != 1 {
		t.Errorf("the first visit counts as a change: %+v", h)
	}
	if f := fresh.Fresh(h, epoch); f != 1 {
		t.Errorf("freshness %v at the visit", f)
	}
	if f := fresh.Fresh(h, epoch.Add(10*day)); !about(f, 1/math.E, 1e-9) {
		t.Errorf("freshness %v after a mean interval", f)
	}
	told := h
	told.Heard.Notified = true
	if f := fresh.Fresh(told, epoch); f != 0 {
		t.Errorf("freshness %v after a notice of a change", f)
	}
	newer := h
	newer.Modified = epoch.Add(time.Hour)
	if f := fresh.Fresh(newer, epoch.Add(2*time.Hour)); f != 0 {
		t.Errorf("freshness %v though modified after the visit", f)
	}
	confirmed := h.Visit(epoch.Add(10*day), false, epoch.Add(-10*day)).Visit(epoch.Add(20*day), true, epoch.Add(15*day))
	before := fresh.Fresh(confirmed, epoch.Add(30*day))
	confirmed = confirmed.Confirm(epoch.Add(29 * day))
	if after := fresh.Fresh(confirmed, epoch.Add(30*day)); after <= before {
		t.Errorf("after a manifest of yesterday confirms the copy, freshness goes from %v to %v", before, after)
	}
	if want := 10*day + 5*day + 9*day; confirmed.Unchanged != want {
		t.Errorf("unchanged for %v, want %v", confirmed.Unchanged, want)
	}
	if h := confirmed.Visit(epoch.Add(31*day), true, epoch.Add(30*day)); h.Unchanged != confirmed.Unchanged+day || h.Changes != 2 || h.Heard.Notified {
		t.Errorf("after the next visit: %+v", h)
	}
}

// A manifest that is looked at often tells of the rate what visits would (F16).
func TestManifestPollsEstimateRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var mean float64
	const pages, perDay = 400, 0.2
	for range pages {
		h := fresh.History{}.Visit(epoch, false, epoch.Add(-day))
		next := rng.ExpFloat64() / perDay
		for hour := 1; hour < 24*100; hour++ {
			at := epoch.Add(time.Duration(hour) * time.Hour)
			if next > float64(hour)/24 {
				h = h.Confirm(at)
				continue
			}
			modified := epoch.Add(time.Duration(next * float64(day)))
			for next <= float64(hour)/24 {
				modified = epoch.Add(time.Duration(next * float64(day)))
				next += rng.ExpFloat64() / perDay
			}
			h = h.Visit(at, true, modified)
		}
		mean += float64(h.Changes) / h.Unchanged.Seconds() * day.Seconds() / pages
	}
	if !about(mean, perDay, 0.05) {
		t.Errorf("%v changes a day, want %v", mean, perDay)
	}
}

// randomHistory is often sane, and sometimes nothing that visits could have led to.
func randomHistory(rng *rand.Rand) fresh.History {
	when := func() time.Time {
		switch rng.IntN(12) {
		case 0:
			return time.Time{}
		case 1:
			return time.Unix(rng.Int64()-rng.Int64(), 0)
		}
		return epoch.Add(time.Duration(rng.Int64N(int64(400 * day))))
	}
	number := func() int {
		switch rng.IntN(10) {
		case 0:
			return -rng.IntN(5)
		case 1:
			return math.MaxInt
		}
		return rng.IntN(12)
	}
	return fresh.History{First: when(), Last: when(), Visits: number(), Changes: number(),
		Unchanged: time.Duration(rng.Int64() >> rng.IntN(64)), Modified: when(), Heard: fresh.Hearsay{Notified: rng.IntN(9) == 0, Confirmed: when()}}
}

func randomShare(rng *rand.Rand) float64 {
	odd := []float64{0, 1, -1, 2, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.MaxFloat64}
	if i := rng.IntN(3 * len(odd)); i < len(odd) {
		return odd[i]
	}
	return rng.Float64()
}

// Whatever is said of a page, by whoever with whatever settings: shares are
// shares, rates are rates, and a later visit never gains less.
func TestNoResultIsNaN(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	share := func(x float64) bool { return x >= 0 && x <= 1 }
	for range 200_000 {
		h := randomHistory(rng)
		p := fresh.Thesis{Alpha: randomShare(rng), Beta: randomShare(rng), Gamma: randomShare(rng) * 3,
			Threshold: randomShare(rng), Prior: randomShare(rng), MaxPeriod: time.Duration(rng.Int64() >> rng.IntN(64)),
			Periods: fresh.Periods{Page: time.Duration(rng.Int64N(int64(10 * day)))}}
		q := randomShare(rng)
		now := epoch.Add(time.Duration(rng.Int64N(int64(500 * day))))
		later := now.Add(time.Duration(rng.Int64N(int64(500 * day))))
		if r := fresh.Rate(h); !share(r / (24 * 3600)) {
			t.Fatalf("%+v has the rate %v", h, r)
		}
		if f, g := fresh.Fresh(h, now), fresh.Fresh(h, later); !share(f) || !share(g) || g > f {
			t.Fatalf("%+v has freshness %v, and later %v", h, f, g)
		}
		if v, w := p.Profit(page(h, q), now), p.Profit(page(h, q), later); !share(v) || !share(w) || w < v {
			t.Fatalf("%+v: a visit to %+v gains %v, and later %v", p, h, v, w)
		}
		next := p.Next(page(h, q), now)
		if h.Visits <= 0 || h.Outdated() {
			if !next.IsZero() {
				t.Fatalf("%+v: %+v is visited at %v, want at once", p, h, next)
			}
		} else if wait := next.Sub(h.Last); wait < p.Periods.WithDefaults().Page || wait > 101*365*day {
			t.Fatalf("%+v: %+v is visited again after %v", p, h, wait)
		}
		fresh.Known(h)
		h.Visit(now, rng.IntN(2) == 0, later)
		h.Confirm(now)
		post := (&fresh.Prior{}).Under(&h.Belief)
		if x := h.Notice(now, later, randomShare(rng), randomShare(rng)); x.Belief.Quiet < 0 || !(post.Mean() > 0) {
			t.Fatalf("%+v after a notice: %+v", h, x)
		}
	}
}

// Next is when the profit reaches the threshold.
func TestNextIsWhenItPays(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	paid := 0
	for range 2000 {
		h := fresh.History{First: epoch, Last: epoch.Add(50 * day), Visits: 5 + rng.IntN(20), Modified: epoch.Add(40 * day)}
		h.Changes = rng.IntN(h.Visits)
		h.Unchanged = time.Duration(rng.Int64N(int64(50 * day)))
		p := fresh.Thesis{Alpha: rng.Float64() * 2, Gamma: rng.Float64() * 2, Threshold: 0.01 + rng.Float64()/2,
			MaxPeriod: 300 * day, Periods: fresh.Periods{Page: time.Minute}}
		q := rng.Float64()
		next := p.Next(page(h, q), h.Last)
		switch wait := next.Sub(h.Last); {
		case wait == time.Minute:
			if got := p.Profit(page(h, q), next); got < p.Threshold*(1-1e-6) {
				t.Fatalf("%+v: %+v, quality %v: visited after the shortest period, profit %v", p, h, q, got)
			}
		case wait == 300*day:
			if got := p.Profit(page(h, q), next); got > p.Threshold*(1+1e-6) {
				t.Fatalf("%+v: %+v, quality %v: visited after the longest period, profit %v", p, h, q, got)
			}
		default:
			paid++
			if got := p.Profit(page(h, q), next); !about(got, p.Threshold, 1e-6) {
				t.Fatalf("%+v: %+v, quality %v: after %v the profit is %v", p, h, q, wait, got)
			}
		}
	}
	if paid < 500 {
		t.Errorf("only %d pages were visited between the shortest and the longest period", paid)
	}
}

// V13: not too soon, but for what is told; nor never.
func TestRevisitPeriodBounds(t *testing.T) {
	h := fresh.History{}.Visit(epoch, false, epoch.Add(-time.Minute)) // changes all the time
	var p fresh.Thesis
	if next := p.Next(page(h, 1), epoch); !next.Equal(epoch.Add(day)) {
		t.Errorf("a page that changes every minute is visited again at %v", next)
	}
	h.Heard.Notified = true
	if next := p.Next(page(h, 1), epoch); !next.IsZero() {
		t.Errorf("a page with a notice waits until %v", next)
	}
	h = fresh.History{}.Visit(epoch, false, time.Time{}).Visit(epoch.Add(day), false, time.Time{})
	if next := p.Next(page(h, 1), epoch); !next.Equal(epoch.Add(91 * day)) {
		t.Errorf("a page that never changes is visited again at %v", next)
	}
	p.MaxPeriod = -1
	if next := p.Next(page(h, 1), epoch); next.Before(epoch.Add(99 * 365 * day)) {
		t.Errorf("without a longest period the page is visited again at %v", next)
	}
	h = fresh.History{}.Visit(epoch, false, time.Time{})
	if next, want := p.Next(page(h, 1), epoch), epoch.Add(time.Duration(-math.Log(0.9)*30*24*3600*1e9)); next.Sub(want).Abs() > time.Second {
		t.Errorf("a page with unknown changes is visited again at %v, want %v", next, want)
	}
}

// Whoever says only how old a copy may get is not held up by a shortest time that nobody has asked for.
func TestMaxPeriodWithoutMinPeriod(t *testing.T) {
	h := fresh.History{}.Visit(epoch, false, time.Time{}).Visit(epoch.Add(day), false, time.Time{})
	for _, x := range []struct {
		policy fresh.Policy
		want   time.Duration
	}{
		{fresh.Thesis{MaxPeriod: time.Hour}, time.Hour},
		{fresh.Thesis{MaxPeriod: time.Hour, Periods: fresh.Periods{Page: 2 * time.Hour}}, 2 * time.Hour},
		{fresh.Priced{Price: 1e9, Longest: time.Second}, time.Second},
		{fresh.Priced{Price: 1e9, Longest: time.Second, Shortest: time.Minute}, time.Minute},
		{fresh.Priced{Longest: time.Hour}, time.Minute}, // at no price
	} {
		if wait := x.policy.Next(page(h, 1), h.Last).Sub(h.Last); wait != x.want {
			t.Errorf("%+v: visited again after %v, want %v", x.policy, wait, x.want)
		}
	}
}

// The presets are what they say: see what each visits first.
func TestPresets(t *testing.T) {
	var stale, seen fresh.History
	stale = fresh.History{}.Visit(epoch, false, epoch.Add(-day))
	now := epoch.Add(day / 4)
	prefers := func(name string, better, than func(fresh.Thesis) float64) {
		t.Helper()
		p, err := fresh.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if b, w := better(p), than(p); b <= w {
			t.Errorf("%s: %v against %v", name, b, w)
		}
	}
	visit := func(h fresh.History, quality float64) func(fresh.Thesis) float64 {
		return func(p fresh.Thesis) float64 { return p.Profit(page(h, quality), now) }
	}
	unseen := seen
	prefers("archive", visit(unseen, 0.2), visit(stale, 0.9))
	prefers("general", visit(stale, 0.95), visit(unseen, 0.2))
	prefers("research", visit(unseen, 0.7), visit(stale, 1))
	prefers("news", visit(stale, 0.9), visit(unseen, 0.1))
	prefers("mirror", visit(unseen, 0), visit(stale, 1))
	if _, err := fresh.Preset("fast"); err == nil {
		t.Error("no error for the unknown preset fast")
	}
}

func ExampleThesis() {
	var p fresh.Thesis
	h := fresh.History{}.Visit(epoch, false, epoch.Add(-10*day)) // ten days old when we saw it
	fmt.Println(p.Next(page(h, 1), epoch).Sub(epoch).Round(time.Hour))
	h.Heard.Notified = true
	fmt.Println(p.Profit(page(h, 0.5), epoch))
	// Output:
	// 25h0m0s
	// 0.5
}

// Whoever tells of every change teaches the rate of a page that is never
// visited again, and a liar teaches nothing.
func TestNoticesEstimateRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	const rate = 0.5
	learned := func(told, precision, recall float64) float64 {
		h := fresh.History{}.Visit(epoch, false, time.Time{})
		for at := rng.ExpFloat64() / told; at < 400; at += rng.ExpFloat64() / told {
			h = h.Notice(epoch.Add(time.Duration(at*float64(day))), time.Time{}, precision, recall)
		}
		post := (&fresh.Prior{}).Under(&h.Belief)
		return post.Mean()
	}
	// Rates between two that are told apart are taken for one of them.
	if got := learned(rate, 1, 1); !about(got, rate, 0.3) {
		t.Errorf("every change announced: %v changes a day, want %v", got, rate)
	}
	if got := learned(rate/2, 1, 0.5); !about(got, rate, 0.3) {
		t.Errorf("half of the changes announced: %v changes a day, want %v", got, rate)
	}
	if got := learned(10, 0, 1); got > 0.01 {
		t.Errorf("ten lies a day give an estimate of %v changes a day", got)
	}

	// What nobody has visited because it was not believed is as if it had not been said, taken back one by one
	// or all at once, dated or not.
	sure := fresh.History{}.Visit(epoch, false, time.Time{}).Visit(epoch.Add(3*day), true, time.Time{}).Visit(epoch.Add(20*day), false, time.Time{})
	mean := func(h fresh.History) float64 {
		post := (&fresh.Prior{}).Under(&h.Belief)
		return post.Mean()
	}
	for _, recall := range []float64{0, 0.5} {
		for _, dated := range []bool{false, true} {
			one, all := sure, sure
			for i := range 5 {
				at, modified := sure.Last.Add(day<<(2*i)), time.Time{}
				if dated {
					modified = at.Add(-time.Hour)
				}
				one = one.Notice(at, modified, 0.8, recall)
				all = all.Notice(at, modified, 0.8, recall)
				one.Heard.Notified, one.Modified = true, at
				one = one.WithoutNotices()
			}
			if about(mean(all), mean(sure), 0.2) {
				t.Errorf("recall %v, dated %v: estimate %v after notices, %v before", recall, dated, mean(all), mean(sure))
			}
			for i, h := range []fresh.History{one, all.WithoutNotices()} {
				tolerance := 1e-3
				if i == 1 && recall == 0 && !dated {
					tolerance = 0.05 // how long each of the intervals was is not kept
				}
				if !about(mean(h), mean(sure), tolerance) || h.Outdated() || h.Heard.Notices != 0 || !h.Heard.Until.IsZero() || !h.Heard.Noticed.IsZero() {
					t.Errorf("recall %v, dated %v: %v changes a day after withdrawn notices, %v before; %+v", recall, dated, mean(h), mean(sure), h)
				}
				if next := (fresh.Thesis{}).Next(page(h, 0.5), h.Last); next.IsZero() {
					t.Error("a visit is due at once after its notices were withdrawn")
				}
			}
		}
	}

	// What was told is not learned a second time by the visit that follows.
	h := fresh.History{}.Visit(epoch, false, time.Time{})
	told := h.Notice(epoch.Add(day), time.Time{}, 1, 1)
	if told.Heard.Notices != 1 || !told.Heard.Noticed.Equal(epoch.Add(day)) {
		t.Errorf("after a notice: %+v", told)
	}
	seen := told.Visit(epoch.Add(2*day), true, time.Time{})
	if want := (fresh.Belief{Quiet: 2, Dated: 1}); seen.Belief != want || seen.Heard.Notices != 0 || !seen.Heard.Until.IsZero() {
		t.Errorf("after the visit: %+v, want %+v", seen.Belief, want)
	}
}
