package sim_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// printed are weighted freshness and age in days at B = .05, .1, .2 and .5 as the reference has
// them, for two webs of which only these tables are left.
var printed = map[string]map[string][8]float64{
	"gamma/zipf/0": {
		"uniform":                    {.574, 3.4, .705, 1.1, .815, .33, .912, .06},
		"proportional to rate":       {.433, 13.5, .632, 5.7, .787, 2.4, .906, .73},
		"proportional to importance": {.812, 5.1, .859, 2.0, .900, .76, .942, .18},
		"CGM optimum, unweighted":    {.635, 12.9, .754, 2.8, .856, .22, .936, .04},
		"thesis profit":              {.673, 37, .735, 29, .798, 20, .882, 9.1},
		"thesis profit, 1 d apart":   {.768, 21, .834, 11, .901, 2.0, .946, .11},
		"sqrt(mu D)":                 {.839, 1.2, .903, .35, .945, .10, .976, .02},
		"LambdaCrawl rates":          {.854, 1.1, .907, .34, .946, .09, .976, .02},
		"harmonic index":             {.851, 1.1, .906, .33, .946, .09, .976, .02},
		"freshness = poll bound":     {.862, 7.4, .909, 2.4, .946, .28, .976, .02},
		"age = poll age bound":       {.822, .78, .890, .23, .937, .07, .972, .01},
		"push bound, freshness":      {.974, -1, 1, 0, 1, 0, 1, 0},
		"push bound, age":            {-1, .11, -1, 0, 1, 0, 1, 0},
	},
	"lognormal/zipf/0.5": {
		"uniform":                    {.347, 5.9, .437, 2.5, .532, .99, .663, .27},
		"proportional to importance": {.738, 4.0, .812, 1.5, .872, .51, .928, .12},
		"thesis profit":              {.436, 74, .497, 64, .561, 54, .648, 40},
		"sqrt(mu D)":                 {.728, 2.2, .833, .64, .904, .18, .958, .03},
		"LambdaCrawl rates":          {.760, 1.8, .845, .54, .908, .15, .958, .03},
		"harmonic index":             {.754, 1.8, .842, .56, .906, .16, .958, .03},
		"freshness = poll bound":     {.775, 12.9, .850, 5.4, .909, 1.3, .958, .11},
		"age = poll age bound":       {.666, .82, .783, .25, .869, .07, .940, .01},
		"push bound, freshness":      {.955, -1, .995, -1, 1, 0, 1, 0},
	},
}

// TestPaperTablesAreReproduced compares tables that were computed by others. The web is chosen by
// the rows of uniform and proportional alone; the others follow from nothing but
// the formulas. The optima depend little on which pages a web has, what is no optimum more.
func TestPaperTablesAreReproduced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	near := map[string]float64{ // freshness; else .002
		"proportional to rate": .004, "CGM optimum, unweighted": .004, "thesis profit": .004, "thesis profit, 1 d apart": .003,
	}
	for name, rows := range printed {
		web, err := sim.ParseWeb(name)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, r := range sim.Paper(web.World()) {
			want, ok := rows[r.Policy]
			if !ok {
				continue
			}
			seen++
			within := max(.002, near[r.Policy]) + .0006 // both are rounded
			for i, c := range r.Cells {
				fresh, age := want[2*i], want[2*i+1]
				if fresh >= 0 && math.Abs(c.Fresh-fresh) > within {
					t.Errorf("%s, %s, B = %g: freshness %.4f, printed %.3f", name, r.Policy, c.Budget, c.Fresh, fresh)
				}
				if age >= 0 && r.Policy != "CGM optimum, unweighted" && math.Abs(c.Age-age) > .15*age+.06 && name == "gamma/zipf/0" {
					t.Errorf("%s, %s, B = %g: age %.3f, printed %.3g", name, r.Policy, c.Budget, c.Age, age)
				}
			}
		}
		if seen != len(rows) {
			t.Errorf("%s: %d rows of %d", name, seen, len(rows))
		}
	}
}

// TestManifestTablesAreReproduced: which pages share a site is drawn, so these are less near.
func TestManifestTablesAreReproduced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	want := map[string][4]float64{
		"manifest 1 d fixed": {.923, .953, .953, .953},
		"manifest 6 h fixed": {.855, .972, .987, .987},
		"manifest, priced":   {.942, .982, .997, .999},
	}
	poll := map[int]float64{} // freshness, by column
	for _, r := range sim.PaperManifests(sim.Web{Sites: 100}.World()) {
		if r.Policy == "poll bound" {
			for i, c := range r.Cells {
				poll[i] = c.Fresh
			}
		}
		for i, c := range r.Cells {
			if w, ok := want[r.Policy]; ok && math.Abs(c.Fresh-w[i]) > .006 {
				t.Errorf("%s, B = %g: %.4f, printed %.3f", r.Policy, c.Budget, c.Fresh, w[i])
			}
			if r.Policy == "manifest or polls = bound" && c.Fresh < poll[i] {
				t.Errorf("B = %g: with manifests %.4f at best, without %.4f", c.Budget, c.Fresh, poll[i])
			}
		}
	}
}

// TestWebsMatchTheirDescription: the sums of all rates, and the sizes of sites.
func TestWebsMatchTheirDescription(t *testing.T) {
	for _, c := range []struct {
		rates       string
		mean, sigma float64 // of the mean of 10,000 pages
	}{{"gamma", .100, .0015}, {"lognormal", .1434, .0075}, {"power", .155, .012}} {
		for seed := range uint64(4) {
			w := sim.Web{Rates: c.rates, Rho: .5, Seed: seed + 2}.World()
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
			if mean := w.Changes() / float64(len(w.Pages)); math.Abs(mean-c.mean) > 4*c.sigma {
				t.Errorf("%s: %.4f changes a page and day, want about %.3f", w.Name, mean, c.mean)
			}
		}
	}
	w := sim.Web{Sites: 400}.World()
	sizes := make([]int, len(w.Sites))
	for _, p := range w.Pages {
		sizes[p.Site]++
	}
	for s, n := range sizes {
		if n < 1 || s > 0 && float64(n) > 1.2*float64(sizes[0])/float64(s+1)+2 {
			t.Fatalf("site %d has %d pages of %d: not Zipf's", s, n, sizes[0])
		}
	}
	again := sim.Web{Sites: 400}.World()
	for i := range w.Pages {
		if w.Pages[i].Rate != again.Pages[i].Rate || w.Pages[i].Weight != again.Pages[i].Weight || w.Pages[i].Site != again.Pages[i].Site {
			t.Fatalf("page %d differs between two runs with one seed", i)
		}
	}
}
