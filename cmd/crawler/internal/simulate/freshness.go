package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// freshness is "crawler simulate freshness".
type freshness struct {
	webs     webs
	policies words
	budgets  numbers
	costs    string
	from     int
	output
}

func simulateFreshness() *command.Command {
	bind := command.Bind
	f := &freshness{budgets: tableBudgets, costs: "requests"}
	return simulation(&command.Command{
		Name:    "freshness",
		Summary: "print the freshness that policies reach, by budget",
		Usage:   "[options]",
		Help: `
For each policy and budget it prints freshness, the share of time in which copies
are current, and age, the days for which they have been out of date, both
weighted by importance; the requests made; and the bound that no policy can
exceed.

    crawler simulate freshness --world lognormal/zipf/0.5 --budget .05,.1,.2
    crawler simulate freshness --tell manifest --seeds 5
    crawler simulate freshness --world liars --policy freshness,freshness-deaf
    crawler simulate freshness --world traces --data /srv/parley-data --days 900 --from 300
    crawler simulate freshness --trace mine.csv
    crawler simulate freshness --chart freshness.html

` + worldHelp() + `

Policies: ` + wrapped(policyNames(), 10) + `.

priced is the crawler's default, the same as harmonic. A policy with "-known" knows
the true rates, one with "-past" those that recorded pages had before the first
day that is measured, and one with "-deaf" ignores all notices of sites.`,
		Groups: []command.Group{
			{Title: "Simulation", Options: []string{"world", "trace", "policy", "budget", "tell", "days", "sites", "pages", "seed", "seeds", "data"}},
		},
		Flags: slices.Concat(f.webs.flags(), f.output.flags(), []command.Flag{
			bind("policy", &f.policies, "simulate the policies `NAME,...`; without it: thesis-daily, thesis-learned, freshness-known, freshness and harmonic, and for recorded histories freshness-past"),
			bind("budget", &f.budgets, "spend `B,...` requests a page and day"),
			bind("costs", &f.costs, "`UNIT` of the budget: requests, or bytes in units of 20 kB"),
			bind("from", &f.from, "measure from day `N` on; the days before are for learning. Without it: a third of the days; half of recorded histories"),
		}),
		Run: f.run,
	})
}

// policyNamed also knows the crawler's own policy, by the name in its options.
func policyNamed(name string) (sim.Policy, error) {
	if name == "priced" {
		return sim.Policy{Name: name, Rule: sim.Priced}, nil
	}
	return sim.NamedPolicy(name)
}

func policyNames() (names []string) {
	names = append(names, "priced")
	for _, p := range sim.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// wrapped lists names on lines of a help text, the first of which begins further right.
func wrapped(names []string, begin int) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
			if begin += 2 + len(n); begin > 76 {
				b.WriteString("\n")
				begin = len(n)
			}
		} else {
			begin += len(n)
		}
		b.WriteString(n)
	}
	return strings.ReplaceAll(b.String(), ", \n", ",\n")
}

// check rejects senseless options before anything is run.
func (f *freshness) check() ([]sim.Policy, sim.Costs, error) {
	var costs sim.Costs
	var policies []sim.Policy
	if err := f.webs.check(); err != nil {
		return nil, costs, err
	}
	if len(f.policies) == 0 {
		f.policies = words{"thesis-daily", "thesis-learned", "freshness-known", "freshness", "harmonic"}
		if f.webs.recorded() {
			f.policies = slices.Insert(f.policies, 3, "freshness-past")
		}
	}
	if f.from == 0 {
		if f.from = f.webs.days / 3; f.webs.recorded() {
			f.from = f.webs.days / 2
		}
	}
	for _, name := range f.policies {
		p, err := policyNamed(name)
		if err != nil {
			return nil, costs, command.Misusef("--policy %s: unknown policy: -h lists them", name)
		}
		policies = append(policies, p)
	}
	if f.from < 0 || f.from >= f.webs.days {
		return nil, costs, command.Misusef("--from %d: want 0 to %d, a day before the last", f.from, f.webs.days-1)
	}
	for _, b := range f.budgets {
		if b > 1000 {
			return nil, costs, command.Misusef("--budget %g: want at most 1000 requests a page and day", b)
		}
	}
	switch f.costs {
	case "requests":
	case "bytes":
		costs = sim.Costs(fresh.Bytes())
	default:
		return nil, costs, command.Misusef("--costs %s: want requests or bytes", f.costs)
	}
	return policies, costs, nil
}

// A freshnessRow is the score of a policy in a world, with a budget.
type freshnessRow struct {
	World    string   `json:"world"`
	Policy   string   `json:"policy"`
	Told     string   `json:"told_by"` // what the policy listens to: --tell
	Budget   float64  `json:"budget"`
	Seeds    []uint64 `json:"seeds"`
	Fresh    spread   `json:"fresh"`
	Bound    spread   `json:"fresh_bound"`
	OfBound  spread   `json:"share_of_bound"`
	Age      spread   `json:"age_days"`
	AgeBound *spread  `json:"age_bound_days,omitempty"` // nil: unknown
	Requests spread   `json:"requests_per_page_day"`
	Spend    spread   `json:"spend_per_page_day"`
	Bytes    spread   `json:"bytes_per_page_day"`
	Wasted   spread   `json:"wasted_share_of_visits"`
}

func (f *freshness) run(ctx context.Context, env *command.Env) error {
	policies, costs, err := f.check()
	if err != nil {
		return err
	}
	worlds, err := f.webs.drawn()
	if err != nil {
		return err
	}
	runs := make([]sim.Run, 0, len(worlds)*len(policies)*len(f.budgets))
	for _, seeds := range worlds {
		for _, p := range policies {
			for _, b := range f.budgets {
				for i, w := range seeds {
					runs = append(runs, sim.Run{World: w, Policy: p, Budget: b, Days: float64(f.webs.days), From: float64(f.from), Seed: uint64(f.webs.seed + i), Costs: costs})
				}
			}
		}
	}
	outcomes, err := f.outcomes(ctx, env, runs)
	if err != nil {
		return err
	}
	var rows []freshnessRow
	for n := f.webs.seeds; len(outcomes) > 0; outcomes = outcomes[n:] {
		rows = append(rows, freshnessRowOf(outcomes[:n]))
	}
	about := f.about(worlds)
	return f.show(env, rows, func() *chart.Page { return f.page(env, about, rows) }, func() error { return printFreshness(env, about, rows) })
}

// An outcome is the result of a run, and the bounds beside it.
type outcome struct {
	*sim.Result
	told            string
	bound, ageBound float64 // of freshness, and of age: NaN if unknown
}

// outcomes runs everything, in parallel on all processors.
func (f *freshness) outcomes(ctx context.Context, env *command.Env, runs []sim.Run) ([]outcome, error) {
	list := make([]outcome, len(runs))
	return list, simulated(ctx, env, len(runs), func(ctx context.Context, i int) error {
		r, err := sim.Simulate(ctx, runs[i])
		if err != nil {
			return err
		}
		list[i] = outcome{Result: r, told: "nothing"}
		if !runs[i].Policy.IgnoresNotices {
			list[i].told = f.webs.toldIn(r.World)
		}
		list[i].bound, list[i].ageBound = bounds(&runs[i])
		return nil
	})
}

// bounds returns what no policy with the run's sources can exceed, whatever its own objective is. No bound of
// age is known where sites have manifests, or send wrong notices.
func bounds(r *sim.Run) (share, age float64) {
	heeds := sim.Listening{Manifest: !r.Policy.IgnoresNotices, Push: !r.Policy.IgnoresNotices}
	share = sim.WebBound(r.World, fresh.Objective{Fresh: 1}, r.Costs, r.Budget, heeds).Fresh
	if !r.Policy.IgnoresNotices {
		for _, s := range r.World.Sites {
			if perfect := (sim.Site{Push: true, Dated: s.Dated}); !s.Silent() && s != perfect {
				return share, math.NaN()
			}
		}
	}
	return share, sim.WebBound(r.World, fresh.Objective{Age: 1}, r.Costs, r.Budget, heeds).Age
}

// freshnessRowOf combines the outcomes of several seeds.
func freshnessRowOf(outcomes []outcome) freshnessRow {
	of := func(get func(outcome) float64) spread { return spreadBy(outcomes, get) }
	row := freshnessRow{World: outcomes[0].World, Policy: outcomes[0].Policy, Told: outcomes[0].told, Budget: outcomes[0].Budget}
	for _, o := range outcomes {
		row.Seeds = append(row.Seeds, o.Seed)
	}
	row.Fresh = of(func(r outcome) float64 { return r.Fresh })
	row.Age = of(func(r outcome) float64 { return r.Age })
	row.Bound = of(func(r outcome) float64 { return r.bound })
	row.OfBound = of(func(r outcome) float64 { return r.Fresh / r.bound })
	if s := of(func(r outcome) float64 { return r.ageBound }); s.Mean == s.Mean {
		row.AgeBound = &s
	}
	row.Requests = of(func(r outcome) float64 { return r.Requests })
	row.Spend = of(func(r outcome) float64 { return r.Spend })
	row.Bytes = of(func(r outcome) float64 { return r.Bytes })
	row.Wasted = of(func(r outcome) float64 {
		if r.Visits > 0 {
			return r.Wasted / r.Visits
		}
		return 0
	})
	return row
}

func printFreshness(env *command.Env, about string, rows []freshnessRow) error {
	s, single := &sheet{names: 2}, false
	s.row("world", "policy", "budget", "freshness", "bound", "% of bound", "age", "bound", "requests", "MB/1000", "wasted")
	for _, r := range rows {
		least := "-"
		if r.AgeBound != nil {
			least = spread{Mean: r.AgeBound.Mean}.text(2)
		}
		s.row(r.World, r.Policy, fmt.Sprintf("%g", r.Budget), r.Fresh.text(4), r.Bound.text(4), r.ofBound(), r.Age.text(2), least,
			r.Requests.text(4), spread{Mean: r.Bytes.Mean / 1e3}.text(2), fmt.Sprintf("%.0f%%", 100*r.Wasted.Mean))
		single = len(r.Seeds) == 1
	}
	note := "% of bound: mean ± standard error over the seeds"
	if single {
		note = "the bound is of the mean: a single run may exceed it by chance; --seeds 5 prints a mean with its error"
	}
	return s.print(env.Stdout, about, note+"\nage: days; requests: per page and day; MB/1000: megabytes per day for 1000 pages; wasted: visits that found nothing new")
}

// ofBound returns the score in percent of its bound, with the standard error of that if there are several seeds.
func (r *freshnessRow) ofBound() string {
	of := spread{Mean: 100 * r.OfBound.Mean, Deviation: 100 * r.OfBound.Deviation / math.Sqrt(float64(len(r.Seeds)))}
	return of.text(1)
}
