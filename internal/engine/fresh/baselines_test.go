package fresh

import "math"

// These estimators are what others propose; the tests compare ours with them.

// LikeliestHalved is Likeliest with two artificial checks added, each half the mean length, one changed and
// one not (as in the code of LambdaCrawl: Kolobov et al., NeurIPS 2019). It has a value if there is a check.
func LikeliestHalved(checks []Check) (rate float64, ok bool) {
	n, mean := 0., 0.
	for _, c := range checks {
		if i := c.length(); i > 0 {
			n++
			mean += (i - mean) / n
		}
	}
	if n == 0 {
		return 0, false
	}
	half := mean / 2
	return root(func(rate float64) float64 { return score(checks, rate) + half/math.Expm1(rate*half) - half }), true
}

// Online is an estimator that keeps one number per page, for visits at random times, on average crawls a day
// (Avrachenkov, Patil and Thoppe, 2020): the law of large numbers, crawls x changed / (visits + 1 - changed).
func Online(crawls float64, visits, changed int) float64 {
	n, x := counts(visits, changed)
	return clamp(bounded(crawls, fastest) * float64(x) / float64(n+1-x))
}

// Approximate is their other one, by stochastic approximation: it updates an estimate with the result of the
// n-th visit, by a step of n^-3/4.
func Approximate(rate, crawls float64, n int, changed bool) float64 {
	rate, crawls = bounded(rate, fastest), bounded(crawls, fastest)
	step := math.Pow(float64(max(n, 1)), -0.75)
	if changed {
		return clamp(rate + step*crawls)
	}
	return max(0, rate-step*rate)
}
