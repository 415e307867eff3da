package simulate

import (
	"context"
	"fmt"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// measuredTables are the tables that need simulation runs.
func measuredTables() []paperTable {
	return []paperTable{
		{name: "queue", build: (*paper).queue,
			heading: "freshness/age in days with perfect push and too small a budget, by the order in which announced pages are fetched; days 30 to 180. Last row of each: bounds, of freshness and of age."},
		{name: "noisy", build: (*paper).noisy,
			heading: "freshness if notices are lost or false, by the sites' recall and precision; gamma/zipf/0, 400 pages, days 60 to 150. Bounds: the best use of such notices, and of none, with known rates, recall and precision."},
		{name: "trust", build: (*paper).trust,
			heading: "freshness if a fifth of the sites each are honest, lossy, sloppy, liars and silent; 1000 pages, days 90 to 240. Bounds: the best use of their notices, and of none."},
		{name: "learned", build: (*paper).learned,
			heading: "freshness in days 30 to 90 / 180 to 360 of policies that learn the rates from scratch, beside policies that know them, and the regret: how many percentage points the second lacks of the bound; gamma/zipf/0, 2000 pages, 40 sites. Bounds: one for each source of changes."},
		{name: "outdated", build: (*paper).outdated,
			heading: "manifests polled when the probability that their site is outdated is 0.1, by what is outdated: how often that was so when they were polled, from day 60 to 150; 10 sites, 300 pages, rates learned, a budget that is enough for all polls. No bounds."},
		{name: "estimators", build: (*paper).estimators,
			heading: "relative bias / root mean square error / share of cases without a value, of estimates of a rate of change, by number of visits and mean changes between two visits. No bounds."},
	}
}

// A measure is a run whose result fills a cell of a table.
type measure struct {
	row, column int
	run         sim.Run
	text        func(*sim.Result) string
}

// measure adds a row that begins with names, and has a cell for a run of a policy with each budget.
func (s *sheet) measure(text func(*sim.Result) string, policy string, run sim.Run, budgets []float64, names ...string) {
	run.Policy = sim.MustPolicy(policy)
	for i, b := range budgets {
		run.Budget = b
		s.runs = append(s.runs, measure{len(s.rows), len(names) + i, run, text})
	}
	s.row(append(names, make([]string, len(budgets))...)...)
}

// bounds adds a row that begins with names, and has the bound of freshness with each budget.
func (s *sheet) bounds(bound func(b float64) sim.Bound, budgets []float64, names ...string) {
	for _, b := range budgets {
		names = append(names, share(bound(b).Fresh))
	}
	s.row(names...)
}

// measured runs everything in parallel, with each seed, and writes the mean of each into its cell: a single run may exceed its bound by chance.
func (p *paper) measured(ctx context.Context, s *sheet) (*sheet, error) {
	list := s.runs
	got := make([]*sim.Result, len(list)*p.seeds)
	err := each(ctx, len(got), func(ctx context.Context, i int) (err error) {
		run := list[i/p.seeds].run
		run.Seed = uint64(p.seed + i%p.seeds)
		got[i], err = sim.Simulate(ctx, run)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, m := range list {
		s.rows[m.row][m.column] = m.text(meanResult(got[i*p.seeds:][:p.seeds]))
	}
	return s, nil
}

// meanResult has the mean freshness, age and polls of some runs of the same days, in all and of each day.
func meanResult(runs []*sim.Result) *sim.Result {
	mean, n := sim.Result{Daily: make([]sim.Day, len(runs[0].Daily))}, float64(len(runs))
	for _, r := range runs {
		mean.Fresh += r.Fresh / n
		mean.Age += r.Age / n
		mean.Polls += r.Polls / n
		for i, d := range r.Daily {
			mean.Daily[i].Fresh += d.Fresh / n
			mean.Daily[i].Age += d.Age / n
		}
	}
	return &mean
}

// short returns a number of days, fewer for a quick look.
func (p *paper) short(days float64) float64 {
	if p.quick {
		return days / 3
	}
	return days
}

func freshText(r *sim.Result) string { return share(r.Fresh) }

func bothText(r *sim.Result) string { return share(r.Fresh) + "/" + days(r.Age) }

func (p *paper) queue(ctx context.Context) (*sheet, error) {
	budgets := []float64{.02, .05}
	s := &sheet{names: 2}
	s.row("web", "fetched first", "B=0.02", "B=0.05")
	for _, name := range []string{"gamma/zipf/0", "power/pagerank/0.5"} {
		w := p.web(name, 3000, 100).All(sim.Site{Push: true})
		for _, order := range []struct{ policy, words string }{
			{"fifo", "oldest notice"}, {"trust-importance", "most important"}, {"trust-gain", "highest importance / rate"}, {"age-known", "highest index of age"},
		} {
			s.measure(bothText, order.policy, sim.Run{World: w, Days: p.short(180), From: p.short(30)}, budgets, name, order.words)
		}
		bound := []string{name, "bound"}
		for _, b := range budgets {
			bound = append(bound, share(sim.PushBound(w, fresh.Objective{Fresh: 1}, sim.Costs{}, b).Fresh)+"/"+days(sim.PushBound(w, fresh.Objective{Age: 1}, sim.Costs{}, b).Age))
		}
		s.row(bound...)
	}
	return p.measured(ctx, s)
}

func (p *paper) noisy(ctx context.Context) (*sheet, error) {
	s := budgetSheet("recall, precision", "policy")
	w := p.web("gamma/zipf/0", 400, 10)
	freshness := fresh.Objective{Fresh: 1}
	s.bounds(func(b float64) sim.Bound { return sim.PollBound(w, freshness, sim.Costs{}, b) }, tableBudgets, "no notices", "bound")
	for _, q := range []struct{ recall, precision float64 }{{.99, 1}, {.9, 1}, {.5, 1}, {.99, .95}, {.99, .8}, {.99, .5}, {.9, .5}, {.9, .1}} {
		name := fmt.Sprintf("%g, %g", q.recall, q.precision)
		v := w.All(sim.Site{Push: true, Recall: q.recall, Precision: q.precision})
		s.bounds(func(b float64) sim.Bound {
			return sim.WebBound(v, freshness, sim.Costs{}, b, sim.Listening{Push: true})
		}, tableBudgets, name, "bound")
		for _, rule := range []struct{ policy, words string }{{"freshness", "learned"}, {"trust-gain", "all trusted, no polling"}} {
			s.measure(freshText, rule.policy, sim.Run{World: v, Days: p.short(150), From: p.short(60)}, tableBudgets, name, rule.words)
		}
	}
	return p.measured(ctx, s)
}

func (p *paper) trust(ctx context.Context) (*sheet, error) {
	s := budgetSheet("web", "policy")
	freshness := fresh.Objective{Fresh: 1}
	for _, web := range []struct {
		rates string
		rho   float64
	}{{"gamma", 0}, {"lognormal", .5}} {
		t := sim.TrustWeb(web.rates, web.rho)
		t.Pages, t.Seed = p.scaled(t.Pages/3), uint64(p.seed)
		w, _ := t.World().MixedTrust(uint64(p.seed))
		for _, l := range []struct {
			words string
			heeds sim.Listening
		}{{"bound with notices", sim.Listening{Push: true}}, {"bound of polling", sim.Listening{}}} {
			s.bounds(func(b float64) sim.Bound { return sim.WebBound(w, freshness, sim.Costs{}, b, l.heeds) }, tableBudgets, t.String(), l.words)
		}
		for _, rule := range []struct{ policy, words string }{
			{"trust-importance", "all trusted, by importance"}, {"freshness-deaf", "polling, learned"},
			{"freshness-known", "all known"}, {"freshness", "all learned"},
		} {
			s.measure(freshText, rule.policy, sim.Run{World: w, Days: p.short(240), From: p.short(90)}, tableBudgets, t.String(), rule.words)
		}
	}
	return p.measured(ctx, s)
}

func (p *paper) outdated(ctx context.Context) (*sheet, error) {
	s := &sheet{names: 2}
	readings := []string{"any", "mean", "fastest"}
	budgets := []float64{6, .5, 3} // enough for all polls
	s.row("web", "0.1 of", "polls of a site a day", "any page", "mean share", "fastest page")
	for _, name := range []string{"gamma/zipf/0", "lognormal/zipf/0.5"} {
		w := p.web(name, 300, 10).All(sim.Site{Manifest: true})
		for n, of := range readings {
			run := &sim.Run{World: w, Policy: sim.MustPolicy("outdated-" + of), Budget: budgets[n], Days: p.short(150), From: p.short(60), Seed: uint64(p.seed)}
			row, count := len(s.rows), run.CountOutdated()
			s.runs = append(s.runs, measure{row, 2, *run, func(r *sim.Result) string {
				for i, reading := range readings {
					s.rows[row][3+i] = share(count.Of(reading))
				}
				return fmt.Sprintf("%.2f", r.Polls*float64(len(w.Pages))/float64(len(w.Sites)))
			}})
			s.row(name, of, "", "", "", "")
		}
	}
	return p.measured(ctx, s)
}

func (p *paper) learned(ctx context.Context) (*sheet, error) {
	s := &sheet{names: 2}
	budgets := []float64{.05, .1, .2}
	s.row("announced by", "policy", "B=0.05", "B=0.1", "B=0.2")
	silent := p.web("gamma/zipf/0", 2000, 40)
	freshness := fresh.Objective{Fresh: 1}
	for _, way := range []struct {
		words string
		site  sim.Site
		heeds sim.Listening
		rules []string
	}{
		{"nothing", sim.Site{}, sim.Listening{}, []string{"uniform-learned", "proportional-learned", "thesis-learned", "thesis-rate", "freshness", "harmonic", "freshness-known"}},
		{"manifest", sim.Site{Manifest: true}, sim.Listening{Manifest: true}, []string{"freshness", "freshness-known"}},
		{"push", sim.Site{Push: true}, sim.Listening{Push: true}, []string{"freshness", "freshness-known"}},
	} {
		w := silent.All(way.site)
		bounds, row := make([]float64, len(budgets)), []string{way.words, "bound"}
		for i, b := range budgets {
			bounds[i] = sim.WebBound(w, freshness, sim.Costs{}, b, way.heeds).Fresh
			row = append(row, share(bounds[i]))
		}
		for _, rule := range way.rules {
			for i, b := range budgets {
				text := func(r *sim.Result) string {
					early, _ := r.Between(30, 90)
					late, _ := r.Between(min(180, len(r.Daily)/2), len(r.Daily))
					return fmt.Sprintf("%s/%s, %.1f", share(early), share(late), 100*(bounds[i]-late))
				}
				s.runs = append(s.runs, measure{len(s.rows), 2 + i, sim.Run{World: w, Policy: sim.MustPolicy(rule), Budget: b, Days: p.short(360)}, text})
			}
			s.row(way.words, rule, "", "", "")
		}
		s.row(row...)
	}
	return p.measured(ctx, s)
}
