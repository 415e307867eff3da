package graph

import (
	"math"
	"slices"
	"sort"
)

// likeliest returns the likeliest exponent of numbers from least on whose logarithms have that mean.
func likeliest(mean, least float64) float64 {
	likelihood := func(a float64) float64 { return float64(-a*mean) - math.Log(hurwitz(a, least)) } // its logarithm, of one value; concave
	low, high := 1+1e-9, 20.0
	for high-low > 1e-9 {
		third := (high - low) / 3
		if likelihood(low+third) < likelihood(high-third) {
			low += third
		} else {
			high -= third
		}
	}
	return low
}

// A PowerLaw is what FitPowerLaw has found.
type PowerLaw struct {
	Exponent float64 // the numbers k from From on occur in proportion to k^-Exponent
	From     int     // at least 1
	Values   int     // how many of the values are From or more
	Distance float64 // the greatest difference between the shares of these up to some number, and the law's
}

// FitPowerLaw returns the power law that whole numbers follow from some number on: the one from which the distance of Kolmogorov and
// Smirnov to the likeliest law is least, as Clauset, Shalizi and Newman propose. Numbers below 1 follow none. It reports whether there is
// a law: at least 50 values follow it, which are not all the same. It sorts values. To take time that is linear in them, it tries
// only numbers that are 10 % apart as the first, and compares shares at numbers 1 % apart.
func FitPowerLaw(values []int) (best PowerLaw, ok bool) {
	const fewest, apart = 50, 1.1
	slices.Sort(values)
	values = values[sort.SearchInts(values, 1):]
	var logs float64 // of the values from i on
	for _, v := range values {
		logs += math.Log(float64(v))
	}
	last := 0.0
	for i := 0; i+fewest <= len(values) && values[i] < values[len(values)-1]; i++ {
		v := values[i]
		if i > 0 && v == values[i-1] || float64(v) < last*apart {
			logs -= math.Log(float64(v))
			continue
		}
		last = float64(v)
		tail := values[i:]
		l := PowerLaw{Exponent: likeliest(logs/float64(len(tail)), last), From: v, Values: len(tail)}
		if l.Distance = distance(tail, l.Exponent); !ok || l.Distance < best.Distance {
			best, ok = l, true
		}
		logs -= math.Log(last)
	}
	return best, ok
}

// distance is the distance of Kolmogorov and Smirnov between numbers in increasing order and the power law from the first of them on.
func distance(values []int, exponent float64) (most float64) {
	const apart = 1.01
	n, all := float64(len(values)), hurwitz(exponent, float64(values[0]))
	for i, last := 0, 0.0; i < len(values); {
		v := values[i]
		end := i + sort.Search(len(values)-i, func(k int) bool { return values[i+k] > v })
		if float64(v) >= last*apart {
			last = float64(v)
			below, upTo := 1-hurwitz(exponent, last)/all, 1-hurwitz(exponent, last+1)/all
			most = max(most, math.Abs(below-float64(i)/n), math.Abs(upTo-float64(end)/n))
		}
		i = end
	}
	return most
}

// hurwitz is Hurwitz's zeta function, the sum of k^-s for k = q, q+1, and so on: some terms, then Euler's and Maclaurin's formula for the rest.
func hurwitz(s, q float64) (sum float64) {
	for range 12 {
		sum += math.Pow(q, -s)
		q++
	}
	return sum + math.Pow(q, -s)*(q/(s-1)+.5+s/(12*q)-s*(s+1)*(s+2)/(720*q*q*q))
}

// drawn returns n whole numbers from 1 to most, in increasing order, that follow a power law from some least number on and sum to total,
// or to as near to it as such numbers can. They are the law's quantiles, so the largest is always as large as is to be expected.
func drawn(n, total, most int, exponent float64) []int {
	weight := make([]float64, most+1) // weight[k] is that of 1 to k
	for k := 1; k <= most; k++ {
		weight[k] = weight[k-1] + float64(power(float64(k), -exponent))
	}
	// quantiles calls f with each number and how many of it there are, if the law has the weights from below on, up to the number most.
	quantiles := func(below float64, most int, f func(k, count int)) {
		done := 0
		for k := 1; done < n; k++ {
			upTo := n
			if k < most {
				upTo = int(float64(n)*max(weight[k]-below, 0)/(weight[most]-below) + .5)
			}
			if upTo > done {
				f(k, upTo-done)
				done = upTo
			}
		}
	}
	tooMuch := func(below float64, most int) bool {
		sum := 0
		quantiles(below, most, func(k, count int) { sum += k * count })
		return sum > total
	}
	// The sum grows with both ends of the law. If the whole law is too much, its upper end is lowered, else its lower end is raised.
	below := 0.0
	if tooMuch(0, most) {
		most = max(sort.Search(most, func(m int) bool { return m > 0 && tooMuch(0, m) })-1, 1)
	} else {
		high := weight[most-1]
		for range 60 {
			if middle := (below + high) / 2; tooMuch(middle, most) {
				high = middle
			} else {
				below = middle
			}
		}
	}
	numbers := make([]int, 0, n)
	sum := 0
	quantiles(below, most, func(k, count int) {
		sum += k * count
		for range count {
			numbers = append(numbers, k)
		}
	})
	for k := 0; sum < total; k++ { // the little that is missing is spread over the largest hundredth
		numbers[n-1-k%(n/100+1)]++
		sum++
	}
	return numbers
}

// power is x to the y, for x > 0. math.Pow may differ in its last bits between machines, and a generated graph must not; here every
// product is rounded before something is added, which keeps compilers from doing both at once.
func power(x, y float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	z := (m - 1) / (m + 1) // the logarithm of m is 2(z + z^3/3 + z^5/5 ...)
	square, series := float64(z*z), 0.0
	for k := 23; k > 0; k -= 2 {
		series = float64(series*square) + 1/float64(k)
	}
	log := float64(y * (float64(float64(e)*math.Ln2) + float64(2*z*series)))
	twos := math.Floor(log/math.Ln2 + .5)
	rest := log - float64(twos*math.Ln2)
	exp := 1.0
	for k := 17; k > 0; k-- {
		exp = 1 + float64(exp*rest)/float64(k)
	}
	return math.Ldexp(exp, int(twos))
}
