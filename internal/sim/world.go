package sim

import (
	"fmt"
	"math"
	"slices"
)

// A World is a set of sites and their pages. It is the truth; a policy learns of it only by visits and by the
// sites' notices. A run does not modify it, and many may share it.
type World struct {
	Name  string
	Sites []Site
	Pages []Page

	expected []expectations // of each page of Web.Structured: what its Trace was drawn from, and all that can be foreseen of it
}

// A Site is the way in which a site tells of its changes. The zero value is silent.
type Site struct {
	Push     bool // tells of every change as it happens
	Numbered bool // with numbers, so that the crawler knows of any that is lost
	Manifest bool // has a list of pages and their dates to poll
	Format   Format
	Dated    bool // responses have the true time of the last change

	// Recall is the share of changes that it tells of, in any way, and Precision the share of its notices,
	// floods aside, that are true. 0 means 1, and a negative one means 0. A false notice names a page at
	// random, in proportion to how often the pages change.
	Recall, Precision float64

	Lag    float64 // from a change to its notice, in days
	Flood  float64 // false notices per page and day
	Floods float64 // day from which it sends them; the false notices by Precision, too

	// Trifling: the false notices are of changes of less than 1 % of a page's main text, which a visit finds.
	Trifling bool

	// Unsaid are the days from which it announces no changes of the pages of each directory; 0 means never. Pages are in the directories in turn.
	Unsaid [7]float64
}

// unsaid reports whether a site announces no changes of page i at a time.
func (s *Site) unsaid(i int, at float64) bool {
	from := s.Unsaid[i%len(s.Unsaid)]
	return from > 0 && at >= from
}

// Silent reports whether a site neither pushes nor has a manifest.
func (s *Site) Silent() bool { return !s.Push && !s.Manifest }

func (s *Site) recall() float64    { return share(s.Recall) }
func (s *Site) precision() float64 { return share(s.Precision) }

// perfect reports whether the site tells of all its changes, and nothing else.
func (s *Site) perfect() bool { return s.recall() == 1 && s.precision() == 1 && !(s.Flood > 0) }

// share returns a share, with 0 meaning all and a negative one none.
func share(x float64) float64 {
	switch {
	case x == 0 || x != x:
		return 1
	case x < 0:
		return 0
	}
	return min(x, 1)
}

// falsely is the number of false notices a day for a page with a given rate.
func (s *Site) falsely(rate float64) float64 {
	nu := max(0, s.Flood)
	if p := s.precision(); p < 1 {
		nu += s.recall() * rate * (1 - p) / max(p, 1e-3)
	}
	return nu
}

// Format is the form of a manifest, which matters if bytes are the cost.
type Format uint8

// The formats of a manifest. A delta has only the changes since the last poll.
const (
	Gzip Format = iota
	Plain
	Delta
)

// entrySize is the size of an entry, in bytes.
func (f Format) entrySize() float64 {
	if f == Plain {
		return plainEntry
	}
	return gzipEntry
}

// Measured sizes of manifests, of visits without a change, and of the page that is one unit of cost in bytes.
const (
	plainEntry = 247. // bytes (thesis, 6.5.3)
	gzipEntry  = 28.
	headerSize = 434.
	pageSize   = 20_000.
)

// A Page is one page.
type Page struct {
	Site   int     // index into World.Sites
	Weight float64 // importance
	Rate   float64 // true changes a day; with a Trace the mean of it

	// Trace has the times of all changes, in order, in days from the start. Nil means that they are drawn: a
	// Poisson process at Rate.
	Trace []float64

	Bytes float64 // length; 0 means pageSize
}

// Shares of the visits: every page's the same, in proportion to its rate, or to its weight.
func evenly(*Page) float64     { return 1 }
func byRate(p *Page) float64   { return p.Rate }
func byWeight(p *Page) float64 { return p.Weight }

// Normalize makes the weights of all pages sum to 1; with no weight at all they are equal.
func (w *World) Normalize() {
	sum := 0.
	for i := range w.Pages {
		p := &w.Pages[i]
		if !(p.Weight >= 0) || math.IsInf(p.Weight, 1) {
			p.Weight = 0
		}
		sum += p.Weight
	}
	for i := range w.Pages {
		if sum > 0 {
			w.Pages[i].Weight /= sum
		} else {
			w.Pages[i].Weight = 1 / float64(len(w.Pages))
		}
	}
}

// check returns an error if the world is invalid.
func (w *World) check() error {
	if len(w.Pages) == 0 {
		return fmt.Errorf("world %s: no pages", w.Name)
	}
	sum := 0.
	for i := range w.Pages {
		p := &w.Pages[i]
		switch {
		case p.Site < 0 || p.Site >= len(w.Sites):
			return fmt.Errorf("world %s: page %d: site %d does not exist", w.Name, i, p.Site)
		case !(p.Weight >= 0):
			return fmt.Errorf("world %s: page %d: invalid weight %v", w.Name, i, p.Weight)
		case !(p.Rate >= 0) || p.Rate > fastest:
			return fmt.Errorf("world %s: page %d: invalid rate %v", w.Name, i, p.Rate)
		}
		last := math.Inf(-1)
		for _, t := range p.Trace {
			if !(t >= last) {
				return fmt.Errorf("world %s: page %d: trace out of order at day %v", w.Name, i, t)
			}
			last = t
		}
		sum += p.Weight
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("world %s: weights sum to %v, not 1", w.Name, sum)
	}
	return nil
}

// fastest limits the rates of a world: a change in a minute and a half, of every page.
const fastest = 1000

// All returns the same world with every site speaking in one way. The pages are shared.
func (w *World) All(s Site) *World {
	return w.speaking(func(int) Site { return s })
}

// speaking returns the same world with the sites that say returns for each index. The pages are shared.
func (w *World) speaking(say func(site int) Site) *World {
	v := &World{Name: w.Name, Pages: w.Pages, Sites: make([]Site, len(w.Sites))}
	for i := range v.Sites {
		v.Sites[i] = say(i)
	}
	return v
}

// remade returns the world under a longer name, with every page as change makes it.
func (w *World) remade(name string, change func(*Page)) *World {
	v := &World{Name: w.Name + name, Sites: w.Sites, Pages: slices.Clone(w.Pages)}
	for i := range v.Pages {
		change(&v.Pages[i])
	}
	return v
}

// bySite returns the indices of every site's pages.
func (w *World) bySite() [][]int32 {
	of := make([][]int32, len(w.Sites))
	for i := range w.Pages {
		s := w.Pages[i].Site
		of[s] = append(of[s], int32(i))
	}
	return of
}
