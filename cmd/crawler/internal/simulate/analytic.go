package simulate

import (
	"context"
	"fmt"
	"math"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// analyticTables are the tables that follow from the true rates alone, without a run.
func analyticTables() []paperTable {
	return []paperTable{
		{name: "webs", build: (*paper).webs,
			heading: "freshness/age in days of visits at fixed intervals with known rates, by requests per page and day; six webs. Last four rows of each: bounds, of freshness and of age."},
		{name: "manifests", build: (*paper).manifests,
			heading: "freshness with manifests, by requests per page and day. Bounds: polling, the priced interval, push. A dash: polling the manifests alone exceeds the budget."},
		{name: "bytes", build: (*paper).bytes,
			heading: "share of time stale if the budget is in bytes, by units of 20 kB per page and day; lognormal/zipf/0.5, 100 sites. All figures are bounds, one row for each source of changes."},
		{name: "mixed", build: (*paper).mixed,
			heading: "stale share at B=.1 if some sites announce changes, and the share of the requests that then suffices for the freshness of polling alone; gamma/zipf/0, 10,000 pages of 2000 sites, the r-th largest of a size in proportion to r^-1.3. All figures are bounds."},
		{name: "schemes", build: (*paper).schemes,
			heading: "table 6.2 of the thesis for 5000 sites of 67 pages on average, the r-th largest of a size in proportion to r^-1.3; lognormal/zipf/0.5. Requests and bytes per page and day, polled or sent once a day or pushed at once, and freshness; the signs, relative to no cooperation, with those of the thesis where they differ; and the same if only the largest sites cooperate. Computed from the rates. No bounds."},
	}
}

// web draws one of the webs of the tables.
func (p *paper) web(name string, pages, sites int) *sim.World {
	w, err := sim.ParseWeb(name)
	if err != nil {
		panic(err) // our own name
	}
	w.Pages, w.Sites, w.Seed = p.scaled(pages), sites, uint64(p.seed)
	if p.quick {
		w.Sites = max(4, sites/10)
	}
	return w.World()
}

// tableBudgets are the budgets of most tables, in requests a page and day.
var tableBudgets = sim.PaperBudgets()

// budgetSheet returns a table by budget, with columns of words before.
func budgetSheet(words ...string) *sheet {
	s := &sheet{names: len(words)}
	for _, b := range tableBudgets {
		words = append(words, fmt.Sprintf("B=%g", b))
	}
	s.row(words...)
	return s
}

// stacked builds the parts of a table in parallel, and stacks them.
func stacked(ctx context.Context, s *sheet, n int, part func(ctx context.Context, i int) ([][]string, error)) (*sheet, error) {
	parts := make([][][]string, n)
	err := each(ctx, n, func(ctx context.Context, i int) (err error) {
		parts[i], err = part(ctx, i)
		return err
	})
	for _, rows := range parts {
		s.rows = append(s.rows, rows...)
	}
	return s, err
}

func (p *paper) webs(ctx context.Context) (*sheet, error) {
	webs := sim.Webs()
	return stacked(ctx, budgetSheet("web", "policy"), len(webs), func(_ context.Context, i int) (rows [][]string, _ error) {
		for _, r := range sim.Paper(p.web(webs[i].String(), 10_000, 100)) {
			row := []string{webs[i].String(), r.Policy}
			for _, c := range r.Cells {
				row = append(row, share(c.Fresh)+"/"+days(c.Age))
			}
			rows = append(rows, row)
		}
		return rows, nil
	})
}

func (p *paper) manifests(ctx context.Context) (*sheet, error) {
	webs := []struct {
		name  string
		sites int
	}{{"gamma/zipf/0", 100}, {"lognormal/zipf/0.5", 100}, {"lognormal/zipf/0.5", 1000}}
	return stacked(ctx, budgetSheet("web", "policy"), len(webs), func(_ context.Context, i int) (rows [][]string, _ error) {
		for _, r := range sim.PaperManifests(p.web(webs[i].name, 10_000, webs[i].sites)) {
			row := []string{fmt.Sprintf("%s, %d sites", webs[i].name, webs[i].sites), r.Policy}
			for _, c := range r.Cells {
				row = append(row, share(c.Fresh))
			}
			rows = append(rows, row)
		}
		return rows, nil
	})
}

func (p *paper) bytes(ctx context.Context) (*sheet, error) {
	w := p.web("lognormal/zipf/0.5", 10_000, 100)
	paid := sim.Costs(fresh.Bytes())
	blind := paid
	blind.Header, blind.Body = paid.Header+paid.Body, 0
	told := func(f sim.Format) func(b float64) sim.Bound {
		v := w.All(sim.Site{Manifest: true, Format: f})
		return func(b float64) sim.Bound { return sim.ManifestBound(v, paid, b) }
	}
	freshness := fresh.Objective{Fresh: 1}
	ways := []struct {
		name  string
		bound func(budget float64) sim.Bound
	}{
		{"blind GET", func(b float64) sim.Bound { return sim.PollBound(w, freshness, blind, b) }},
		{"conditional GET", func(b float64) sim.Bound { return sim.PollBound(w, freshness, paid, b) }},
		{"manifest, plain", told(sim.Plain)}, {"manifest, gzip", told(sim.Gzip)}, {"manifest, delta", told(sim.Delta)},
		{"push", func(b float64) sim.Bound { return sim.PushBound(w, freshness, paid, b) }},
	}
	return stacked(ctx, budgetSheet("source"), len(ways), func(_ context.Context, i int) ([][]string, error) {
		row := []string{ways[i].name}
		for _, b := range tableBudgets {
			row = append(row, fmt.Sprintf("%.4f", max(0, 1-ways[i].bound(b).Fresh)))
		}
		return [][]string{row}, nil
	})
}

func (p *paper) mixed(context.Context) (*sheet, error) {
	w := sim.Web{Pages: p.scaled(10_000), Sites: p.scaled(2000), Skew: 1.3, Seed: uint64(p.seed)}.World()
	s := &sheet{names: 2}
	s.row("announced by", "of the sites", "stale", "requests", "pages", "importance")
	for _, m := range sim.MixedTable(w, []float64{.1}, uint64(p.seed)) {
		s.row(m.How, fmt.Sprintf("%g%%, %s", 100*m.Share, m.Which), fmt.Sprintf("%.3f", max(0, 1-m.Fresh[0])), fmt.Sprintf("%.2fx", m.Needs[0]), fmt.Sprintf("%.0f%%", 100*m.Pages), fmt.Sprintf("%.0f%%", 100*m.Under))
	}
	return s, nil
}

// share formats a share of 1, or "-" if there is none.
func share(x float64) string {
	if x != x {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

// days formats a time in days with its significant digits.
func days(d float64) string {
	switch {
	case math.IsInf(d, 0) || d != d:
		return "-"
	case d >= 10:
		return fmt.Sprintf("%.0f", d)
	case d >= 1:
		return fmt.Sprintf("%.1f", d)
	}
	return fmt.Sprintf("%.2f", d)
}
