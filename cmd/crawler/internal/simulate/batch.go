package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/batch"
)

// batchTimes is "crawler simulate batch".
type batchTimes struct {
	graph                        string
	pages, largest, robots, seed int
	wait                         time.Duration
	atOnce, links                numbers
	strategies                   words
	limits                       bool
	failures                     float64
	out                          output
}

// Castillo's batch, and his pages on average (2004, sections 4.4 and 4.5.1).
const (
	castilloPages   = 100_858
	castilloLargest = 2100   // pages of the largest site
	pageSize        = 23_750 // bytes
)

// batchOrders are the strategies that need nothing but the pages and their servers.
var batchOrders = []string{"larger-sites-first", "breadth-first", "random", "profit", "performance", "crawl-ability"}

func simulateBatch() *command.Command {
	bind := command.Bind
	f := &batchTimes{pages: castilloPages, robots: 1000, seed: 1, wait: 15 * time.Second, atOnce: numbers{1, 100},
		links: numbers{25_000, 250_000}, strategies: words{"larger-sites-first"}}
	return simulation(&command.Command{
		Name:    "batch",
		Summary: "print how long a batch of pages takes, by link and pages a connection",
		Usage:   "[options]",
		Help: `
Robots fetch a closed batch of pages: never two from one site at once, and with a
wait between connections to a site. They share a link. Beside the time are two
bounds: the bytes divided by the bandwidth, and the waits at the largest site.

    crawler simulate batch
    crawler simulate batch --at-once 1,2,5,10,20,50,100 --chart batch.html
    crawler simulate batch --graph debian-docs-web.adj.zst --robots 64 --link 1e6

Without --graph, the sizes of the sites follow a power law with exponent 1.77.

Strategies: ` + wrapped(batchOrders, 12) + `. profit and
crawl-ability take the Pagerank of --graph for the quality of a page.`,
		Groups: []command.Group{
			{Title: "Pages", Options: []string{"graph", "pages", "largest"}},
			{Title: "Crawler", Options: []string{"robots", "wait", "at-once", "link", "strategy"}},
			{Title: "Servers", Options: []string{"limits", "failures", "seed"}},
		},
		Flags: append(f.out.flags(),
			bind("graph", &f.graph, "fetch the pages of the web graph `FILE`, such as web.adj.zst or web.graph"),
			bind("pages", &f.pages, "draw `N` pages, without --graph"),
			bind("largest", &f.largest, "draw `N` pages for the largest site; 0: one in 48, as in Castillo's batch"),
			bind("robots", &f.robots, "open at most `N` connections at once"),
			bind("wait", &f.wait, "wait `TIME` after a connection before the next one to the same site"),
			bind("at-once", &f.atOnce, "fetch `N,...` pages over one connection"),
			bind("link", &f.links, "share `N,...` bytes a second"),
			bind("strategy", &f.strategies, "order sites and pages by `NAME,...`"),
			bind("limits", &f.limits, "24 % of the servers accept one request a connection, 66 % accept 100, and the others 2 to 99"),
			bind("failures", &f.failures, "this `SHARE` of the requests fails, such as .2"),
			bind("seed", &f.seed, "seed all random numbers with `N`")),
		Run: f.run,
	})
}

func (f *batchTimes) check() error {
	if f.largest == 0 {
		f.largest = max(1, f.pages*castilloLargest/castilloPages)
	}
	switch {
	case f.pages < 1 || f.pages > 10_000_000:
		return command.Misusef("--pages %d: want 1 to 10000000", f.pages)
	case f.largest < 1 || f.largest > f.pages:
		return command.Misusef("--largest %d: want 1 to %d, all pages", f.largest, f.pages)
	case f.robots < 1:
		return command.Misusef("--robots %d: want 1 or more", f.robots)
	case f.wait < 0 || f.seed < 0:
		return command.Misusef("--wait %v, --seed %d: want 0 or more", f.wait, f.seed)
	case !(f.failures >= 0 && f.failures < 1):
		return command.Misusef("--failures %g: want a share of at least 0 and less than 1", f.failures)
	}
	for _, c := range f.atOnce {
		if c != float64(int(c)) {
			return command.Misusef("--at-once %g: want whole numbers", c)
		}
	}
	for _, name := range f.strategies {
		if !slices.Contains(batchOrders, name) {
			return command.Misusef("--strategy %s: want one of %s", name, strings.Join(batchOrders, ", "))
		}
	}
	return nil
}

// openGraph reads a graph that has a page.
func openGraph(file string) (*graph.Graph, error) {
	g, err := graph.Open(file)
	if err == nil && g.Len() == 0 {
		err = fmt.Errorf("open %s: the graph has no pages", file)
	}
	return g, err
}

// sized gives the pages of a graph sizes, if theirs are unknown.
func sized(g *graph.Graph) *graph.Graph {
	if g.Bytes == nil {
		g.Bytes = slices.Repeat([]uint32{pageSize}, g.Len())
	}
	return g
}

// A batchRow is a batch, fetched in one way.
type batchRow struct {
	Strategy    string  `json:"strategy"`
	Robots      int     `json:"robots"`
	AtOnce      int     `json:"pages_per_connection"`
	Link        float64 `json:"link_bytes_per_second"`
	Seconds     float64 `json:"seconds"`
	Least       float64 `json:"least_seconds"`      // bytes by bandwidth
	Waits       float64 `json:"least_wait_seconds"` // at the site where they are longest
	Ended       float64 `json:"ended_seconds"`      // when fewer than a tenth of the robots are busy for the rest of the time
	EndedPages  float64 `json:"pages_when_ended"`   // share of the pages that are there then
	Busy        float64 `json:"busy_robots"`        // on average
	Used        float64 `json:"used_share_of_link"`
	Connections int     `json:"connections"`
	Failed      int     `json:"failed"`
	Paper       float64 `json:"paper_hours,omitempty"`
	result      *batch.Result
}

func (f *batchTimes) run(ctx context.Context, env *command.Env) error {
	if err := f.check(); err != nil {
		return err
	}
	r := batch.Run{Robots: f.robots, Wait: f.wait.Seconds()}
	if f.graph == "" {
		r.Graph = batch.Of(batch.Sizes(f.pages, f.largest), pageSize)
	} else {
		g, err := openGraph(f.graph)
		if err != nil {
			return err
		}
		r.Graph = sized(g)
		r.Quality = g.Pagerank(graph.Pagerank{})
	}
	var runs []batch.Run
	for _, name := range f.strategies {
		for _, link := range f.links {
			for _, c := range f.atOnce {
				r := r
				r.AtOnce, r.Network = int(c), batch.Thesis(link, uint64(f.seed))
				r.Network.Limits, r.Network.Failures = f.limits, f.failures
				var err error
				if r.Strategy, err = frontier.Named(name, uint64(f.seed)); err != nil {
					return err
				}
				runs = append(runs, r)
			}
		}
	}
	results := make([]*batch.Result, len(runs))
	err := simulated(ctx, env, len(runs), func(ctx context.Context, i int) (err error) {
		results[i], err = runs[i].Simulate(ctx)
		return err
	})
	if err != nil {
		return err
	}
	// Castillo 2004, section 4.4, by link and pages a connection. His "2 Kb/s" and "20 Kb/s" cannot be the whole link: to transfer the pages
	// within his 29 and 3 hours takes 22,944 and 221,797 bytes a second. The next usual links have 200 kbit/s and 2 Mbit/s.
	paper := map[[2]float64]float64{{25_000, 1}: 33, {25_000, 100}: 29, {250_000, 1}: 9, {250_000, 100}: 3}
	isPaper := f.graph == "" && f.robots == 1000 && f.wait == 15*time.Second && f.pages == castilloPages && f.largest == castilloLargest && !f.limits && f.failures == 0
	var rows []batchRow
	for i, r := range runs {
		row := batchRowOf(&r, results[i])
		if isPaper && row.Strategy == "larger-sites-first" {
			row.Paper = paper[[2]float64{row.Link, float64(row.AtOnce)}]
		}
		rows = append(rows, row)
	}
	sizes := make([]int, len(r.Graph.Hosts))
	for _, h := range r.Graph.Host {
		sizes[h]++
	}
	about := fmt.Sprintf("%d pages on %d sites, %d on the largest; %d robots; wait %v; seed %d", r.Graph.Len(), len(sizes), slices.Max(sizes), f.robots, f.wait, f.seed)
	return f.out.show(env, rows, func() *chart.Page { return f.page(env, about, rows) }, func() error { return printBatches(env, about, rows) })
}

// simulated calls f for 0 to n-1, in parallel on all processors, and shows how far it is.
func simulated(ctx context.Context, env *command.Env, n int, f func(ctx context.Context, i int) error) error {
	progress := env.Progress("simulating", int64(n))
	defer progress.Done()
	return each(ctx, n, func(ctx context.Context, i int) error {
		defer progress.Add(1)
		return f(ctx, i)
	})
}

func batchRowOf(r *batch.Run, x *batch.Result) batchRow {
	row := batchRow{Strategy: r.Strategy.Name(), Robots: r.Robots, AtOnce: r.AtOnce, Link: r.Network.Link, Seconds: x.Seconds, Least: x.Least, Waits: x.Waits,
		Ended: x.Falls((r.Robots + 9) / 10), Connections: x.Connections, Failed: x.Failed, result: x}
	if x.Seconds > 0 {
		row.Busy, row.Used = x.Busy(0, x.Seconds), x.Least/x.Seconds
		row.EndedPages = float64(x.Fetched(row.Ended)) / float64(max(1, len(x.Pages)))
	}
	return row
}

func hours(seconds float64) string   { return fmt.Sprintf("%.2f", seconds/3600) }
func inPercent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

func printBatches(env *command.Env, about string, rows []batchRow) error {
	s := &sheet{names: 1}
	s.row("strategy", "link", "at once", "hours", "least", "waits", "ended", "pages", "busy", "link used", "connections", "failed", "thesis")
	for _, r := range rows {
		paper := "-"
		if r.Paper > 0 {
			paper = fmt.Sprint(r.Paper)
		}
		s.row(r.Strategy, fmt.Sprintf("%g", r.Link), fmt.Sprint(r.AtOnce), hours(r.Seconds), hours(r.Least), hours(r.Waits), hours(r.Ended), inPercent(r.EndedPages),
			fmt.Sprintf("%.0f", r.Busy), inPercent(r.Used), fmt.Sprint(r.Connections), fmt.Sprint(r.Failed), paper)
	}
	return s.print(env.Stdout, about, `link: bytes per second; at once: pages per connection. Hours until all pages are there; at least (bytes by bandwidth); of waits at one site at
least. ended: hours and pages if the batch ends when fewer than a tenth of the robots are busy, and the rest is left to the next one. busy: robots,
on average; thesis: hours in Castillo 2004, section 4.4`)
}

// page returns the page for --chart: busy robots over time, and hours by pages a connection.
func (f *batchTimes) page(env *command.Env, about string, rows []batchRow) *chart.Page {
	p := &chart.Page{Title: "Time to fetch a batch", About: about + ".", Made: made("batch", env.Flags)}
	busy := chart.Chart{Title: "Busy robots", X: "hours", Y: "busy robots, on average"}
	took := chart.Chart{Title: "Hours by pages a connection", X: "pages a connection", Y: "hours until all pages are there", LogX: true, LogY: true}
	const steps = 48
	longest := 0.
	for _, r := range rows {
		longest = max(longest, r.Seconds)
	}
	for i, r := range rows {
		name := fmt.Sprintf("%s, %g B/s", r.Strategy, r.Link)
		line := chart.Line{Name: fmt.Sprintf("%s, %d at once", name, r.AtOnce)}
		for j := range steps {
			from, to := longest*float64(j)/steps, longest*float64(j+1)/steps
			addPoint(&line, to/3600, r.result.Busy(from, to))
		}
		busy.Lines = append(busy.Lines, line)
		if i == 0 || rows[i-1].Strategy != r.Strategy || rows[i-1].Link != r.Link {
			took.Lines = append(took.Lines, chart.Line{Name: name}, chart.Line{Name: fmt.Sprintf("%g B/s", r.Link), Bound: true})
		}
		n := len(took.Lines)
		addPoint(&took.Lines[n-2], float64(r.AtOnce), r.Seconds/3600)
		addPoint(&took.Lines[n-1], float64(r.AtOnce), r.Least/3600)
	}
	p.Charts = []chart.Chart{busy}
	if len(f.atOnce) > 1 {
		p.Charts = append(p.Charts, took)
	}
	return p
}

func batchTables() []paperTable {
	return []paperTable{{name: "speedups", build: (*paper).speedups,
		heading: "Castillo's table 4.2, simulated / as printed: how much faster than one robot with 20 MB/s, by the bytes a second of the link; larger-sites-first. " +
			"A page takes 22.4 s and the time of the link, and the largest site has one page in 430, for which 256 robots are 220 times as fast, as printed. " +
			"64 robots are then never held up, and 64 times as fast. They would be 54.9 times as fast, nearly as printed, if the largest site had one page in 107; " +
			"but then 256 robots would be 62 times as fast. So the two figures are not of one web. Bound: of the link, for any number of robots."}}
}

// pageSeconds is how long a page takes but for the link, so that the first column of table 4.2 comes out.
const pageSeconds = 22.4

func (p *paper) speedups(ctx context.Context) (*sheet, error) {
	printed := [][4]float64{{200, .2, 1.6, 3}, {2000, .7, 3.8, 16}, {20_000, 1, 27, 83.3}, {200_000, 1, 43, 114.1}, {2e6, 1, 54.3, 204.3}, {20e6, 1, 54.6, 220.1}}
	pages := p.scaled(castilloPages)
	g := batch.Of(batch.Sizes(pages, pages/430), pageSize)
	var runs []batch.Run
	for _, row := range printed {
		for _, n := range []int{1, 64, 256} {
			runs = append(runs, batch.Run{Graph: g, Network: batch.Network{Link: row[0], Connect: pageSeconds, Even: true}, Strategy: frontier.LargerSites{}, Robots: n, Wait: 15})
		}
	}
	results := make([]*batch.Result, len(runs))
	err := each(ctx, len(runs), func(ctx context.Context, i int) (err error) {
		results[i], err = runs[i].Simulate(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	one := results[len(results)-3].Seconds
	s := &sheet{names: 1}
	s.row("link", "1 robot", "64 robots", "256 robots", "bound", "")
	for i, row := range printed {
		bound := one / results[3*i].Least
		cells, remark := []string{fmt.Sprintf("%g", row[0])}, ""
		for j, paper := range row[1:] {
			cells = append(cells, fmt.Sprintf("%.2f / %g", one/results[3*i+j].Seconds, paper))
			if paper > 1.1*bound {
				remark = "more than the link can transfer is printed"
			}
		}
		s.row(append(cells, fmt.Sprintf("%.2f", bound), remark)...)
	}
	return s, nil
}
