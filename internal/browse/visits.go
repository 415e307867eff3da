package browse

import (
	"errors"
	"math"
)

// Visits are counts of sessions.
type Visits struct {
	Sessions int64 `json:"sessions"`
	Views    int64 `json:"views"`
	Single   int64 `json:"sessions_of_one_view"`
	Home     int64 `json:"sessions_from_home_page"`
	Depths   int64 `json:"sum_of_depths"` // of the sessions

	Levels []Actions `json:"actions_by_level"` // how often; their sum is the number of views at the level

	// Only of logs: the pages by the depth of their directory (figure 5.16), 0 for "/" and "/a.html"; and what was left out.
	Dirs    []Dir    `json:"directory_depths,omitempty"`
	LeftOut *LeftOut `json:"left_out,omitempty"`
}

// A Dir counts the pages in directories of one depth.
type Dir struct {
	Pages    int64 `json:"pages"`       // different ones
	Entries  int64 `json:"entry_pages"` // of them: those at which sessions began
	Sessions int64 `json:"sessions"`    // that began there
}

// Add counts a session with the levels of its views in order, of which there is at least one. The first is 0.
func (v *Visits) Add(levels []int) {
	v.Sessions++
	v.Views += int64(len(levels))
	if len(levels) == 1 {
		v.Single++
	}
	deepest := 0
	for i, l := range levels {
		deepest = max(deepest, l)
		for len(v.Levels) <= l {
			v.Levels = append(v.Levels, Actions{})
		}
		a := &v.Levels[l]
		if i+1 == len(levels) {
			a.Jump++
			break
		}
		switch to := levels[i+1]; {
		case to == l+1:
			a.Next++
		case to > l:
			a.Fwd++
		case to == l:
			a.Stay++
		case to == l-1:
			a.Back++
		case to == 0:
			a.Start++
		default:
			a.Prev++
		}
	}
	v.Depths += int64(deepest)
}

// Length returns the mean number of views of a session.
func (v *Visits) Length() float64 { return float64(v.Views) / float64(v.Sessions) }

// Depth returns the mean of the deepest levels of the sessions.
func (v *Visits) Depth() float64 { return float64(v.Depths) / float64(v.Sessions) }

// Shares returns the share of the views at each level.
func (v *Visits) Shares() []float64 {
	shares, all := make([]float64, len(v.Levels)), 0.
	for _, a := range v.Levels {
		all += a.Sum()
	}
	for l, a := range v.Levels {
		shares[l] = a.Sum() / all
	}
	return shares
}

// A Fit is a model with the q that explains visits best.
type Fit struct {
	Model *Model

	// Error is the asymptotic standard error of q, as a share of q: most likely the error of table 5.3, since the caption of figure 5.18
	// names it. It is 0 if there are fewer than two levels.
	Error float64

	// RMS and Worst are the root mean square and the greatest of the differences between the cumulative shares by level.
	RMS, Worst float64
}

// FitTo finds the q of a model A, B or C whose cumulative shares by level are nearest to those of the visits, by least squares over all
// levels that visitors saw (section 5.4).
func FitTo(name string, v *Visits) (*Fit, error) {
	seen := Cumulative(v.Shares())
	if len(seen) == 0 {
		return nil, errors.New("fit models: there are no sessions")
	}
	m := &Model{Name: name}
	at := func(q float64) (sum, worst float64) {
		m.Q = q
		for k, x := range seen {
			d := m.closed(k) - x
			sum += float64(d * d)
			worst = max(worst, math.Abs(d))
		}
		return sum, worst
	}
	high, best, least := 1., 0., math.Inf(1)
	if name == "A" {
		high = .5
	}
	for span := high; span > 1e-10; span /= 20 { // around the best so far: the sum may have several minima
		for i, from := 0, best; i <= 400; i++ {
			if q := from + float64(span*(float64(i)/200-1)); q >= 0 && q < high {
				if sum, _ := at(q); sum < least {
					best, least = q, sum
				}
			}
		}
	}
	f := &Fit{Model: m, RMS: math.Sqrt(least / float64(len(seen)))}
	_, f.Worst = at(best)
	const h = 1e-6
	slopes := 0.
	for k := range seen {
		m.Q = best + h
		d := m.closed(k)
		m.Q = best - h
		d = (d - m.closed(k)) / (2 * h)
		slopes += float64(d * d)
	}
	if m.Q = best; len(seen) > 1 && best > 0 && slopes > 0 {
		f.Error = math.Sqrt(least/float64(len(seen)-1)/slopes) / best
	}
	return f, nil
}

// ByLevel returns the model that has the actions of the visits.
func (v *Visits) ByLevel() *Model { return &Model{Name: "by level", Levels: v.Levels} }

// Table54 returns Castillo's table 5.4: how often visitors of 11 sites, blogs left out, did what at which level. Its numbers of sessions and
// views are those that follow from it; table 5.2 has fewer sessions.
func Table54() *Visits {
	v, ends := &Visits{}, 0.
	for _, r := range [][8]float64{
		{247985, .457, 0, .527, 0, .008, 0, 0}, {120482, .459, 0, .332, .185, .017, 0, 0},
		{70911, .462, .111, .235, .171, .014, 0, .001}, {42311, .497, .065, .186, .159, .017, .069, .001},
		{27129, .514, .057, .157, .171, .009, .088, .002}, {17544, .549, .048, .138, .143, .009, .108, .002},
		{10296, .555, .037, .133, .155, .009, .106, .002}, {6326, .596, .033, .135, .113, .006, .113, .002},
		{4200, .637, .024, .104, .127, .006, .096, .002}, {2782, .663, .015, .108, .113, .006, .089, .002},
		{2089, .662, .037, .084, .120, .005, .086, .003}, {1649, .656, .020, .076, .119, .018, .105, .004},
		{1273, .687, .040, .091, .091, .007, .082, .001}, {1008, .734, .015, .058, .112, .005, .054, .019},
		{814, .716, .005, .051, .113, .015, .080, .019}, {666, .762, .025, .056, .091, .008, .041, .017},
	} {
		a := Actions{r[1], r[2], r[3], r[4], r[5], r[6], r[7]}
		ends += float64(r[0] * a.Jump)
		scale := r[0] / a.Sum() // the rows add up to .992 to 1
		v.Levels = append(v.Levels, Actions{a.Next * scale, a.Start * scale, a.Jump * scale, a.Back * scale, a.Stay * scale, a.Prev * scale, a.Fwd * scale})
		v.Views += int64(r[0])
	}
	v.Sessions = int64(math.Round(ends))
	return v
}
