package fresh

import "math"

// The ages of the lattice are in the ratio of the rates, with finer ones between, so that a function of rate
// x age is one row of numbers for all ages, and its mean over a posterior is one sum of products.
const (
	youngest = 1e-6            // the first age, in days: a tenth of a second
	fine     = 20              // ages for one step of the rates
	steps    = 54*fine + 1     // ages, up to 160 years
	columns  = points + 54 + 1 // products of a rate and an age in one row
)

// A row[s][i] is a function at the product i, and s fine steps, above the least one.
type row [fine][columns]float64

// from returns the function at the products of all rates with an age.
func (r *row) from(step int) *[points]float64 {
	return (*[points]float64)(r[step%fine][step/fine:])
}

type lattices struct {
	at                         [steps]float64 // the ages, in days
	fresh, stale, age, changed row            // freshPart, stalePart, agePart, R1
}

// lattice is never modified.
var lattice = newLattice()

func newLattice() *lattices {
	var l lattices
	for i := range l.at {
		l.at[i] = youngest * math.Exp(logStep/fine*float64(i))
	}
	for s := range fine {
		for i := range columns {
			x := slowest * youngest * math.Exp(logStep*(float64(i)+float64(s)/fine))
			l.fresh[s][i], l.stale[s][i], l.age[s][i] = freshPart(x), stalePart(x), agePart(x)
			l.changed[s][i] = x * freshPart(x)
		}
	}
	return &l
}

// find returns the lattice age before an age, and the position between it and the next; false if the age is
// not between the first and the last.
func (l *lattices) find(age float64) (step int, part float64, ok bool) {
	if !(age >= l.at[0] && age < l.at[steps-1]) {
		return 0, 0, false
	}
	step = min(max(0, int(math.Log(age/youngest)*(fine/logStep))), steps-2)
	for age < l.at[step] {
		step--
	}
	for age >= l.at[step+1] {
		step++
	}
	return step, (age - l.at[step]) / (l.at[step+1] - l.at[step]), true
}

// dot is the mean of f over a posterior. It uses four sums, since each addition waits for the one before.
func dot(p *Posterior, f *[points]float64) float64 {
	var a, b, c, d float64
	for k := 0; k < points; k += 4 {
		a += p[k] * f[k]
		b += p[k+1] * f[k+1]
		c += p[k+2] * f[k+2]
		d += p[k+3] * f[k+3]
	}
	return a + b + (c + d)
}
