package sim

import "math"

// This file inverts the three parts of the index, in x = rate x age:
//
//	freshness  R1(x) = 1 - (1+x) e^-x    from 0 to 1
//	harmonic   a(x)  = x - 1 + e^-x
//	age        b(x)  = x^2/2 - R1(x)
//
// The bounds have their own code for them, so that it checks the crawler's tables.

func freshPart(x float64) float64 {
	if x < .01 {
		return x * x * (.5 - x*(1./3-x*(1./8-x/30)))
	}
	return 1 - (1+x)*math.Exp(-x)
}

func stalePart(x float64) float64 {
	if x < .01 {
		return x * x * (.5 - x*(1./6-x*(1./24-x/120)))
	}
	return x - 1 + math.Exp(-x)
}

func agePart(x float64) float64 {
	if x < .01 {
		return x * x * x * (1./3 - x*(1./8-x/30))
	}
	return x*x/2 - 1 + (1+x)*math.Exp(-x)
}

// freshInverse is the x at which R1 is y, +Inf from 1 on.
func freshInverse(y float64) float64 {
	if y >= 1 {
		return math.Inf(1)
	}
	if y > .5 { // (1+x) e^-x = 1-y is solved by iteration of x = ln(1+x) - ln(1-y), which contracts
		rest := -math.Log1p(-y)
		x := rest + math.Log1p(rest+1)
		for range 4 { // Newton's steps for it
			x -= (x - math.Log1p(x) - rest) * (1 + x) / x
		}
		return x
	}
	x := math.Sqrt(2*y) * (1 + math.Sqrt(2*y)/3)
	for range 6 {
		step := (freshPart(x) - y) / (x * math.Exp(-x))
		x -= step
		if math.Abs(step) < 1e-13*x {
			break
		}
	}
	return x
}

// staleInverse is the x at which a is y.
func staleInverse(y float64) float64 {
	x := y + math.Sqrt(2*y) // right of the root; a is convex
	for range 40 {
		step := (stalePart(x) - y) / -math.Expm1(-x)
		x -= step
		if math.Abs(step) < 1e-13*x {
			break
		}
	}
	return x
}

// ageInverse is the x at which b is y.
func ageInverse(y float64) float64 {
	x := math.Cbrt(3*y) + math.Sqrt(2*y)
	for range 60 {
		step := (agePart(x) - y) / (-x * math.Expm1(-x))
		x -= step
		if math.Abs(step) < 1e-13*x {
			break
		}
	}
	return x
}

// mixedInverse is the last x at which f R1 + h a + g b reaches need, +Inf if it
// never does. f may be negative: then the sum falls before it rises.
func mixedInverse(f, h, g, need float64) float64 {
	sum := func(x float64) float64 { return f*freshPart(x) + h*stalePart(x) + g*agePart(x) }
	low, high := 1e-12, 1e12
	if !(sum(high) > need) {
		return math.Inf(1)
	}
	for range 90 {
		mid := math.Sqrt(low * high)
		if sum(mid) > need {
			high = mid
		} else {
			low = mid
		}
		if high-low < 1e-12*high {
			break
		}
	}
	return high
}
