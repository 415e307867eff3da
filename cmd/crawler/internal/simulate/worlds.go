package simulate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/sim"
)

func worldHelp() string {
	return `Worlds: gamma, lognormal and power, by how the rates of change are distributed, or
RATES/IMPORTANCE/RHO such as lognormal/zipf/0.5 or power/pagerank/0: importance by
Zipf's law or like Pagerank, in correlation RHO with the rates. liars: gamma, with
--tell mixed. Recorded histories, with --data: ` + wrapped(sim.TraceNames(), 50) + `,
a part such as astro-docs:src/content/docs/en/, or traces: two of them together.

--trace FILE: the history of your own pages, as CSV (plain, .gz or .zst) with at least
the columns time (Unix seconds, or 2024-05-31T12:00:00Z) and path (a path, or a URL),
in the order of time. The first row of a page is its birth, and each other row a new
content. Columns that may be added: size, in bytes; blob, since the same blob again is
no change; op, A or M, D for a deletion, R for a move from the page in old_path; and
commit, a number that rows have in common which happened together.

--tell: nothing; manifest; delta, a manifest of the changed pages only; push; mixed:
one site in five each is honest, loses notices, sends many false notices, announces
every page every day, or is silent; lies: all sites announce every page every day.`
}

// recorded returns the traces used in the tables.
func recorded() []string { return []string{"python-peps", "astro-docs:src/content/docs/en/"} }

// ways are the values of --tell, with descriptions.
var ways = []struct{ name, words string }{
	{"nothing", "not announced"}, {"manifest", "announced by manifests"}, {"delta", "announced by manifests of the changed pages"}, {"push", "announced by push"},
	{"mixed", "announced well, badly or not at all"}, {"lies", "announced falsely"},
}

func inWords(tell string) string {
	for _, w := range ways {
		if w.name == tell {
			return w.words
		}
	}
	return ""
}

// voiced returns a world whose sites announce changes as --tell says.
func voiced(w *sim.World, tell string, seed uint64) *sim.World {
	name := w.Name
	switch tell {
	case "manifest":
		w = w.All(sim.Site{Manifest: true})
	case "delta":
		w = w.All(sim.Site{Manifest: true, Format: sim.Delta})
	case "push":
		w = w.All(sim.Site{Push: true})
	case "mixed":
		w, _ = w.MixedTrust(seed)
	case "lies":
		w = w.AllLiars()
	}
	w.Name = name
	return w
}

// webs are the simulated webs.
type webs struct {
	trial
	names              words
	trace, tell        string
	days, sites, pages int
}

func (f *webs) flags() []command.Flag {
	bind := command.Bind
	*f = webs{names: words{"gamma"}, tell: "nothing", days: 90, sites: 100, pages: 2000}
	return append(f.trial.flags(),
		bind("world", &f.names, "simulate the worlds `NAME,...`"),
		bind("trace", &f.trace, "simulate the recorded history in `FILE`, instead of --world"),
		bind("tell", &f.tell, "sites publish their changes by `WAY`: nothing, manifest, delta, push, mixed or lies"),
		bind("days", &f.days, "simulate `N` days"),
		bind("sites", &f.sites, "draw `N` sites"),
		bind("pages", &f.pages, "draw `N` pages"))
}

func (f *webs) check() error {
	for _, n := range []struct {
		name        string
		value, most int
	}{{"days", f.days, 36_500}, {"sites", f.sites, 1_000_000}, {"pages", f.pages, 10_000_000}} {
		if n.value < 1 || n.value > n.most {
			return command.Misusef("--%s %d: want 1 to %d", n.name, n.value, n.most)
		}
	}
	if f.trace != "" {
		if !slices.Equal(f.names, words{"gamma"}) {
			return command.Misusef("--world %s and --trace %s: want one of the two", f.names.String(), f.trace)
		}
		f.names = words{f.trace}
	}
	if inWords(f.tell) == "" {
		return command.Misusef("--tell %s: want nothing, manifest, delta, push, mixed or lies", f.tell)
	}
	return f.trial.check()
}

// drawn returns the requested worlds, each once per seed.
func (f *webs) drawn() (worlds [][]*sim.World, err error) {
	for _, name := range f.names {
		var seeds []*sim.World
		for i := range f.seeds {
			w, err := f.draw(name, uint64(f.seed+i))
			if err != nil {
				return nil, err
			}
			seeds = append(seeds, w)
		}
		worlds = append(worlds, seeds)
	}
	return worlds, nil
}

// isTrace reports whether a world is one of the recorded histories of --data.
func isTrace(world string) bool {
	file, _, _ := strings.Cut(world, ":")
	return world == "traces" || slices.Contains(sim.TraceNames(), file)
}

// recorded reports whether any world is a recorded history.
func (f *webs) recorded() bool { return f.trace != "" || slices.ContainsFunc(f.names, isTrace) }

func (f *webs) draw(name string, seed uint64) (*sim.World, error) {
	tell, shown := f.toldIn(name), name
	switch {
	case name == "liars":
		name = "gamma"
	case f.trace != "" || isTrace(name):
		web := sim.TraceWeb{Dir: f.folder("changes"), Names: recorded(), File: f.trace, Days: float64(f.days), Seed: seed}
		if f.trace == "" && web.Dir == "" {
			return nil, command.Misusef("--world %s: needs --data DIR, with a folder \"changes\" in it", name)
		}
		if name != "traces" {
			web.Names = []string{name}
		}
		w, err := web.World()
		if err != nil {
			return nil, err
		}
		if w.Name = name; f.trace != "" {
			w.Name = filepath.Base(name)
		}
		return voiced(w, tell, seed), nil
	}
	web, err := sim.ParseWeb(name)
	if err != nil {
		return nil, command.Misusef("--world %s: unknown world: -h lists them", name)
	}
	web.Pages, web.Sites, web.Seed = f.pages, f.sites, seed
	w := voiced(web.World(), tell, seed)
	if shown == "liars" {
		w.Name = shown
	}
	return w, nil
}

// toldIn returns how the sites of a world announce changes.
func (f *webs) toldIn(world string) string {
	if world == "liars" {
		return "mixed"
	}
	return f.tell
}

// about describes the simulation in a sentence.
func (f *freshness) about(worlds [][]*sim.World) string {
	var sizes []string
	for _, seeds := range worlds {
		if size := fmt.Sprintf("%d pages on %d sites", len(seeds[0].Pages), len(seeds[0].Sites)); !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	w := &f.webs
	s := fmt.Sprintf("%s; changes %s; days %d to %d; seed %d", strings.Join(sizes, ", or "), inWords(w.tell), f.from, w.days, w.seed)
	if w.seeds > 1 {
		s += fmt.Sprintf(" to %d: mean ± standard deviation", w.seed+w.seeds-1)
	}
	return s
}

// page returns the page for --chart: for each world freshness and age by budget.
func (f *freshness) page(env *command.Env, about string, rows []freshnessRow) *chart.Page {
	p := &chart.Page{Title: "Freshness by budget", About: about + ".", Made: made("freshness", env.Flags)}
	unit := "requests per page and day"
	if f.costs == "bytes" {
		unit = "budget in units of 20 kB per page and day"
	}
	for len(rows) > 0 {
		n := 0
		for n < len(rows) && rows[n].World == rows[0].World {
			n++
		}
		share := chart.Chart{Title: rows[0].World + ": freshness", X: unit, Y: "share of time in which copies are current", LogX: true}
		age := chart.Chart{Title: rows[0].World + ": age", X: unit, Y: "days for which copies have been out of date", LogX: true, LogY: true}
		share.Lines = linesOf(rows[:n], func(r freshnessRow) (spread, spread) { return r.Fresh, r.Bound })
		age.Lines = linesOf(rows[:n], func(r freshnessRow) (spread, spread) {
			if r.AgeBound == nil {
				return r.Age, spread{Mean: -1}
			}
			return r.Age, *r.AgeBound
		})
		p.Charts = append(p.Charts, share, age)
		rows = rows[n:]
	}
	return p
}

// linesOf returns a line for each policy, and a line for the bound of all with the same sources. A bound
// below 0 means none.
func linesOf(rows []freshnessRow, get func(freshnessRow) (score, bound spread)) (lines []chart.Line) {
	at := map[string]int{}
	var bounds []chart.Line
	for i := 0; i < len(rows); {
		line := chart.Line{Name: rows[i].Policy}
		bound := chart.Line{Name: "polling", Bound: true}
		if by := rows[i].Told; by != "nothing" {
			bound.Name = by
		}
		for name := rows[i].Policy; i < len(rows) && rows[i].Policy == name; i++ {
			score, most := get(rows[i])
			line.Points = append(line.Points, chart.Point{X: rows[i].Budget, Y: score.Mean, Spread: score.Deviation})
			if most.Mean >= 0 {
				addPoint(&bound, rows[i].Budget, most.Mean)
			}
		}
		lines = append(lines, line)
		if _, ok := at[bound.Name]; !ok && len(bound.Points) > 0 {
			at[bound.Name] = len(bounds)
			bounds = append(bounds, bound)
		}
	}
	return append(lines, bounds...)
}
