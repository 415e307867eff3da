// Package browse models how deep visitors go into a site, and measures it from access logs (Castillo 2004, chapter 5). A visitor's
// level is the number of links from the first page of the session; a crawl that ends at a level misses what visitors see below it.
//
// Models A, B and C have one parameter: q, the probability to go one level deeper. Where a visitor goes otherwise makes the difference:
// back one level (A), to the start (B), or to any level so far, the present one included (C). The fourth model has the probabilities of
// all actions by level, as table 5.4 has. It has no other memory, since the paper's actions have none, and nothing in it is special to
// blogs: their longer sessions are in the numbers.
package browse

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Actions are what visitors do next at a level: counts, or shares of 1. Jump ends the session. Start goes to the first page of the session
// from level 2 or deeper, Back to the level before, Prev to any level between those, Fwd deeper than Next, which a Model takes for two levels.
type Actions struct {
	Next  float64 `json:"next"`
	Start float64 `json:"start"`
	Jump  float64 `json:"jump"`
	Back  float64 `json:"back"`
	Stay  float64 `json:"stay"`
	Prev  float64 `json:"prev"`
	Fwd   float64 `json:"fwd"`
}

// List returns the actions in the order of table 5.4, which is that of the fields.
func (a Actions) List() []float64 {
	return []float64{a.Next, a.Start, a.Jump, a.Back, a.Stay, a.Prev, a.Fwd}
}

// Sum returns the sum of all.
func (a Actions) Sum() float64 { return a.Next + a.Start + a.Jump + a.Back + a.Stay + a.Prev + a.Fwd }

// Shares returns the actions divided by their sum (the rows of table 5.4 add up to .992 to 1); without any, the session ends.
func (a Actions) Shares() Actions {
	n := a.Sum()
	if !(n > 0) {
		return Actions{Jump: 1}
	}
	return Actions{a.Next / n, a.Start / n, a.Jump / n, a.Back / n, a.Stay / n, a.Prev / n, a.Fwd / n}
}

// A Model says how visitors move between levels.
type Model struct {
	Name string  // A, B or C; other models have Levels
	Q    float64 // of A, B and C: the probability to go one level deeper, at least 0 and below 1

	// Levels are the actions by level; deeper levels have those of the last one.
	Levels []Actions

	// Duplicates is the share of the pages one level deeper that have the content of a page seen before. To reach one counts as
	// going back to the level of that page (section 5.5): any level so far, with equal probability. The session goes on.
	Duplicates float64
}

// ParseModel reads a model as "0.6", which is model B, or "C:0.5".
func ParseModel(text string) (*Model, error) {
	name, q, ok := strings.Cut(text, ":")
	if !ok {
		name, q = "B", text
	}
	m := &Model{Name: strings.ToUpper(strings.TrimSpace(name))}
	x, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
	if m.Q = x; err != nil || !(x >= 0 && x < 1) || !strings.Contains("A B C", m.Name) || len(m.Name) != 1 {
		return nil, errors.New("want a probability of at least 0 and below 1, such as 0.6, which is for model B, or A:0.4 or C:0.5")
	}
	return m, nil
}

// At returns the shares of the actions at a level. A return to level 0 ends the session in models A to C, as in the paper: to go to the
// start and to begin a new session have the same consequences there.
func (m *Model) At(level int) Actions {
	l, a := float64(level), Actions{Next: m.Q}
	switch rest := 1 - m.Q; {
	case len(m.Levels) > 0:
		a = m.Levels[min(level, len(m.Levels)-1)].Shares()
	case m.Name == "A" && level >= 2:
		a.Back = rest
	case m.Name == "C": // each of the levels 0 to l has (1-q)/(l+1), where the paper prints 1-q/(l+1)
		a.Jump = rest / (l + 1)
		a.spread(rest/(l+1), level, false)
	default:
		a.Jump = rest
	}
	same := float64(a.Next * m.Duplicates)
	a.Next -= same
	a.spread(same/(l+1), level, true)
	return a
}

// spread adds a probability for each level from 0, or else from 1, up to the present one.
func (a *Actions) spread(each float64, level int, zero bool) {
	switch {
	case zero && level == 1:
		a.Back += each
	case zero && level > 1:
		a.Start += each
	}
	if zero || level > 0 {
		a.Stay += each
	}
	if level > 1 {
		a.Back += each
		a.Prev += float64(float64(level-2) * each)
	}
}

// closed returns by formula the share of the views at levels 0 to k, of a model A, B or C without duplicates (sections 5.2.1 to 5.2.3).
func (m *Model) closed(k int) float64 {
	n := float64(k + 1)
	switch m.Name {
	case "A":
		return 1 - math.Pow(m.Q/(1-m.Q), n)
	case "B":
		return 1 - math.Pow(m.Q, n)
	}
	return 1 - float64((1+n-float64(n*m.Q))*math.Pow(m.Q, n))
}

// A Forecast is what a model expects in the long run.
type Forecast struct {
	Shares []float64 `json:"shares_by_level"` // of the views
	Length float64   `json:"length"`          // views of a session, on average
	Depth  float64   `json:"depth"`           // deepest level of a session, on average
}

// forecastLevels are the levels that a Forecast knows. Beyond them must be less than a billionth of the views.
const forecastLevels = 1024

// Forecast computes the expectations. It fails if the views do not end within 1,024 levels, as in model A from q = 0.5 on.
func (m *Model) Forecast() (*Forecast, error) {
	// How often a session, which starts at level 0, sees each level until it ends: by elimination of one level after the other, without
	// subtractions, which would lose digits (Grassmann, Taksar and Heyman 1985). Nobody goes down more than two levels at once, so that
	// each elimination changes two columns.
	const n = forecastLevels
	p, end, leave, first := make([][]float64, n), make([]float64, n), make([]float64, n), make([]float64, n+2)
	for l := range p {
		a, row := m.At(l), make([]float64, n+2)
		row[l], row[l+1], row[l+2] = a.Stay, a.Next, a.Fwd
		row[max(0, l-1)] += a.Back
		row[0] += a.Start
		for k := 1; k < l-1; k++ {
			row[k] += a.Prev / float64(l-2)
		}
		if l < 3 {
			row[1] += a.Prev
		}
		end[l], p[l] = a.Jump+row[n]+row[n+1], row
		row[n], row[n+1] = 0, 0
	}
	f := &Forecast{Shares: make([]float64, n)}
	first[0] = 1
	for k, row := range p {
		if leave[k] = end[k] + row[k+1] + row[k+2]; leave[k] == 0 {
			return nil, fmt.Errorf("forecast of model %s: nobody leaves level %d", m.Name, k)
		}
		if k > 0 {
			f.Depth += first[k] + first[k+1] // the share of sessions that get as deep as k
		}
		for i := k; i < n; i++ {
			to := p[i] // from level i, or from the start
			if i == k {
				to = first
			}
			if w := to[k] / leave[k]; w > 0 {
				to[k+1] += float64(w * row[k+1])
				to[k+2] += float64(w * row[k+2])
				if i > k {
					end[i] += float64(w * end[k])
				}
			}
		}
	}
	for k := n - 1; k >= 0; k-- {
		seen := first[k]
		for i := k + 1; i < n; i++ {
			seen += float64(f.Shares[i] * p[i][k])
		}
		f.Shares[k] = seen / leave[k]
		f.Length += f.Shares[k]
	}
	for k := range f.Shares {
		f.Shares[k] /= f.Length
	}
	if f.Shares[n-1] > 1e-9 {
		return nil, fmt.Errorf("forecast of model %s: visitors go more than %d levels deep", m.Name, n)
	}
	return f, nil
}

// StopDepth returns the smallest level such that it and those before it have a share of the views (section 5.2.4). It fails if that is
// deeper than 1,024 levels.
func (m *Model) StopDepth(share float64) (int, error) {
	sum := m.closed
	if len(m.Levels) > 0 || m.Duplicates > 0 {
		f, err := m.Forecast()
		if err != nil {
			return 0, err
		}
		total := Cumulative(f.Shares)
		sum = func(k int) float64 { return total[k] }
	}
	for k := range forecastLevels {
		if sum(k) >= share-1e-12 {
			return k, nil
		}
	}
	return 0, fmt.Errorf("depth of model %s with q = %g: no depth up to %d has the share %g of the views", m.Name, m.Q, forecastLevels, share)
}

// Cumulative returns the sums of the shares up to each level.
func Cumulative(shares []float64) []float64 {
	sums, sum := make([]float64, len(shares)), 0.
	for k, x := range shares {
		sum += x
		sums[k] = sum
	}
	return sums
}

// Walk simulates visitors who see a number of pages. The last session may be unfinished.
func (m *Model) Walk(views int, rng *rand.Rand) *Visits {
	v := &Visits{}
	var session []int
	for level := 0; views > 0; views-- {
		session = append(session, level)
		a, u := m.At(level), rng.Float64()
		is := func(share float64) bool { u -= share; return u < 0 }
		switch {
		case is(a.Next):
			level++
		case is(a.Fwd):
			level += 2
		case is(a.Stay):
		case is(a.Back):
			level = max(0, level-1)
		case is(a.Prev):
			level = 1 + rng.IntN(max(1, level-2))
		case is(a.Start):
			level = 0
		default:
			v.Add(session)
			session, level = session[:0], 0
		}
	}
	if len(session) > 0 {
		v.Add(session)
	}
	return v
}
