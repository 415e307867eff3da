package fresh

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Outdated polls a manifest when the probability that its site is outdated reaches a limit, whatever a poll gains and costs
// (Castillo 2004, section 6.5.3). The thesis does not say what is outdated; there are three readings:
//
//	any      one page or more
//	mean     a page, on average over all: their expected share
//	fastest  the page that is expected to change soonest
//
// A site of ten pages that change equally often is polled ten times as often by the first as by the others. The zero value is no
// limit: the price decides.
type Outdated struct {
	Of    string  // any, mean or fastest
	Limit float64 // more than 0 and less than 1; 0: none
}

// ParseOutdated reads a limit such as 0.1, of the mean, or any=0.1. No text is no limit.
func ParseOutdated(text string) (o Outdated, err error) {
	if text == "" {
		return o, nil
	}
	of, limit, named := strings.Cut(text, "=")
	if !named {
		of, limit = "mean", text
	}
	o.Limit, err = strconv.ParseFloat(limit, 64)
	if o.Of = of; err != nil || !slices.Contains([]string{"any", "mean", "fastest"}, of) || !(o.Limit > 0 && o.Limit < 1) {
		return Outdated{}, fmt.Errorf("want a probability above 0 and below 1, such as 0.1, or of what: any=0.1, mean=0.1 or fastest=0.1")
	}
	return o, nil
}

// outdatedAges is the number of ages at which the pages of a site are summed up: from a minute, in the ratio of the rates, up to 280
// days. firstAge is the shortest.
const (
	outdatedAges = 28
	firstAge     = 1. / (24 * 60)
)

// An outdatedSite sums up the pages of a site by what an Outdated needs.
type outdatedSite struct {
	Outdated
	pages  float64
	values [outdatedAges]float64 // at each age: expected changes, as if of one page (any), sum of the probabilities, or the largest
	right  *rightAfter

	shortest, longest float64 // limits of the result, in days
}

// rightAfter has the probabilities of no change at the products of all rates and ages, which grow in their ratio.
type rightAfter [points + outdatedAges]float64

func newRightAfter() *rightAfter {
	var r rightAfter
	for i := range r {
		r[i] = math.Exp(-slowest * firstAge * math.Exp(logStep*float64(i)))
	}
	return &r
}

func (s *outdatedSite) add(post *Posterior) {
	s.pages++
	for i := range s.values {
		right := dot(post, (*[points]float64)(s.right[i:]))
		switch s.Of {
		case "any":
			s.values[i] -= math.Log(max(right, 1e-300))
		case "fastest":
			s.values[i] = max(s.values[i], 1-right)
		default:
			s.values[i] += 1 - right
		}
	}
}

// every is the number of days after which the limit is reached; +Inf if no page of the manifest is known.
func (s *outdatedSite) every() float64 {
	if s.pages == 0 {
		return math.Inf(1)
	}
	return min(max(s.reached(), s.shortest), s.longest)
}

func (s *outdatedSite) reached() float64 {
	need := s.Limit
	switch s.Of {
	case "any":
		need = -math.Log1p(-need)
	case "mean":
		need *= s.pages
	}
	for i, v := range s.values {
		if v < need && i < len(s.values)-1 {
			continue
		}
		age := firstAge * math.Exp(logStep*float64(i))
		if before := s.values[max(0, i-1)]; i > 0 && before > 0 && v > before { // nearly a power of the age
			return age * math.Exp(logStep*(math.Log(need/v)/math.Log(v/before)))
		}
		if v > 0 {
			return age * need / v
		}
	}
	return math.Inf(1)
}
