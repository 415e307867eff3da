// Package judge holds the oracles of internal/anysite: each reads a recording of a run and reports where a
// promise was broken. It knows what Parley promises and nothing of the implementation: it imports the
// standard library and the recording, and reads robots.txt, options and page states with its own code, so
// that a mistake is not made twice in the same way.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A Finding is a promise that was broken.
type Finding struct {
	Oracle  string // "safety", "liveness", "manners", "events", "accounts", "bounds" or "words"
	Program string // the program that broke it, if known
	URL     string
	At      time.Time
	Text    string // a sentence
}

func (f Finding) String() string {
	s := f.Oracle + ": "
	if f.Program != "" {
		s += f.Program + ": "
	}
	if f.URL != "" {
		s += f.URL + ": "
	}
	s += f.Text
	if !f.At.IsZero() {
		s += " (" + f.At.UTC().Format("15:04:05.000") + ")"
	}
	return s
}

// A Verdict is the result of all oracles for a run.
type Verdict struct {
	Findings []Finding
	Copies   []Judged // what was expected of each copy
}

// All returns the findings of every oracle. None of them stops the others.
func All(r *record.Recording) []Finding { return Judge(r).Findings }

// Judge runs every oracle.
func Judge(r *record.Recording) Verdict {
	w := newWorld(r)
	copies := liveness(r, w)
	var list []Finding
	for _, c := range copies {
		if c.Counts {
			list = append(list, c.Findings...)
		}
	}
	list = slices.Concat(safety(r, w), list, manners(r, w), events(r, w), accounts(r, w), bounds(r, w), words(r, w))
	slices.SortStableFunc(list, func(a, b Finding) int { return cmp.Compare(order(a.Oracle), order(b.Oracle)) })
	return Verdict{Findings: list, Copies: copies}
}

func order(oracle string) int {
	return slices.Index([]string{"safety", "liveness", "manners", "events", "accounts", "bounds", "words"}, oracle)
}

// Liveness reports which copies are not as their sites say, and which copies did not count, and why.
func Liveness(r *record.Recording) []Judged { return liveness(r, newWorld(r)) }

// A collector gathers the findings of an oracle, and only a few findings of a kind: a run with a fault often
// has it on every page.
type collector struct {
	oracle string
	list   []Finding
	kinds  map[string]int
}

const alike = 5

func (c *collector) add(program, url string, at time.Time, format string, args ...any) {
	if c.kinds == nil {
		c.kinds = map[string]int{}
	}
	if kind := program + "\n" + format; c.kinds[kind] < alike {
		c.kinds[kind]++
		c.list = append(c.list, Finding{c.oracle, program, url, at, fmt.Sprintf(format, args...)})
	}
}
