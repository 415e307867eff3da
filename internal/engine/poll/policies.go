package poll

import (
	"cmp"
	"math"
	"time"
)

// Index polls a source when the gain of a poll, [Rates.Gain], reaches its cost. At constant rates, one price
// for all of a crawler's actions then gives the least total delay. Rank is in item-days per unit of cost.
//
// Where a source lists only its newest items, those that drop out of the list before a poll are lost. Each
// counts as a delay of Loss.
type Index struct {
	Loss time.Duration // 0 means a day, negative nothing
}

func (Index) Name() string { return "index" }

// loss is the cost of one lost item, in days.
func (x Index) loss() float64 {
	switch {
	case x.Loss < 0:
		return 0
	case x.Loss == 0:
		return 1
	}
	return min(x.Loss, never).Hours() / 24
}

// Rank implements Policy.
func (x Index) Rank(s *Source, now time.Time) float64 {
	r := s.record()
	items, gain := s.rates().span(phase(r.Last), between(r.Last, now))
	return (gain + x.overflow(items, r.Window)) * s.weight() / s.cost()
}

// overflow is what possible losses add to the index. With E[(n-w)+] lost of n items, Poisson of mean m, and w
// that are listed, u c'(u) - c(u) becomes m P(n >= w) - E[(n-w)+], which is w P(n > w).
func (x Index) overflow(items float64, window int) float64 {
	if window <= 0 || items <= 0 {
		return 0
	}
	loss := x.loss() * float64(window)
	if loss == 0 {
		return 0
	}
	return loss * moreThan(window, items)
}

// moreThan is the probability that a Poisson variable of a mean is greater than w.
func moreThan(w int, mean float64) float64 {
	// Far from the mean, on either side, the sum is not needed.
	sd := math.Sqrt(mean)
	switch {
	case float64(w) > mean+12*sd+40:
		return 0
	case float64(w) < mean-10*sd-1:
		return 1
	}
	// Sum from the term of w downwards or w+1 upwards: the direction in which the terms fall.
	lg, _ := math.Lgamma(float64(w) + 1)
	term := math.Exp(float64(w)*math.Log(mean) - mean - lg)
	sum := 0.
	if float64(w) > mean {
		for k := w + 1; k < w+10000; k++ {
			term *= mean / float64(k)
			sum += term
			if term < sum*1e-12 {
				break
			}
		}
		return min(sum, 1)
	}
	for k := w; k >= 0; k-- {
		sum += term
		if term < sum*1e-12 {
			break
		}
		term *= float64(k) / mean
	}
	return min(max(0, 1-sum), 1)
}

// Next implements Policy.
func (x Index) Next(s *Source, price float64, now time.Time) time.Time {
	r := s.record()
	rates, need, from := s.rates(), s.need(price), phase(r.Last)
	days := rates.gained(from, need)
	if r.Window > 0 && x.loss() > 0 {
		days = earliest(min(days, neverDays), func(d float64) bool {
			items, gain := rates.span(from, d)
			return gain+x.overflow(items, r.Window) >= need
		})
	}
	return after(r.Last, days)
}

// earliest is the least number of days, up to high, at which holds is true, to a second. Holds must be true
// at high, and stay true from its first day on.
func earliest(high float64, holds func(days float64) bool) float64 {
	low := 0.
	for range 64 {
		if high-low < 1./(24*3600) {
			break
		}
		if mid := (low + high) / 2; holds(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// MinimumDelay first polls the sources whose expected items have waited longest, in total. At constant rates
// that is the [Index]; where rates vary by the hour, and polls are hours apart, it does better, with known or
// learned rates.
type MinimumDelay struct{}

func (MinimumDelay) Name() string { return "minimum-delay" }

// Rank implements Policy, in item-days per unit of cost.
func (MinimumDelay) Rank(s *Source, now time.Time) float64 {
	return s.rates().delay(s.record().Last, now) * s.weight() / s.cost()
}

// Next implements Policy.
func (MinimumDelay) Next(s *Source, price float64, now time.Time) time.Time {
	r := s.record()
	rates, need, from := s.rates(), s.need(price), phase(r.Last)
	days := earliest(neverDays, func(d float64) bool {
		items, gain := rates.span(from, d)
		return items*d-gain >= need
	})
	return after(r.Last, days)
}

// PostingRate is advaRSS's rule after its training: most expected items first, weighted by subscribers (A07,
// A08). It keeps the longest queue short; it is not meant for the least delay, nor does it give it.
type PostingRate struct {
	Items float64 // expected items, weighted, at which a poll is worth it; 0 means 1
}

func (PostingRate) Name() string { return "posting-rate" }

// Rank implements Policy, in items: (6).
func (PostingRate) Rank(s *Source, now time.Time) float64 {
	return s.rates().Items(s.record().Last, now) * s.weight()
}

// Next is the time at which Items are expected.
func (p PostingRate) Next(s *Source, _ float64, now time.Time) time.Time {
	r := s.record()
	rates, need, from := s.rates(), positive(p.Items)/s.weight(), phase(r.Last)
	days := earliest(neverDays, func(d float64) bool {
		items, _ := rates.span(from, d)
		return items >= need
	})
	return after(r.Last, days)
}

// Trained is advaRSS's rule of the training phase, used for ever: see [Training]. Its executions are the
// polls at its own times; any other poll is taken for one.
type Trained struct {
	Every   time.Duration // an execution; 0 means 10 minutes (G49)
	Literal bool          // count down or poll, as (1) reads: the period is one execution longer (E33)
}

func (Trained) Name() string { return "training" }

// Rank is by how many executions a source is overdue, 0 if it is not yet due.
func (t Trained) Rank(s *Source, now time.Time) float64 {
	return max(0, between(t.Next(s, 0, now), now)*24*60/t.every().Minutes())
}

func (t Trained) every() time.Duration { return min(cmp.Or(max(t.Every, 0), 10*time.Minute), never) }

// Next implements Policy.
func (t Trained) Next(s *Source, _ float64, _ time.Time) time.Time {
	r := s.record()
	n := r.Training.clean().ToE
	if t.Literal {
		n++
	}
	return after(r.Last, float64(n)*t.every().Hours()/24)
}

// AdvaRSS has both phases: a source is trained for four weeks (A05), and polled by its posting rate from then
// on.
type AdvaRSS struct {
	Trained
	PostingRate
	Training time.Duration // 0 means four weeks
}

func (AdvaRSS) Name() string { return "advarss" }

func (a AdvaRSS) training(s *Source, now time.Time) bool {
	return now.Sub(s.record().First) < cmp.Or(max(a.Training, 0), 4*7*24*time.Hour)
}

// Rank implements Policy.
func (a AdvaRSS) Rank(s *Source, now time.Time) float64 {
	if a.training(s, now) {
		return a.Trained.Rank(s, now)
	}
	return a.PostingRate.Rank(s, now)
}

// Next implements Policy.
func (a AdvaRSS) Next(s *Source, price float64, now time.Time) time.Time {
	if a.training(s, now) {
		return a.Trained.Next(s, price, now)
	}
	return a.PostingRate.Next(s, price, now)
}

// RoundRobin polls all sources in turn.
type RoundRobin struct {
	Every time.Duration // 0 means an hour
}

func (RoundRobin) Name() string { return "round-robin" }

// Rank is in days since the last poll.
func (RoundRobin) Rank(s *Source, now time.Time) float64 {
	return between(s.record().Last, now)
}

// Next implements Policy.
func (p RoundRobin) Next(s *Source, _ float64, _ time.Time) time.Time {
	return s.record().Last.Add(min(cmp.Or(max(p.Every, 0), time.Hour), never))
}
