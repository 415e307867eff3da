package sim

import "math"

// A noisy page is one whose site tells of a share of its changes, and of some that never were.
type noisy struct {
	polled
	beta  float64 // number of days by which a notice ages the copy
	shape shapeBetween
}

// newNoisy returns a part for a page of a site that pushes.
func (s shapes) newNoisy(p *polled, site *Site) part {
	r, nu := site.recall(), site.falsely(p.Rate)
	if !(r > 1e-9) || nu > shapeLouder*p.Rate { // notices carry no information
		return p
	}
	return &noisy{polled: *p, beta: newSpeech(p.Rate, r, nu).beta, shape: s.of(r, nu/p.Rate, !(site.Flood > 0))}
}

// at uses the threshold on the copy's age, in days and notices, at which the index equals the price:
// freshness is w/psi and the rate of visits 1/psi.
func (n *noisy) at(price float64) outcome {
	value := n.value(price)
	if value >= 1 {
		return n.never()
	}
	visits, right := n.shape.at(value)
	return outcome{
		spend: (n.header + n.body) * visits * n.Rate,
		fresh: n.Weight * min(1, right),
		age:   n.never().age,
	}
}

// value is the index that is worth a price, as a share of its upper bound.
func (n *noisy) value(price float64) float64 {
	return price * (n.header + n.body) * n.Rate / n.Weight
}

// level is the age at which a visit is worth a price, +Inf if it never is.
func (n *noisy) level(price float64) float64 {
	value := n.value(price)
	if value >= 1 {
		return math.Inf(1)
	}
	return n.shape.level(value) / n.Rate
}

// A speech is how a site tells of the changes of one page.
type speech struct {
	rate            float64 // of changes
	alpha, nu, told float64 // rates of untold changes, of false notices, of all notices
	beta            float64 // number of days by which a notice ages the copy
}

func newSpeech(rate, recall, nu float64) *speech {
	s := &speech{rate: rate, alpha: max(1-recall, 1e-9) * rate, nu: nu, told: recall*rate + nu, beta: math.Inf(1)}
	if nu > 0 {
		s.beta = math.Log(s.told/nu) / s.alpha
	}
	return s
}

// threshold is how long a copy stays right (w) and how long it is kept (psi), in days, if it is fetched as
// soon as its age, plus beta for every notice, is age, and the index there.
func (s *speech) threshold(age float64) (w, psi, index float64) {
	const terms = 4000
	all := s.rate + s.nu
	part := 1 / all // nu^k / (D+nu)^(k+1)
	for k := 0; k < terms; k++ {
		rest := age
		if k > 0 {
			rest -= float64(k) * s.beta
		}
		if !(rest > 0) {
			break
		}
		a, b := erlang(k+1, all*rest), erlang(k+1, s.told*rest)
		w += part * a
		psi += b / s.told
		part *= s.nu / all
		if b < 1e-14 {
			break
		}
	}
	return w, psi, w - math.Exp(-s.alpha*age)*psi
}

// erlang is the probability that k events of rate 1 have happened by x: the regularised lower incomplete
// gamma function.
func erlang(k int, x float64) float64 {
	if x > float64(k)+12*math.Sqrt(float64(k))+40 {
		return 1
	}
	term := math.Exp(-x + float64(k)*math.Log(x) - lnFactorial(k))
	sum := 0.
	for j := k + 1; term > 1e-17*(sum+1e-300) && j < k+100_000; j++ { // the upper tail of the Poisson distribution
		sum += term
		term *= x / float64(j)
	}
	return min(1, sum)
}

func lnFactorial(k int) float64 {
	l, _ := math.Lgamma(float64(k) + 1)
	return l
}
