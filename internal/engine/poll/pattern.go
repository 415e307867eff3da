package poll

import "math"

// The prior before any observation: an item a day, with the weight of half an item of evidence. The
// differences between hours are learned in steps, each shrunk towards the one before as by a Gamma prior of
// that shape: hours of the day with their neighbours towards the mean, each hour alone towards that, days of
// the week towards the mean, and hours of the week towards the product. The shapes are those that did well on
// synthetic feeds of many seeds; half or twice of each changes the delay by less than 1 %.
const (
	priorItems = .5
	priorRate  = 1.
	nearShape  = 1.
	hourShape  = 5.
	dayShape   = 8.
	cellShape  = 20.
	lateShape  = 20.  // of the recent rate relative to the rate over the whole memory: sources wake up, and fall asleep
	lowestRate = 1e-3 // no source is given up for ever (A10): an item in three years,
	lowestHour = .02  // and no hour, relative to the mean of its source
)

// near is the weight of a neighbouring hour.
func near(distance int) float64 { return [...]float64{1, .6, .14, .01}[distance] }

const farthest = 3 // number of neighbours on each side

// A pattern is the expected rates of a Record's source: the mean, factors for the hour of the day and the day of
// the week, and the resulting rate in items a day for each hour of the week.
type pattern struct {
	mean float64 // items a day
	hour [24]float64
	day  [7]float64 // both relative to the mean
	cell [Hours]float64
}

func (r *Record) pattern() (p pattern) {
	var days [Hours]float64
	each(r.from, r.Last, func(h int, d float64) { days[h] += d })
	n, all := 0., 0.
	for h, c := range r.count {
		n, all = n+float64(c), all+days[h]
	}
	p.mean = max((n+priorItems)/(all+priorItems/priorRate), lowestRate)

	var seen, expected [24]float64
	for h, c := range r.count {
		seen[h%24] += float64(c)
		expected[h%24] += p.mean * days[h]
	}
	for h := range p.hour {
		n, m := nearShape, nearShape
		for d := -farthest; d <= farthest; d++ {
			w := near(max(d, -d))
			n += w * seen[(h+d+24)%24]
			m += w * expected[(h+d+24)%24]
		}
		around := n / m
		p.hour[h] = around * (hourShape + seen[h]) / (hourShape + around*expected[h])
	}
	level(p.hour[:])

	var seenDay, expectedDay [7]float64
	for h, c := range r.count {
		seenDay[h/24] += float64(c)
		expectedDay[h/24] += p.mean * p.hour[h%24] * days[h]
	}
	for d := range p.day {
		p.day[d] = (dayShape + seenDay[d]) / (dayShape + expectedDay[d])
	}
	level(p.day[:])

	for h, c := range r.count {
		m := p.mean * p.hour[h%24] * p.day[h/24]
		p.cell[h] = max(m*(cellShape+float64(c))/(cellShape+m*days[h]), lowestHour*p.mean)
	}
	late := (lateShape + float64(r.lately)) / (lateShape + p.faded(r))
	late = max(late, lowestRate/p.mean)
	p.mean *= late
	for h := range p.cell {
		p.cell[h] *= late
	}
	return p
}

// faded is the expectation of Record.lately.
func (p *pattern) faded(r *Record) (sum float64) {
	covered := r.covered()
	h := hourOf(phase(r.Last))
	d := phase(r.Last) - float64(h)/24 // within its hour
	left, whole, hour := math.Exp(-d/week), faded(1./24), math.Exp(-1./Hours)
	sum = p.cell[h] * d * faded(d)
	for age := d; age < min(covered, week); age += 1. / 24 {
		h = (h + Hours - 1) % Hours
		sum += p.cell[h] * whole / 24 * left
		left *= hour
	}
	if covered > week { // add the weeks before the last
		sum *= math.Expm1(-covered/week) / math.Expm1(-1)
	}
	return sum
}

// level divides numbers by their mean.
func level(x []float64) {
	sum := 0.
	for _, v := range x {
		sum += v
	}
	for i := range x {
		x[i] *= float64(len(x)) / sum
	}
}

// Rates are the expected rates of the source, from all that was observed. All are above 0 (A10).
func (r *Record) Rates() *Rates {
	p := r.pattern()
	return NewRates(&p.cell)
}

// shares are weights of the hours of the day and the days of the week, as sixteenths of a power of two: 0 is
// the mean.
type shares [24 + 7]int8

func (p *pattern) shares() (s shares) {
	for i := range s {
		x := 0.
		if i < 24 {
			x = p.hour[i]
		} else {
			x = p.day[i-24]
		}
		s[i] = int8(min(max(math.Round(16*math.Log2(max(x, lowestHour))), -127), 127))
	}
	return s
}

func (s *shares) weights() (w [Hours]float64) {
	var one [24 + 7]float64
	for i, x := range s {
		one[i] = math.Exp2(float64(x) / 16)
	}
	for h := range w {
		w[h] = one[h%24] * one[24+h/24]
	}
	return w
}
