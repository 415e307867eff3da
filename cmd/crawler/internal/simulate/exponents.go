package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// exponents is "crawler simulate exponents": which exponents of the thesis's value of a page (V04) keep the value of the whole index
// highest (Castillo 9.2, O12).
type exponents struct {
	webs    webs
	policy  string
	budgets numbers
	from    int
	output
}

func simulateExponents() *command.Command {
	bind := command.Bind
	x := &exponents{policy: "thesis-daily", budgets: numbers{.1}, from: 30}
	return simulation(&command.Command{
		Name:    "exponents",
		Summary: "find the best exponents of the thesis's policy, and compare them with the crawler's own",
		Usage:   "[options]",
		Help: `
The thesis's policy values a page at quality^A x freshness^G. For each web and budget
this searches for the A and G with which the value of the index is highest: the sum
over all pages of quality x freshness, as a share of what it would be if every copy
were current, in the mean over time. It prints that value, the values with the
exponents of crawler run --policy thesis:NAME, that of the crawler's own policy,
which knows as much, has no exponents and adapts to each page and site, and the
bound that none can exceed.

    crawler simulate exponents
    crawler simulate exponents --world lognormal/zipf/0.5 --budget .05,.2 --seeds 3
    crawler simulate exponents --chart value.html                 the value day by day

The search sees other random numbers than the comparison: seeds --seed to
--seed + --seeds - 1, and the comparison as many that follow.

` + worldHelp(),
		Groups: []command.Group{
			{Title: "Simulation", Options: []string{"world", "trace", "policy", "budget", "tell", "days", "sites", "pages", "seed", "seeds", "data"}},
		},
		Flags: slices.Concat(x.webs.flags(), x.output.flags(), []command.Flag{
			bind("policy", &x.policy, "tune `NAME`: thesis-daily or thesis, which know the true rates, or thesis-learned"),
			bind("budget", &x.budgets, "spend `B,...` requests a page and day"),
			bind("from", &x.from, "measure from day `N` on; the days before are for learning"),
		}),
		Run: x.run,
	})
}

// An exponentsRow is the value of the index that a policy reaches.
type exponentsRow struct {
	World  string  `json:"world"`
	Budget float64 `json:"budget"`
	Policy string  `json:"policy"`
	Alpha  float64 `json:"alpha,omitempty"` // of quality; 0: the policy has none
	Gamma  float64 `json:"gamma,omitempty"` // of freshness
	Value  spread  `json:"value"`           // 1 if every copy is always current
	Bound  spread  `json:"bound"`
	Tried  int     `json:"tried,omitempty"` // exponents that the search has tried

	days []float64 // the value on each day
}

func (x *exponents) run(ctx context.Context, env *command.Env) error {
	if err := x.webs.check(); err != nil {
		return err
	}
	base, err := sim.NamedPolicy(x.policy)
	if err != nil || base.Rule != sim.Thesis {
		return command.Misusef("--policy %s: want thesis-daily, thesis or thesis-learned", x.policy)
	}
	if x.from < 0 || x.from >= x.webs.days {
		return command.Misusef("--from %d: want 0 to %d, a day before the last", x.from, x.webs.days-1)
	}
	scored := x.webs
	scored.seed += scored.seeds
	search, err := x.webs.drawn()
	if err != nil {
		return err
	}
	worlds, err := scored.drawn()
	if err != nil {
		return err
	}
	progress := env.Progress("simulating", int64(len(worlds)*len(x.budgets)))
	defer progress.Done()
	var rows []exponentsRow
	for i := range worlds {
		for _, budget := range x.budgets {
			best, tried, err := x.best(ctx, base, search[i], budget)
			if err != nil {
				return err
			}
			list, err := x.compared(ctx, base, best, worlds[i], budget)
			if err != nil {
				return err
			}
			list[0].Tried = tried
			rows = append(rows, list...)
			progress.Add(1)
		}
	}
	about := fmt.Sprintf("the value of the index with %s; changes %s; days %d to %d", x.policy, inWords(x.webs.tell), x.from, x.webs.days)
	return x.show(env, rows, func() *chart.Page { return x.page(env, about, rows) }, func() error { return printExponents(env, about, rows) })
}

// The exponents that are tried, as powers of 2, and how near to each other at last.
const (
	widest  = 3.     // 1/8 to 8
	nearest = 1. / 8 // a factor of 1.09
)

// best searches for the best exponents: from 1 and 1 in steps to all sides, which become smaller where none is better (a pattern
// search, after Hooke and Jeeves). Improvements of less than a millionth do not count.
func (x *exponents) best(ctx context.Context, p sim.Policy, worlds []*sim.World, budget float64) (sim.Policy, int, error) {
	type point [2]float64
	known := map[point]float64{}
	at, step := point{}, 1.
	for step >= nearest {
		var near []point
		for _, d := range []point{{}, {step, 0}, {-step, 0}, {0, step}, {0, -step}, {step, step}, {-step, -step}, {step, -step}, {-step, step}} {
			q := point{at[0] + d[0], at[1] + d[1]}
			if _, ok := known[q]; !ok && math.Abs(q[0]) <= widest && math.Abs(q[1]) <= widest {
				near = append(near, q)
			}
		}
		values := make([]float64, len(near)*len(worlds))
		err := each(ctx, len(values), func(ctx context.Context, i int) error {
			q := near[i/len(worlds)]
			p := p
			p.Alpha, p.Gamma = math.Exp2(q[0]), math.Exp2(q[1])
			r, err := x.simulate(ctx, p, worlds, i%len(worlds), x.webs.seed, budget)
			if err == nil {
				values[i] = r.Fresh
			}
			return err
		})
		if err != nil {
			return p, 0, err
		}
		for i, q := range near {
			known[q] = spreadOf(values[i*len(worlds) : (i+1)*len(worlds)]).Mean
		}
		from := at
		for _, q := range near { // in their order, so that equal ones are chosen alike everywhere
			if known[q] > known[at]+1e-6 {
				at = q
			}
		}
		if at == from {
			step /= 2
		}
	}
	p.Alpha, p.Gamma = math.Exp2(at[0]), math.Exp2(at[1])
	return p, len(known), nil
}

func (x *exponents) simulate(ctx context.Context, p sim.Policy, worlds []*sim.World, i, seed int, budget float64) (*sim.Result, error) {
	return sim.Simulate(ctx, sim.Run{World: worlds[i], Policy: p, Budget: budget, Days: float64(x.webs.days), From: float64(x.from), Seed: uint64(seed + i)})
}

// compared returns the rows of a world and budget: the best exponents, those of the crawler's presets, and its own policy.
func (x *exponents) compared(ctx context.Context, base, best sim.Policy, worlds []*sim.World, budget float64) ([]exponentsRow, error) {
	best.Name = "best"
	policies := []sim.Policy{best}
	for _, name := range []string{"general", "research", "archive", "news", "mirror"} {
		preset, err := fresh.Preset(name)
		if err != nil {
			return nil, err
		}
		p := base
		p.Name, p.Alpha, p.Gamma = "thesis:"+name, preset.Alpha, preset.Gamma
		policies = append(policies, p)
	}
	policies = append(policies, sim.Policy{Name: "priced", Rule: sim.Priced, Known: base.Known, IgnoresNotices: base.IgnoresNotices, Objective: fresh.Objective{Fresh: 1}})
	rows := make([]exponentsRow, len(policies))
	return rows, each(ctx, len(policies), func(ctx context.Context, i int) error {
		p := policies[i]
		row := exponentsRow{World: worlds[0].Name, Budget: budget, Policy: p.Name, days: make([]float64, x.webs.days)}
		if p.Rule == sim.Thesis {
			row.Alpha, row.Gamma = fresh.Thesis{Alpha: p.Alpha, Gamma: p.Gamma}.Exponents()
		}
		var values, most []float64
		for j := range worlds {
			r, err := x.simulate(ctx, p, worlds, j, x.webs.seed+x.webs.seeds, budget)
			if err != nil {
				return err
			}
			bound, _ := bounds(&sim.Run{World: worlds[j], Policy: p, Budget: budget})
			values, most = append(values, r.Fresh), append(most, bound)
			for day, d := range r.Daily {
				row.days[day] += d.Fresh / float64(len(worlds))
			}
		}
		row.Value, row.Bound = spreadOf(values), spreadOf(most)
		rows[i] = row
		return nil
	})
}

func printExponents(env *command.Env, about string, rows []exponentsRow) error {
	s := &sheet{names: 2}
	s.row("world", "policy", "budget", "A", "G", "value", "bound", "% of bound")
	for _, r := range rows {
		a, g := "-", "-"
		if r.Policy != "priced" {
			a, g = fmt.Sprintf("%.2f", r.Alpha), fmt.Sprintf("%.2f", r.Gamma)
		}
		s.row(r.World, r.Policy, fmt.Sprintf("%g", r.Budget), a, g, r.Value.text(4), r.Bound.text(4), spread{Mean: 100 * r.Value.Mean / r.Bound.Mean}.text(1))
	}
	return s.print(env.Stdout, about, fmt.Sprintf("A, G: exponents of quality and freshness; value: sum of quality x freshness, 1 if every copy is always current; best: found by %d trials", rows[0].Tried))
}

// page returns the page for --chart: for each world and budget the value of the index by day, in the mean over each week.
func (x *exponents) page(env *command.Env, about string, rows []exponentsRow) *chart.Page {
	p := &chart.Page{Title: "The value of the index", About: about + ".", Made: made("exponents", env.Flags)}
	for len(rows) > 0 {
		n := 0
		for n < len(rows) && rows[n].World == rows[0].World && rows[n].Budget == rows[0].Budget {
			n++
		}
		c := chart.Chart{Title: fmt.Sprintf("%s, %g requests per page and day", rows[0].World, rows[0].Budget), X: "day", Y: "value of the index"}
		for _, r := range rows[:n] {
			line := chart.Line{Name: r.Policy}
			for week := range slices.Chunk(r.days, 7) {
				addPoint(&line, float64(7*len(line.Points))+float64(len(week))/2, spreadOf(week).Mean)
			}
			c.Lines = append(c.Lines, line)
		}
		p.Charts = append(p.Charts, c)
		rows = rows[n:]
	}
	return p
}
