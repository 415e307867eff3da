package simulate

import (
	"context"
	"fmt"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/batch"
)

// servers is "crawler simulate servers".
type servers struct {
	graph                      string
	pages, sites, robots, seed int
	output
}

func simulateServers() *command.Command {
	bind := command.Bind
	f := &servers{pages: 30_000, sites: 500, robots: 64, seed: 1}
	return simulation(&command.Command{
		Name:    "servers",
		Summary: "compare orders by how fast servers answer and by the quality of pages",
		Usage:   "[options]",
		Help: `
The comparison of Cao, Jiang and Singh: a crawl from the start pages along the
links, with a constant number of connections to the best servers, in the order of
discovery, by pages a second, by quality, and by quality a second. Quality is the
Pagerank, or drawn by Zipf's law. It prints when pages and quality are there, and
which statements of the paper hold.

    crawler simulate servers
    crawler simulate servers --graph web.graph --robots 32 --chart servers.html

Without --graph, a web is generated. Servers take 0.2 s to connect and 0.5 s to
answer on average, and limit the requests of a connection as the paper's do.`,
		Groups: []command.Group{
			{Title: "Simulation", Options: []string{"graph", "pages", "sites", "robots", "seed"}},
		},
		Flags: append(f.output.flags(),
			bind("graph", &f.graph, "crawl the web graph `FILE`, such as web.adj.zst or web.graph"),
			bind("pages", &f.pages, "generate `N` pages, without --graph"),
			bind("sites", &f.sites, "generate `N` sites, without --graph"),
			bind("robots", &f.robots, "keep `N` connections open"),
			bind("seed", &f.seed, "seed all random numbers with `N`")),
		Run: f.run,
	})
}

func (f *servers) check() error {
	switch {
	case f.pages < 10 || f.pages > 10_000_000:
		return command.Misusef("--pages %d: want 10 to 10000000", f.pages)
	case f.sites < 1 || f.sites > f.pages:
		return command.Misusef("--sites %d: want 1 to %d, all pages", f.sites, f.pages)
	case f.robots < 1:
		return command.Misusef("--robots %d: want 1 or more", f.robots)
	case f.seed < 0:
		return command.Misusef("--seed %d: want 0 or more", f.seed)
	}
	return nil
}

func (f *servers) run(ctx context.Context, env *command.Env) error {
	if err := f.check(); err != nil {
		return err
	}
	g, err := f.web()
	if err != nil {
		return err
	}
	rows := batch.Cao(g, f.robots, uint64(f.seed))
	first, err := rows[0].Run.Simulate(ctx) // all crawls are measured by this one
	if err != nil {
		return err
	}
	err = simulated(ctx, env, len(rows), func(ctx context.Context, i int) error {
		if rows[i].Like != i {
			return nil
		}
		x := first
		if i > 0 {
			var err error
			if x, err = rows[i].Run.Simulate(ctx); err != nil {
				return err
			}
		}
		for j := range rows {
			if rows[j].Like == i {
				rows[j].Measure(x, first)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	about := fmt.Sprintf("%d pages on %d servers; %d connections; seed %d", g.Len(), len(g.Hosts), f.robots, f.seed)
	return f.show(env, rows, func() *chart.Page { return f.page(env, about, rows) }, func() error { return f.print(env, about, rows) })
}

// web returns the part of the graph that links reach from the start pages.
func (f *servers) web() (*graph.Graph, error) {
	g, err := &graph.Graph{}, error(nil)
	if f.graph == "" {
		// With the exponent of the Web, 1.77, one server of 500 would have most pages, and take most of the time in any order.
		g = graph.Generate(graph.Model{Pages: f.pages, Hosts: f.sites, Sites: 3.5, Seed: uint64(f.seed)})
	} else if g, err = openGraph(f.graph); err != nil {
		return nil, err
	}
	return sized(g.Reachable(g.Starts())), nil
}

func (f *servers) print(env *command.Env, about string, rows []batch.Case) error {
	s := &sheet{names: 2}
	s.row("part", "crawl", "seconds", "half", "pages at 1/3", "at 1/2", "quality of half", "at 1/3", "at 1/2", "connections")
	share := func(x float64) string { return fmt.Sprintf("%.3f", x) }
	for _, r := range rows {
		s.row(r.Part, r.Name, fmt.Sprintf("%.0f", r.Seconds), fmt.Sprintf("%.0f", r.Half), share(r.PagesThird), share(r.PagesMiddle), share(r.HalfQuality),
			share(r.ThirdQuality), share(r.Middle), fmt.Sprint(r.Connections))
	}
	note := fmt.Sprintf(`Seconds until all pages and half of them are there. Shares of the pages, of the quality of the first half of the pages, and of all quality. 1/3 and
1/2 are parts of the time in which breadth-first fetches 90 %% of the pages: the others wait for a few slow servers, whatever the order.

%s
`, batch.Ranks())
	if err := s.print(env.Stdout, about, note); err != nil {
		return err
	}
	s = &sheet{names: 4}
	why := ""
	for _, x := range batch.Statements(rows) {
		met := "not met"
		if x.Met {
			met = "met"
		}
		s.row(met, x.Section, x.Says, x.Found)
		if !x.Met && x.Why != "" && f.graph == "" {
			why += fmt.Sprintf("%s: not met, since %s.\n", x.Says, x.Why)
		}
	}
	if err := s.write(env.Stdout); err != nil {
		return err
	}
	if why != "" {
		why = "\n" + why
	}
	_, err := fmt.Fprint(env.Stdout, why)
	return err
}

// page returns the page for --chart: the paper's three curves for both qualities.
func (f *servers) page(env *command.Env, about string, rows []batch.Case) *chart.Page {
	p := &chart.Page{Title: "Orders by speed and quality", About: about + ".", Made: made("servers", env.Flags)}
	for _, part := range []string{batch.ByPagerank, batch.ByZipf} {
		charts := []chart.Chart{
			{Title: part + ": pages over time", X: "seconds", Y: "share of the pages"},
			{Title: part + ": quality over pages", X: "share of the pages", Y: "share of the quality"},
			{Title: part + ": quality over time", X: "seconds", Y: "share of the quality"},
		}
		for _, r := range rows {
			if r.Part != part {
				continue
			}
			lines := [3]chart.Line{{Name: r.Name}, {Name: r.Name}, {Name: r.Name}}
			for _, x := range r.Curves {
				addPoint(&lines[0], x.Seconds, x.Pages)
				addPoint(&lines[1], x.Share, x.ShareQuality)
				addPoint(&lines[2], x.Seconds, x.Quality)
			}
			for i := range charts {
				charts[i].Lines = append(charts[i].Lines, lines[i])
			}
		}
		p.Charts = append(p.Charts, charts...)
	}
	return p
}
