package census

import (
	"math"

	"github.com/parleyweb/parley/internal/graph"
)

// laws are the laws that numbers follow.
func (t *taking) laws() Table {
	laws := table("laws", "R03, R04, R12, R13, R16, R21, Castillo chapter 8", 2, "quantity", "kind", "parameter", "from", "values", "distance")
	power := func(quantity string, values []int) {
		if l, ok := graph.FitPowerLaw(values); ok {
			laws.row(quantity, "power law", l.Exponent, l.From, l.Values, l.Distance)
		}
	}
	power("bytes of a page", whole(t.book.length))
	power("links to a page", whole(t.web.in))
	power("links of a page", whole(t.web.out))
	power("pages of a site", whole(t.sites.each(pagesOf)))
	power("bytes of a site", whole(t.sites.each(bytesOf)))
	power("links to a site", whole(t.siteGraph.in))
	out := make([]int, t.siteGraph.Len())
	for site := range out {
		out[site] = len(t.siteGraph.Links(uint32(site)))
	}
	power("links of a site", out)
	if rate, n, distance := exponential(t.book.count.months); n > 0 {
		laws.row("age of a page in months", "exponential", rate, 0, n, distance)
	}
	return laws
}

func whole[T uint32 | int64](list []T) []int {
	values := make([]int, len(list))
	for i, v := range list {
		values[i] = int(v)
	}
	return values
}

// exponential fits e^(-rate k) to whole numbers k by maximum likelihood, and returns how many there are, and the greatest difference
// between the law's shares up to a number and theirs (that of Kolmogorov and Smirnov).
func exponential(values map[int]int64) (rate float64, n int64, distance float64) {
	var sum int64
	for k, count := range values {
		n += count
		sum += int64(k) * count
	}
	rate = math.Log1p(per(n, sum)) // of the whole parts of numbers that are distributed exponentially
	var so int64
	for _, k := range sorted(values) {
		below := per(so, n)
		so += values[k]
		distance = max(distance, math.Abs(-math.Expm1(-rate*float64(k))-below), math.Abs(-math.Expm1(-rate*float64(k+1))-per(so, n)))
	}
	return rate, n, distance
}
