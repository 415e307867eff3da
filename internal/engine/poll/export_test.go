package poll

import "time"

// This file exports internals to the tests.

const MaxRecord = maxRecord

func Policies() []Policy { return policies(0) }

func (x *Rates) Delay(last time.Time, now time.Time) float64 { return x.delay(last, now) }
func (x *Record) Covered() float64                           { return x.covered() }
func (x Training) Checked(found bool) Training               { return x.checked(found) }

// At is the rate at a time.
func (r *Rates) At(t time.Time) float64 { return r.hour[hourOf(phase(t))] }

// Daily is what is expected in each hour of the day, in items a day (A06).
func (r *Record) Daily() (perDay [24]float64) {
	p := r.pattern()
	for h, x := range p.hour {
		perDay[h] = p.mean * x
	}
	return perDay
}

// Items is how many have come in that time.
func (r *Record) Items() (n float64) {
	for _, c := range r.count {
		n += float64(c)
	}
	return n
}

// Daily returns rates that repeat every day, in items a day for each hour of the day (A06).
func Daily(perDay *[24]float64) *Rates {
	var all [Hours]float64
	for h := range all {
		all[h] = perDay[h%24]
	}
	return NewRates(&all)
}

// Tick is one execution: due says whether to poll the feed in it, and then to call checked with the result.
// It counts down first and polls then, so that the period is ToE (E33).
func (t Training) Tick() (next Training, due bool) {
	t = t.clean()
	t.ToE = max(0, t.ToE-1)
	return t, t.ToE == 0
}
