package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// A TraceWeb makes a world of traces, each of them a site. Its pages are those that were alive throughout.
type TraceWeb struct {
	Dir   string   // folder of the files
	Names []string // arguments of openTrace
	File  string   // instead of both: one trace, in the form of readTrace. Pages that are URLs are of a site for each host

	Days  float64 // length; 0 means 900
	Until float64 // its end, in days before the end of each trace
	Seed  uint64  // of the importance, which is Zipf's; 0 means 1
}

// World reads the traces. The rate of a page is the mean of its changes in the world's days.
func (t TraceWeb) World() (*World, error) {
	if t.Days == 0 {
		t.Days = 900
	}
	if !(t.Days > 0) || !(t.Until >= 0) {
		return nil, fmt.Errorf("world of traces: %v days until %v before their end", t.Days, t.Until)
	}
	w, open := &World{Name: "traces"}, openTrace
	if t.File != "" {
		t.Dir, t.Names, open = t.File, []string{t.File}, openTraceFile
	}
	sites := map[[2]string]int{} // by trace and host
	for _, name := range t.Names {
		trace, err := open(t.Dir, name)
		if err != nil {
			return nil, err
		}
		if len(t.Names) == 1 {
			w.Name = name
		}
		end := trace.Days() - t.Until
		if end < t.Days {
			return nil, fmt.Errorf("trace %s: it has %.0f days, fewer than %.0f", name, math.Floor(end), t.Days)
		}
		for _, l := range trace.Alive(end-t.Days, end) {
			site := [2]string{name}
			if u, err := url.Parse(l.Path); err == nil && t.File != "" {
				site[1] = u.Host
			}
			if _, ok := sites[site]; !ok {
				sites[site] = len(w.Sites)
				w.Sites = append(w.Sites, Site{})
			}
			w.Pages = append(w.Pages, Page{Site: sites[site], Rate: float64(len(l.Changes)) / t.Days, Trace: l.Changes, Bytes: float64(l.Bytes)})
		}
	}
	if len(w.Pages) == 0 {
		return nil, fmt.Errorf("trace %s: no page lived through all of its last %.0f days", strings.Join(t.Names, ", "), t.Days)
	}
	rng := rand.New(rand.NewPCG(cmp.Or(t.Seed, 1), 3))
	for rank, i := range rng.Perm(len(w.Pages)) {
		w.Pages[i].Weight = 1 / float64(rank+1)
	}
	w.Normalize()
	return w, w.check()
}

// Bursts measures how much a world differs from Poisson's.
type Bursts struct {
	Pages, Changes int

	Gaps  int     // between two changes of a page
	Short float64 // share of them below two days
	Usual float64 // the expected share, were each page's changes Poisson's at its own rate

	Shared float64 // share of changes at the same moment as those of 9 or more other pages of the site
}

// Bursts measures the traces of a world of so many days.
func (w *World) Bursts(days float64) (b Bursts) {
	type moment struct {
		site int
		at   float64
	}
	together := map[moment]int{}
	for i := range w.Pages {
		p := &w.Pages[i]
		b.Changes += len(p.Trace)
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
	for _, n := range together {
		if n >= 10 {
			b.Shared += float64(n)
		}
	}
	b.Pages = len(w.Pages)
	b.Short, b.Usual = b.Short/math.Max(1, float64(b.Gaps)), b.Usual/math.Max(1, float64(b.Gaps))
	b.Shared /= math.Max(1, float64(b.Changes))
	return b
}

// before returns a world in which the rate of each page with a trace is that of its changes before a day, and of half
// a change more: a page without any may change yet.
func (w *World) before(day float64) *World {
	return w.remade("", func(p *Page) {
		if p.Trace != nil {
			n, _ := slices.BinarySearch(p.Trace, day)
			p.Rate = (float64(n) + .5) / day
		}
	})
}
