package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/order"
)

// orders is "crawler simulate order".
type orders struct {
	names, tell words
	chosen      []listedOrder // by names
	shares      []float64     // by tell
	crawl       order.Run     // Every, Rest and Ahead of all runs
	web         graphOptions
	output
}

// graphOptions say which graphs are crawled.
type graphOptions struct {
	graphs       words
	history      string
	pages, sites int // of a generated graph
	seed         int
	links        Links
}

// A listed order is a crawl order with its figures in Table 4.1 of Castillo 2004; 0 if it is not there.
type listedOrder struct {
	name      string
	area, tau float64
}

func listedOrders() []listedOrder {
	return []listedOrder{
		{order.Sorted, 0, 0}, {order.Omniscient, .7427, .6504}, {"opic", .6709, .2229}, {"breadth-first", .6425, .1293},
		{"batch-pagerank", .6341, .1961}, {"partial-pagerank", .5221, .0236}, {"backlink-count", .4952, .0157},
		{"larger-sites-first", .6749, .2498}, {"manifest-first", 0, 0}, {"random", 0, 0},
		{order.HistoricalOmniscient, .7731, .6385}, {"historical-pagerank-parent", .7074, .3520},
		{"historical-pagerank-random", .6977, .3689}, {"historical-pagerank-zero", .6758, .3573},
	}
}

func simulateOrder(links Links) *command.Command {
	bind := command.Bind
	f := &orders{names: words{"all"}, tell: words{"0"}, web: graphOptions{graphs: words{"generated"}, pages: 20_000, sites: 1000, seed: 1, links: links}}
	var names []string
	for _, o := range listedOrders() {
		names = append(names, o.name)
	}
	return simulation(&command.Command{
		Name:    "order",
		Summary: "print how early crawl orders fetch the pages with a high Pagerank",
		Usage:   "[options]",
		Help: `
For each graph and strategy it crawls the pages that links reach from the start
page of each host, one at a time, and prints the area under the curve of the
Pagerank fetched (.5 for a random order), Kendall's tau of the order and the
Pagerank, and the figures of Castillo 2004, Table 4.1, beside them.

    crawler simulate order
    crawler simulate order --graph /srv/parley-data/graphs/debian-docs-web.adj.zst
    crawler simulate order --strategy opic,manifest-first --tell 0,10,50,100
    crawler simulate order --history older.adj.zst --graph newer.adj.zst
    crawler simulate order --graph crawl/          the links of a collection

Strategies: ` + wrapped(names, 12) + `.

sorted and omniscient know the final Pagerank: sorted is the upper bound, omniscient
can fetch only pages that it has found. The strategies named historical know the
Pagerank of an earlier crawl: of --history, or of a drawn part of the graph, with 55 %
of the pages and 72 % of the Pagerank.`,
		Groups: []command.Group{
			{Title: "Simulation", Options: []string{"graph", "strategy", "rank-every", "history", "tell", "rest", "ahead", "pages", "sites", "seed"}},
		},
		Flags: append(f.output.flags(),
			bind("graph", &f.web.graphs, "crawl the graphs `FILE,...`: X.adj.zst, X.graph, the directory of a collection, or the word generated"),
			bind("strategy", &f.names, "crawl by the strategies `NAME,...`, or all"),
			bind("rank-every", &f.crawl.Every, "batch-pagerank and partial-pagerank compute Pagerank after every `N` pages; 0: 35 times"),
			bind("history", &f.web.history, "`FILE` of an earlier graph of the same hosts, with names of pages, or the directory of a collection"),
			bind("tell", &f.tell, "`PERCENT,...` of the hosts publish a manifest that names all their pages"),
			bind("rest", &f.crawl.Rest, "fetch at least `N` pages of other sites between two of a site, as a robot does that waits"),
			bind("ahead", &f.crawl.Ahead, "choose `N` pages before the links of a page are known, as a crawler does that fetches in batches"),
			bind("pages", &f.web.pages, "pages of a generated graph: `N`"),
			bind("sites", &f.web.sites, "hosts of a generated graph: `N`"),
			bind("seed", &f.web.seed, "seed all random numbers with `N`")),
		Run: f.run,
	})
}

func (f *orders) check() error {
	for _, o := range listedOrders() {
		if slices.Contains(f.names, o.name) || slices.Contains(f.names, "all") {
			f.chosen = append(f.chosen, o)
		}
	}
	for _, name := range f.names {
		if name != "all" && !slices.ContainsFunc(f.chosen, func(o listedOrder) bool { return o.name == name }) {
			return command.Misusef("--strategy %s: unknown strategy: -h lists them", name)
		}
	}
	for _, s := range f.tell {
		x, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
		if err != nil || !(x >= 0 && x <= 100) {
			return command.Misusef("--tell %s: want 0 to 100, in percent of the hosts", s)
		}
		f.shares = append(f.shares, x/100)
	}
	switch {
	case f.web.pages < 10 || f.web.pages > 10_000_000 || f.web.sites < 1 || f.web.sites > f.web.pages:
		return command.Misusef("--pages %d --sites %d: want 10 to 10000000 pages, and at most as many hosts", f.web.pages, f.web.sites)
	case f.crawl.Every < 0:
		return command.Misusef("--rank-every %d: want 0 (35 times in a crawl) or more", f.crawl.Every)
	case f.crawl.Rest < 0 || f.crawl.Rest > 1000:
		return command.Misusef("--rest %d: want 0 to 1000", f.crawl.Rest)
	case f.crawl.Ahead < 0:
		return command.Misusef("--ahead %d: want 0 or more", f.crawl.Ahead)
	case f.web.seed < 0:
		return command.Misusef("--seed %d: want 0 or more", f.web.seed)
	case f.web.history != "" && !f.historical():
		return command.Misusef("--history %s: no --strategy named historical uses it", f.web.history)
	}
	return nil
}

// historical reports whether a chosen order needs an earlier crawl.
func (f *orders) historical() bool {
	return slices.ContainsFunc(f.chosen, func(o listedOrder) bool { return historical(o.name) })
}

// An orderRow is the score of a strategy on a graph.
type orderRow struct {
	Graph     string   `json:"graph"`
	Strategy  string   `json:"strategy"`
	Tell      float64  `json:"share_of_hosts_that_tell"`
	PaperArea float64  `json:"paper_area,omitempty"`
	PaperTau  float64  `json:"paper_tau,omitempty"`
	Below     []string `json:"below_here_above_in_paper,omitempty"`
	order.Score
	Named     float64 `json:"area_with_named_pages"`
	disagrees bool
}

// open reads a graph from a file, or the links of a collection.
func (f *graphOptions) open(ctx context.Context, env *command.Env, name string) (*graph.Graph, error) {
	if st, err := os.Stat(name); err != nil || !st.IsDir() {
		return openGraph(name)
	}
	g, err := graph.OfLinks(f.links(ctx, name, env.Log))
	if err == nil && g.Len() == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("read the links of %s: %w", name, err)
	}
	return g, nil
}

// webOf reads or draws a graph; about describes it in a sentence.
func (f *orders) webOf(ctx context.Context, env *command.Env, name string) (w *order.Web, shown, about string, err error) {
	shown = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".adj.zst"), ".graph")
	var g *graph.Graph
	if name == "generated" {
		g = graph.Generate(graph.Model{Pages: f.web.pages, Hosts: f.web.sites, Seed: uint64(f.web.seed)})
	} else if g, err = f.web.open(ctx, env, name); err != nil {
		return nil, "", "", err
	}
	w = order.NewWeb(g)
	sites, large, rank := w.Sites()
	reached := fmt.Sprint(w.Graph.Len())
	if w.Graph.Len() < g.Len() {
		reached += fmt.Sprintf(" of %d", g.Len())
	}
	about = fmt.Sprintf("%s: %s pages on %d sites with %d links; the largest site has %.0f %% of the pages and %.0f %% of the Pagerank; seed %d",
		shown, reached, sites, len(w.Graph.To), 100*large, 100*rank, f.web.seed)
	if f.crawl.Rest > 0 {
		about += fmt.Sprintf("; %d pages of other sites between two of a site", f.crawl.Rest)
	}
	if !f.historical() {
		return w, shown, about, nil
	}
	if f.web.history == "" {
		w.History = w.DrawHistory(order.PaperOldPages, order.PaperOldRank, uint64(f.web.seed))
	} else {
		earlier, err := f.web.open(ctx, env, f.web.history)
		if err != nil {
			return nil, "", "", err
		}
		if w.History, err = w.FindHistory(earlier); err != nil {
			return nil, "", "", fmt.Errorf("find pages of %s in %s: %w", f.web.history, name, err)
		}
	}
	old, oldRank := w.Old()
	return w, shown, fmt.Sprintf("%s; the earlier crawl had %.0f %% of the pages, with %.0f %% of the Pagerank", about, 100*old, 100*oldRank), nil
}

func (f *orders) run(ctx context.Context, env *command.Env) error {
	if err := f.check(); err != nil {
		return err
	}
	rows, abouts, err := f.simulate(ctx, env)
	if err != nil {
		return err
	}
	return f.show(env, rows, func() *chart.Page { return f.page(env, abouts, rows) }, func() error { return f.print(env, abouts, rows) })
}

// simulate crawls all graphs. The rows of a graph, with a share of hosts that tell, stand together; abouts describe the graphs.
func (f *orders) simulate(ctx context.Context, env *command.Env) (all []orderRow, abouts []string, err error) {
	n := len(f.chosen)
	progress := env.Progress("simulating", int64(len(f.web.graphs)*len(f.shares)*n))
	defer progress.Done()
	for _, name := range f.web.graphs {
		w, shown, about, err := f.webOf(ctx, env, name)
		if err != nil {
			return nil, nil, err
		}
		rows := make([]orderRow, len(f.shares)*n)
		if err := each(ctx, len(rows), func(ctx context.Context, i int) error {
			o := f.chosen[i%n]
			run := f.crawl
			run.Web, run.Order, run.Tell, run.Seed = w, o.name, f.shares[i/n], uint64(f.web.seed)
			pages, err := run.Pages(ctx)
			if err != nil {
				return err
			}
			rows[i] = orderRow{Graph: shown, Strategy: o.name, Tell: run.Tell, PaperArea: o.area, PaperTau: o.tau, Score: w.Score(pages)}
			rows[i].Named = rows[i].Area + run.Named(pages)
			progress.Add(1)
			return nil
		}); err != nil {
			return nil, nil, err
		}
		for part := range slices.Chunk(rows, n) {
			comparePaper(part)
		}
		all, abouts = append(all, rows...), append(abouts, about)
	}
	return all, abouts, nil
}

// comparePaper sorts rows by area, and finds the pairs of strategies whose areas are in another order than the paper's. Those with a
// history were run on other graphs than the rest there.
func comparePaper(rows []orderRow) {
	slices.SortStableFunc(rows, func(a, b orderRow) int { return cmp.Compare(b.Area, a.Area) })
	for i := range rows {
		low := &rows[i]
		for j := range rows[:i] {
			high := &rows[j]
			if low.Area < high.Area && low.PaperArea > high.PaperArea && high.PaperArea > 0 && historical(low.Strategy) == historical(high.Strategy) {
				low.Below = append(low.Below, high.Strategy)
				low.disagrees, high.disagrees = true, true
			}
		}
	}
}

func historical(name string) bool { return strings.HasPrefix(name, "historical-") }

func (f *orders) print(env *command.Env, abouts []string, rows []orderRow) error {
	orNone := func(x float64) string {
		if x == 0 {
			return "-"
		}
		return fmt.Sprintf("%.4f", x)
	}
	i := 0
	for rows := range slices.Chunk(rows, len(f.chosen)) { // of a graph, with a share of hosts that tell
		if i%len(f.shares) == 0 {
			fmt.Fprintf(env.Stdout, "%s\n", abouts[i/len(f.shares)])
		}
		i++
		tell := rows[0].Tell
		if tell > 0 {
			fmt.Fprintf(env.Stdout, "\n%s: %g %% of the hosts publish a manifest\n", rows[0].Graph, 100*tell)
		}
		fmt.Fprintln(env.Stdout)
		s := &sheet{names: 1}
		row := func(named string, cells ...string) {
			if tell > 0 {
				cells = append(cells, named)
			}
			s.row(cells...)
		}
		row("named", "strategy", "area", "paper", "", "tau", "paper", "first tenth", "stop: pages", "Pagerank")
		for _, r := range rows {
			mark := ""
			if r.disagrees {
				mark = "*"
			}
			row(fmt.Sprintf("%.4f", r.Named), r.Strategy, fmt.Sprintf("%.4f", r.Area), orNone(r.PaperArea), mark, fmt.Sprintf("%.3f", r.Tau), orNone(r.PaperTau),
				fmt.Sprintf("%.3f", r.Recall), fmt.Sprintf("%.0f%%", 100*r.StopPages), fmt.Sprintf("%.0f%%", 100*r.StopRank))
		}
		if err := s.write(env.Stdout); err != nil {
			return err
		}
		fmt.Fprintln(env.Stdout)
		for _, r := range rows {
			if len(r.Below) > 0 {
				fmt.Fprintf(env.Stdout, "* %s is below %s here, and above in the paper.\n", r.Strategy, strings.Join(r.Below, ", "))
			}
		}
	}
	named := ""
	if slices.Max(f.shares) > 0 {
		named = "named: the area if a page counts for half once a manifest has named it, as in an index that lists pages before it has them\n"
	}
	_, err := fmt.Fprint(env.Stdout, `
area: under the curve of Pagerank by pages fetched; paper: Castillo 2004, Table 4.1; *: in another order there;
first tenth: Pagerank of the first tenth of the pages, as a share of the most that a tenth can have;
stop: when a twentieth of the pages brings less than half a twentieth of the Pagerank, and what was fetched by then
`+named)
	return err
}

// page returns the page for --chart: for each graph and share of hosts that tell, the curves.
func (f *orders) page(env *command.Env, abouts []string, rows []orderRow) *chart.Page {
	p := &chart.Page{Title: "Crawl orders", About: strings.Join(abouts, ". ") + ".", Made: made("order", env.Flags)}
	for rows := range slices.Chunk(rows, len(f.chosen)) {
		title := rows[0].Graph
		if rows[0].Tell > 0 {
			title += fmt.Sprintf(", %g %% of the hosts tell", 100*rows[0].Tell)
		}
		c := chart.Chart{Title: title, X: "share of the pages fetched", Y: "share of the Pagerank fetched"}
		taus := chart.Chart{Title: title + ": order of the pages so far", X: "share of the pages fetched", Y: "Kendall's tau"}
		for _, r := range rows {
			line, tau := chart.Line{Name: r.Strategy, Bound: r.Strategy == order.Sorted}, chart.Line{Name: r.Strategy, Bound: r.Strategy == order.Sorted}
			for i := 0; i < len(r.Curve); i += 5 {
				addPoint(&line, float64(i)/100, r.Curve[i])
			}
			for i, t := range r.Taus {
				addPoint(&tau, float64(i+1)/10, t)
			}
			c.Lines, taus.Lines = append(c.Lines, line), append(taus.Lines, tau)
		}
		p.Charts = append(p.Charts, c, taus)
	}
	return p
}
