package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A TraceWeb says how to make a world of traces, each of them a site. What was
// alive throughout is a page of it.
type TraceWeb struct {
	Dir   string   // where the files are
	Names []string // as openTrace takes them

	Days  float64 // how long; 0 means 900
	Until float64 // where it ends, in days before the end of each trace
	Seed  uint64  // of the importance, which is Zipf's; 0 means 1
}

// World reads the traces. The rate of a page is the mean of what it did in the world's days.
func (t TraceWeb) World() (*World, error) {
	if t.Days == 0 {
		t.Days = 900
	}
	if !(t.Days > 0) || !(t.Until >= 0) {
		return nil, fmt.Errorf("world of traces: %v days until %v before their end", t.Days, t.Until)
	}
	w := &World{Name: "traces"}
	for _, name := range t.Names {
		trace, err := openTrace(t.Dir, name)
		if err != nil {
			return nil, err
		}
		if len(t.Names) == 1 {
			w.Name = name
		}
		end := trace.Days() - t.Until
		for _, l := range trace.Alive(end-t.Days, end) {
			w.Pages = append(w.Pages, Page{Site: len(w.Sites), Rate: float64(len(l.Changes)) / t.Days, Trace: l.Changes, Bytes: float64(l.Bytes)})
		}
		w.Sites = append(w.Sites, Site{})
	}
	if len(w.Pages) == 0 {
		return nil, fmt.Errorf("world of traces: no page lived for %v days", t.Days)
	}
	rng := rand.New(rand.NewPCG(cmp.Or(t.Seed, 1), 3))
	for rank, i := range rng.Perm(len(w.Pages)) {
		w.Pages[i].Weight = 1 / float64(rank+1)
	}
	w.Normalize()
	return w, w.check()
}

// Bursts is how little a world is like Poisson's.
type Bursts struct {
	Pages, Changes int
	Never          int // pages that did not change

	Gaps  int     // between two changes of a page
	Short float64 // share of them below two days
	Usual float64 // what that share would be, were each page's changes Poisson's at its own rate

	Shared float64 // share of changes that happened at one moment with those of 9 other pages of the site or more
	Mass   float64 // and with a tenth of its pages
}

// Bursts looks at the traces of a world of so many days.
func (w *World) Bursts(days float64) (b Bursts) {
	type moment struct {
		site int
		at   float64
	}
	together, pages := map[moment]int{}, make([]int, len(w.Sites))
	for i := range w.Pages {
		p := &w.Pages[i]
		pages[p.Site]++
		b.Changes += len(p.Trace)
		if len(p.Trace) == 0 {
			b.Never++
		}
		rate := float64(len(p.Trace)) / days
		for j, at := range p.Trace {
			together[moment{p.Site, at}]++
			if j == 0 {
				continue
			}
			b.Gaps++
			b.Usual -= math.Expm1(-2 * rate)
			if at-p.Trace[j-1] < 2 {
				b.Short++
			}
		}
	}
	for m, n := range together {
		if n >= 10 {
			b.Shared += float64(n)
		}
		if n >= 2 && 10*n >= pages[m.site] {
			b.Mass += float64(n)
		}
	}
	b.Pages = len(w.Pages)
	b.Short, b.Usual = b.Short/math.Max(1, float64(b.Gaps)), b.Usual/math.Max(1, float64(b.Gaps))
	b.Shared, b.Mass = b.Shared/math.Max(1, float64(b.Changes)), b.Mass/math.Max(1, float64(b.Changes))
	return b
}

// Alone returns a world of so many days in which each page changes as it did, but at another time:
// what is left of its bursts is its own, and pages no longer change together.
func (w *World) Alone(days float64, seed uint64) *World {
	rng := rand.New(rand.NewPCG(seed, 4))
	v := *w
	v.Name, v.Pages = w.Name+", each alone", slices.Clone(w.Pages)
	for i := range v.Pages {
		p := &v.Pages[i]
		by := rng.Float64() * days
		turned := make([]float64, 0, len(p.Trace))
		for _, at := range p.Trace {
			turned = append(turned, math.Mod(at+by, days))
		}
		slices.Sort(turned)
		p.Trace = turned
	}
	return &v
}

// Steady returns a world in which each page changes as often, and as Poisson has it.
func (w *World) Steady() *World {
	v := *w
	v.Name, v.Pages = w.Name+", Poisson", slices.Clone(w.Pages)
	for i := range v.Pages {
		v.Pages[i].Trace = nil
	}
	return &v
}
