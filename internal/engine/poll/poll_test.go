package poll_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/poll"
)

var monday = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func asked(at time.Time) *poll.Record {
	r := poll.Record{}.Poll(poll.Poll{At: at})
	return &r
}

// anyRates returns rates with nights without items.
func anyRates(rng *rand.Rand) *poll.Rates {
	var r [poll.Hours]float64
	for h := range r {
		if rng.IntN(3) > 0 {
			r[h] = rng.ExpFloat64() * 20
		}
	}
	return poll.NewRates(&r)
}

// The example of A07: two items an hour from 11 to 14 h, else one in ten hours.
func TestExpectedItems(t *testing.T) {
	var day [24]float64
	for h := range day {
		day[h] = .1 * 24
		if h >= 11 && h < 14 {
			day[h] = 2 * 24
		}
	}
	r := poll.Daily(&day)
	at := func(days int, hours float64) time.Time {
		return monday.AddDate(0, 0, days).Add(time.Duration(hours * float64(time.Hour)))
	}
	for _, c := range []struct {
		last, now time.Time
		want      float64
	}{
		{at(0, 11), at(0, 14), 6},
		{at(3, 11), at(3, 14), 6},
		{at(0, 0), at(0, 3), .3}, // as (5) is printed it would be this (E34)
		{at(0, 0), at(1, 0), 8.1},
		{at(0, 13.5), at(1, 13.5), 8.1},
		{at(6, 13.5), at(7, 11.5), 1 + 21*.1 + 1},
		{at(2, 5), at(2+70, 5), 70 * 8.1},
		{at(1, 0), at(0, 0), 0},
	} {
		if got := r.Items(c.last, c.now); math.Abs(got-c.want) > 1e-9*(1+c.want) {
			t.Errorf("%v to %v: %v items, want %v", c.last, c.now, got, c.want)
		}
	}
}

// The three integrals equal sums of small pieces, and Next inverts them.
func TestIntegralsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		r := anyRates(rng)
		last := monday.Add(time.Duration(rng.Int64N(int64(60 * 24 * time.Hour))))
		days := math.Exp(rng.NormFloat64()*2 - 1)
		now := last.Add(time.Duration(days * float64(24*time.Hour)))
		const pieces = 20000
		items, delay, gain := 0., 0., 0.
		for i := range pieces {
			u := (float64(i) + .5) / pieces * days
			x := r.At(last.Add(time.Duration(u*float64(24*time.Hour)))) * days / pieces
			items += x
			gain += x * u
			delay += x * (days - u)
		}
		for _, c := range []struct {
			what      string
			got, want float64
		}{{"items", r.Items(last, now), items}, {"gain", r.Gain(last, now), gain}, {"delay", r.Delay(last, now), delay}} {
			if math.Abs(c.got-c.want) > .01*c.want+1e-3*days {
				t.Errorf("%s in %v days: %v, want %v", c.what, days, c.got, c.want)
			}
		}
		src := &poll.Source{Record: asked(last.Truncate(time.Second)), Rates: r, Weight: 3, Cost: 2}
		for _, p := range []poll.Policy{poll.Index{}, poll.MinimumDelay{}} {
			price := math.Exp(rng.NormFloat64()*4 - 2)
			next := p.Next(src, price, last)
			if got := p.Rank(src, next); got < price*(1-1e-6) {
				t.Errorf("%s: polled at %v of its price %v", p.Name(), got, price)
			}
			if got := p.Rank(src, next.Add(-2*time.Second)); got > price {
				t.Errorf("%s: already at %v of its price %v two seconds before", p.Name(), got, price)
			}
		}
		rule := poll.PostingRate{Items: 5}
		if got := rule.Rank(src, rule.Next(src, 0, last)); math.Abs(got-5) > .01 {
			t.Errorf("posting rate: polled at %v expected items", got)
		}
	}
}

// The plan of Ahead is optimal: followed for weeks it costs as much as the
// best path through all of them, found by trying every pair of polls.
func TestAheadIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const days, step = 7, 1. / 144
	cost := func(p poll.Policy, r *poll.Rates, price float64) float64 {
		sum, last, end := 0., monday, monday.AddDate(0, 0, days)
		for {
			src := &poll.Source{Record: asked(last), Rates: r}
			next := poll.Schedule{Policy: p}.Next(src, price, last)
			if !next.Before(end) {
				return sum + r.Delay(last, end)
			}
			sum += r.Delay(last, next) + price
			last = next
		}
	}
	for range 4 {
		r, price := anyRates(rng), math.Exp(rng.NormFloat64()-3)
		const n = days * 144
		at := make([]time.Time, n+1)
		for i := range at {
			at[i] = monday.Add(time.Duration(float64(i) * step * float64(24*time.Hour)))
		}
		best := make([]float64, n+1)
		for j := 1; j <= n; j++ {
			best[j] = math.Inf(1)
			for i := max(0, j-400); i < j; i++ {
				c := best[i] + r.Delay(at[i], at[j])
				if j < n {
					c += price
				}
				best[j] = min(best[j], c)
			}
		}
		ahead, index := cost(poll.Ahead{}, r, price), cost(poll.Index{}, r, price)
		if ahead > 1.03*best[n] || ahead < .99*best[n] {
			t.Errorf("price %.3f: cost %.4f, best path %.4f, index %.4f", price, ahead, best[n], index)
		}
		if index < ahead {
			t.Errorf("price %.3f: the index costs %.4f, less than looking ahead %.4f", price, index, ahead)
		}
	}
}

func TestRankBySubscribers(t *testing.T) {
	now := monday.Add(12 * time.Hour)
	src := func(rate float64, subscribers int, c float64) *poll.Source {
		return &poll.Source{Record: asked(monday), Rates: poll.Flat(rate), Weight: 1 + c*float64(subscribers)}
	}
	for _, p := range []poll.Policy{poll.PostingRate{}, poll.Index{}, poll.MinimumDelay{}, poll.Ahead{}} {
		slow, fast := src(10, 5, 0), src(20, 0, 0)
		if p.Rank(slow, now) >= p.Rank(fast, now) {
			t.Errorf("%s: subscribers count although c is 0", p.Name())
		}
		if slow = src(10, 5, 1); p.Rank(slow, now) <= p.Rank(fast, now) {
			t.Errorf("%s: subscribers do not count although c is set", p.Name())
		}
		if got, want := p.Rank(slow, now), 6*p.Rank(src(10, 0, 1), now); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: 5 subscribers rank %v, want %v (6)", p.Name(), got, want)
		}
	}
	if got := (poll.PostingRate{}).Rank(src(10, 5, 1), now); math.Abs(got-30) > 1e-9 {
		t.Errorf("rank %v, want 5 articles x (1 + 5)", got)
	}
}

// If only the fear of loss counts, it has the closed form of the Poisson tail.
func TestLossTermMatchesPoissonTail(t *testing.T) {
	rec := poll.Record{}.Poll(poll.Poll{At: monday, Window: 15})
	for _, days := range []float64{.05, .3, .7, 1, 1.5, 3, 10} {
		src := &poll.Source{Record: &rec, Rates: poll.Flat(20)}
		now := monday.Add(time.Duration(days * float64(24*time.Hour)))
		got := poll.Index{}.Rank(src, now) - poll.Index{Loss: -1}.Rank(src, now)
		mean, tail, term := 20*days, 1., math.Exp(-20*days)
		for k := 0; k <= 15; k++ {
			tail -= term
			term *= mean / float64(k+1)
		}
		if math.Abs(got-15*tail) > 1e-6 {
			t.Errorf("%v items expected, 15 listed: expected loss %v, want %v", mean, got, 15*tail)
		}
		if p := (poll.Index{}).Next(src, .5, monday); p.After((poll.Index{Loss: -1}).Next(src, .5, monday)) {
			t.Errorf("the cost of loss delays a poll")
		}
	}
}

func TestNamedPolicies(t *testing.T) {
	for _, p := range poll.Policies() {
		if q, err := poll.Named(p.Name(), 0); err != nil || q != p {
			t.Errorf("%s: %v, %v", p.Name(), q, err)
		}
	}
	if _, err := poll.Named("best", 0); err == nil || !strings.Contains(err.Error(), "round-robin") {
		t.Errorf("error %v", err)
	}
}

var strange = []float64{0, math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e-300, 1e300, math.MaxFloat64, 1e-9, .01, 1, 1e9}

// For any input, no policy polls sooner than manners allow (A09), or never, or ranks
// by a value that is not a number.
func TestPoliciesKeepPollBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	pick := func() float64 { return strange[rng.IntN(len(strange))] }
	times := []time.Time{{}, monday, monday.Add(time.Nanosecond), time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0), monday.AddDate(200, 0, 0), time.Unix(0, 0)}
	for i := range 20000 {
		var hours [poll.Hours]float64
		for h := range hours {
			hours[h] = pick()
		}
		var rec poll.Record
		rec.Training = poll.Training{M: pick(), T: pick(), ToE: int(rng.Int64())}
		for range rng.IntN(4) {
			rec = rec.Poll(poll.Poll{At: times[rng.IntN(len(times))], New: int(rng.Int64()) >> rng.IntN(64), Window: int(rng.Int64()) >> rng.IntN(64),
				Dates: []time.Time{times[rng.IntN(len(times))], times[rng.IntN(len(times))]}})
		}
		src := &poll.Source{Record: &rec, Weight: pick(), Cost: pick()}
		if i%2 == 0 {
			src.Rates = poll.NewRates(&hours)
		}
		if rng.IntN(10) == 0 {
			src.Record = nil
		}
		p := poll.Policies()[rng.IntN(len(poll.Policies()))]
		now := times[rng.IntN(len(times))]
		keep := poll.Schedule{Policy: p}
		next := keep.Next(src, pick(), now)
		switch asked := src.Record != nil && src.Record.Polls > 0; {
		case !asked && !next.IsZero():
			t.Fatalf("%s: never polled, but next at %v", p.Name(), next)
		case asked && (next.Before(rec.Last.Add(10*time.Minute)) || next.After(rec.Last.AddDate(0, 0, 30))):
			t.Fatalf("%s: last %v, next %v", p.Name(), rec.Last, next)
		}
		if x := keep.Rank(src, now); !(x >= 0) || math.IsInf(x, 1) {
			t.Fatalf("%s: rank %v at %v of %+v", p.Name(), x, now, src)
		}
		r := rec.Rates()
		for h := range poll.Hours {
			if x := r.Hour(h); !(x > 0) || math.IsInf(x, 1) {
				t.Fatalf("rate %v in hour %d of %+v", x, h, rec)
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	rec := *asked(monday)
	now := monday
	for range 500 {
		now = now.Add(time.Duration(rng.Int64N(int64(4 * time.Hour))))
		rec = rec.Poll(poll.Poll{At: now, New: rng.IntN(5), Window: 15})
	}
	for _, p := range poll.Policies() {
		b.Run(p.Name(), func(b *testing.B) {
			for b.Loop() {
				poll.Schedule{Policy: p}.Next(&poll.Source{Record: &rec}, .01, now)
			}
		})
	}
	b.Run("rates", func(b *testing.B) {
		for b.Loop() {
			rec.Rates()
		}
	})
	b.Run("poll", func(b *testing.B) {
		for b.Loop() {
			rec.Poll(poll.Poll{At: now.Add(time.Hour), New: 2, Window: 15})
		}
	})
}
