package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/browse"
	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
)

// browsing is "crawler simulate browsing".
type browsing struct {
	qs                numbers
	share, duplicates float64
	views, seed       int
	logs              []string
	paths             string
	output
}

func simulateBrowsing() *command.Command {
	bind := command.Bind
	f := &browsing{qs: numbers{.1, .2, .3, .4, .5, .6, .7, .8, .9}, share: .9, views: 1_000_000, seed: 1}
	return simulation(&command.Command{
		Name:    "browsing",
		Summary: "how deep visitors go into a site, by models and by access logs",
		Usage:   "[options]",
		Help: `
Visitors go one level deeper with probability q; or else back one level (model A),
to the start (B), or to any level so far (C). It prints how many pages they see, and
the depth up to which a crawl has most of what they see, beside Castillo 2004,
table 5.1, and for the visitors of table 5.4.

    crawler simulate browsing
    crawler simulate browsing --log '/var/log/nginx/access.log*'
    crawler simulate browsing --paths wikispeedia/ --chart browsing.html

With --log, it makes sessions of the requests in access logs, and finds the q that
fits each model best: that of B is for "crawler crawl --depth-for 0.9 --q Q". The
fourth model has the actions of the visitors by level, such as back or leave.
Robots, scanners and Web applications are left out. Logs are in the order of time,
give or take half an hour; memory is bounded.`,
		Args: []string{"..."}, // what a shell made of --log's pattern
		Groups: []command.Group{
			{Title: "Visitors", Options: []string{"log", "paths"}},
			{Title: "Models", Options: []string{"share", "duplicates", "q", "views", "seed"}},
		},
		Flags: append(f.output.flags(),
			bind("log", &f.logs, "read the access logs that `PATTERN` names, and those that follow as arguments; - is standard input (repeatable)"),
			bind("paths", &f.paths, "read the click paths of Wikispeedia in `DIR`: links.tsv, paths_finished.tsv and paths_unfinished.tsv, maybe compressed"),
			bind("share", &f.share, "print the depth that has the share `X` of the views"),
			bind("duplicates", &f.duplicates, "in all models, the share `X` of the pages one level deeper have the content of an earlier page, and count as going back to its level"),
			bind("q", &f.qs, "without --log and --paths, print models with the probabilities `Q,...`"),
			bind("views", &f.views, "simulate `N` views of each of these models"),
			bind("seed", &f.seed, "seed all random numbers with `N`")),
		Run: f.run,
	})
}

func (f *browsing) check(args []string) error {
	switch {
	case slices.ContainsFunc(f.qs, func(q float64) bool { return q >= 1 }):
		return command.Misusef("--q %s: want probabilities below 1", &f.qs)
	case !(f.share > 0 && f.share < 1):
		return command.Misusef("--share %g: want a share between 0 and 1", f.share)
	case !(f.duplicates >= 0 && f.duplicates < 1):
		return command.Misusef("--duplicates %g: want a share of at least 0 and less than 1", f.duplicates)
	case f.views < 1000 || f.views > 100_000_000:
		return command.Misusef("--views %d: want 1000 to 100000000", f.views)
	case f.seed < 0:
		return command.Misusef("--seed %d: want 0 or more", f.seed)
	case len(f.logs) > 0 && f.paths != "":
		return command.Misusef("--paths %s: want either --log or --paths", f.paths)
	case len(f.logs) == 0 && len(args) > 0:
		return command.Misusef("unexpected argument %q: --log names logs", args[0])
	}
	return nil
}

// A browsingRow is a model, fitted to visits or with a given q.
type browsingRow struct {
	Model     string  `json:"model"`
	Q         float64 `json:"q,omitempty"`
	Error     float64 `json:"error_of_q,omitempty"` // as a share of it
	RMS       float64 `json:"rms,omitempty"`
	Worst     float64 `json:"worst,omitempty"`
	Simulated float64 `json:"simulated_length,omitempty"`
	Printed   float64 `json:"printed_length,omitempty"`
	Stop      *int    `json:"stop_depth"` // null, with a zero Forecast: visitors go ever deeper

	browse.Forecast
}

// browsed is all that is printed.
type browsed struct {
	About  string         `json:"about"`
	Visits *browse.Visits `json:"visits"`
	Fits   []browsingRow  `json:"fits"`
	Table  []browsingRow  `json:"table_5_1,omitempty"` // A, B and C for each q
}

func (f *browsing) run(ctx context.Context, env *command.Env) error {
	err := f.check(env.Args)
	if err != nil {
		return err
	}
	b := &browsed{}
	switch {
	case len(f.logs) > 0:
		b.About = "access logs"
		b.Visits, err = f.readLogs(ctx, env)
	case f.paths != "":
		b.About = "click paths of Wikispeedia"
		b.Visits, err = browse.Paths(ctx, f.paths)
	default:
		b.About, b.Visits, b.Table = "Castillo 2004, table 5.4", browse.Table54(), make([]browsingRow, 3*len(f.qs))
		err = each(ctx, len(b.Table), func(_ context.Context, i int) error {
			b.Table[i] = f.simulate(f.qs[i/3], i%3)
			return nil
		})
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"A", "B", "C"} {
		fit, err := browse.FitTo(name, b.Visits)
		if err != nil {
			return err
		}
		b.Fits = append(b.Fits, f.expect(fit.Model, browsingRow{Error: fit.Error, RMS: fit.RMS, Worst: fit.Worst}))
	}
	b.Fits = append(b.Fits, f.expect(b.Visits.ByLevel(), browsingRow{}))
	return f.show(env, b, func() *chart.Page { return f.page(env, b) }, func() error { return f.print(env, b) })
}

// readLogs makes sessions of the requests in logs.
func (f *browsing) readLogs(ctx context.Context, env *command.Env) (*browse.Visits, error) {
	files, err := accesslog.Open(append(f.logs, env.Args...), env.Stdin)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	bar := env.Progress("reading bytes", files.Size())
	files.Progress = bar.Add
	v, err := browse.ReadLog(ctx, files)
	bar.Done()
	if err != nil {
		return nil, err
	}
	for _, file := range files.Files() {
		if file.Err != nil {
			env.Log.Warn("a log could not be read to its end", "file", file.Name, "err", file.Err)
		}
		if file.Broken > 0 {
			env.Log.Warn("lines of a log could not be read", "file", file.Name, "lines", file.Broken)
		}
	}
	if v.Sessions == 0 {
		return nil, errors.New("read logs: no person requested a page: robots, programs, failed requests, images and the like do not count")
	}
	if v.LeftOut.Backwards > 0 {
		env.Log.Warn("sessions were ended where the time of the log goes back by more than half an hour: sort it by time", "times", v.LeftOut.Backwards)
	}
	return v, nil
}

// simulate returns a row of table 5.1.
func (f *browsing) simulate(q float64, model int) browsingRow {
	m := &browse.Model{Name: "ABC"[model : model+1], Q: q}
	r := f.expect(m, browsingRow{})
	if r.Length > 0 {
		r.Simulated = m.Walk(f.views, rand.New(rand.NewPCG(uint64(f.seed), math.Float64bits(q)+uint64(model)))).Length()
	}
	printed := [][3]float64{{1.13, 1.11, 1.23}, {1.33, 1.25, 1.56}, {1.75, 1.43, 2.04}, {3, 1.67, 2.78}, {0, 2, 4}, {0, 2.5, 6.25}, {0, 3.34, 11.11}, {0, 5, 25}, {0, 10, 100}}
	if i := int(math.Round(10*q)) - 1; f.duplicates == 0 && i >= 0 && i < len(printed) && math.Abs(10*q-float64(i+1)) < 1e-9 {
		r.Printed = printed[i][model]
	}
	return r
}

// expect adds to a row what the model expects.
func (f *browsing) expect(m *browse.Model, r browsingRow) browsingRow {
	r.Model, r.Q, m.Duplicates = m.Name, m.Q, f.duplicates
	if x, err := m.Forecast(); err == nil {
		r.Forecast = *x
		r.Shares = x.Shares[:31] // as many as the paper's figures have
		if k, err := m.StopDepth(f.share); err == nil {
			r.Stop = &k
		}
	}
	return r
}

// decimal formats a number, or "-" if there is none.
func decimal(x float64, digits int) string {
	if x == 0 {
		return "-"
	}
	return strconv.FormatFloat(x+1e-9, 'f', digits, 64) // 1.125 is 1.13, as printed
}

func (r *browsingRow) stop() string {
	if r.Stop == nil {
		return "-"
	}
	return strconv.Itoa(*r.Stop)
}

func (f *browsing) print(env *command.Env, b *browsed) error {
	if len(b.Table) == 0 {
		return f.printVisits(env, b)
	}
	fmt.Fprintf(env.Stdout, "Views of a session in models A, B and C: computed, simulated in %d views (seed %d), and printed in Castillo 2004, table 5.1.\nStop: the depth with %g of the views.\n\n", f.views, f.seed, f.share)
	s := &sheet{}
	s.row("q", "A", "simulated", "printed", "stop", "B", "simulated", "printed", "stop", "C", "simulated", "printed", "stop")
	for i, q := range f.qs {
		row := []string{fmt.Sprint(q)}
		for _, r := range b.Table[3*i : 3*i+3] {
			row = append(row, decimal(r.Length, 2), decimal(r.Simulated, 2), decimal(r.Printed, 2), r.stop())
		}
		s.row(row...)
	}
	if err := s.write(env.Stdout); err != nil {
		return err
	}
	fmt.Fprint(env.Stdout, errata)
	return f.printVisits(env, b)
}

// errata are what the chapter states otherwise, with the numbers that follow from its own formulas.
const errata = `
Printed 3.34 is 3.33 (B, q = 0.7). Of model C, 1-q/(l+1) must read (1-q)/(l+1). Of section 5.2.4:
"q <= 0.4: depth 3 or 4 has 90 %": 2 in B and 3 in C, but 5 in A. "q = 0.6: depth 6 or 7": 7 in C, 4 in B, no depth in A.
"B predicts shorter sessions than A": at equal q. With q of A = q/(1+q) of B, shares by level and lengths are equal.
"Sessions of 2 to 3 views: q of 0.4 to 0.6": 0.50 to 0.67 in B, 0.33 to 0.40 in A, 0.29 to 0.42 in C.

`

func (f *browsing) printVisits(env *command.Env, b *browsed) error {
	w, v := env.Stdout, b.Visits
	fmt.Fprintf(w, "%s: %d sessions, %d views; %.3f views a session", b.About, v.Sessions, v.Views, v.Length())
	if v.Depths > 0 || v.Single > 0 { // the paper's table says nothing of them
		fmt.Fprintf(w, ", depth %.3f; %.1f %% of one page", v.Depth(), 100*float64(v.Single)/float64(v.Sessions))
	}
	fmt.Fprint(w, "\n\n")
	share := func(x float64) string { return fmt.Sprintf("%.4f", x) }
	s, up := &sheet{names: 1}, browse.Cumulative(v.Shares())
	s.row("model", "q", "error", "rms", "worst", "length", "depth", "stop")
	for _, r := range b.Fits {
		if r.Model == "by level" {
			s.row(r.Model, "", "", "", "", decimal(r.Length, 3), decimal(r.Depth, 3), r.stop())
		} else {
			s.row(r.Model, share(r.Q), fmt.Sprintf("%.2f%%", 100*r.Error), share(r.RMS), share(r.Worst), decimal(r.Length, 3), decimal(r.Depth, 3), r.stop())
		}
	}
	s.row("observed", "", "", "", "", decimal(v.Length(), 3), decimal(v.Depth(), 3), strconv.Itoa(slices.IndexFunc(up, func(x float64) bool { return x >= f.share-1e-12 })))
	if err := s.write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nq: the best by least squares over the shares of the views up to each level; error: its standard error; rms and worst: differences of the\nshares; length and depth of a session that the model expects; stop: the depth with %g of the views.\n\n", f.share)
	s = &sheet{}
	s.row(append([]string{"level", "views", "up to"}, actionNames()...)...)
	for l, a := range v.Levels[:min(31, len(v.Levels))] {
		row := []string{strconv.Itoa(l), fmt.Sprintf("%.0f", a.Sum()), share(up[l])}
		for _, x := range a.Shares().List() {
			row = append(row, fmt.Sprintf("%.3f", x))
		}
		s.row(row...)
	}
	if err := s.write(w); err != nil || v.LeftOut == nil {
		return err
	}
	fmt.Fprintf(w, "\n%.1f %% of the sessions begin with the home page. By depth of the directory:\n\n", 100*float64(v.Home)/float64(v.Sessions))
	s = &sheet{}
	s.row("depth", "pages", "entry pages", "sessions")
	for depth, d := range v.Dirs {
		s.row(strconv.Itoa(depth), strconv.FormatInt(d.Pages, 10), strconv.FormatInt(d.Entries, 10), strconv.FormatInt(d.Sessions, 10))
	}
	if err := s.write(w); err != nil {
		return err
	}
	o := v.LeftOut
	_, err := fmt.Fprintf(w, "\nNo views: %d requests of robots and programs, %d of scanners, %d of Web applications, %d reloads, %d frames. Added: %d views of pages\nout of a cache, to which later pages refer. Sessions were ended early for %d clients.\n", o.Robots, o.Scanners, o.Applications, o.Reloads, o.Frames, o.Added, o.Early)
	return err
}

func actionNames() []string { return []string{"next", "start", "jump", "back", "stay", "prev", "fwd"} }

// page returns the page for --chart: figures 5.11, 5.15 and 5.16 of the thesis.
func (f *browsing) page(env *command.Env, b *browsed) *chart.Page {
	v := b.Visits
	views := chart.Chart{Title: "Views up to each level", X: "level", Y: "share of the views"}
	actions := chart.Chart{Title: "What visitors do next, at levels with 30 views or more", X: "level", Y: "share of the views at the level"}
	dirs := chart.Chart{Title: "Pages by the depth of their directory", X: "depth", Y: "share of the pages"}
	add := func(c *chart.Chart, name string, n int, y func(x int) float64) {
		l := chart.Line{Name: name}
		for x := range n {
			addPoint(&l, float64(x), y(x))
		}
		c.Lines = append(c.Lines, l)
	}
	n := min(31, len(v.Levels))
	cumulative := func(name string, shares []float64) {
		up := browse.Cumulative(shares)
		add(&views, name, n, func(l int) float64 { return min(1, up[l]) })
	}
	cumulative("visitors", v.Shares())
	for _, r := range b.Fits {
		name, ok := map[string]string{"B": fmt.Sprintf("A and B, q of B = %.4f", r.Q), "C": fmt.Sprintf("C, q = %.4f", r.Q), "by level": "by level"}[r.Model]
		if ok && r.Length > 0 {
			cumulative(name, r.Shares)
		}
	}
	if few := slices.IndexFunc(v.Levels[:n], func(a browse.Actions) bool { return a.Sum() < 30 }); few > 0 {
		n = few
	}
	for i, name := range actionNames() {
		add(&actions, name, n, func(l int) float64 { return v.Levels[l].Shares().List()[i] })
	}
	p := &chart.Page{Title: "How deep visitors go", About: fmt.Sprintf("%s: %d sessions, %d views.", b.About, v.Sessions, v.Views), Made: made("browsing", env.Flags), Charts: []chart.Chart{views, actions}}
	all := int64(0)
	for _, d := range v.Dirs {
		all += d.Pages
	}
	if all > 0 {
		add(&dirs, "seen", len(v.Dirs), func(depth int) float64 { return float64(v.Dirs[depth].Pages) / float64(all) })
		add(&dirs, "entry pages", len(v.Dirs), func(depth int) float64 { return float64(v.Dirs[depth].Entries) / float64(all) })
		p.Charts = append(p.Charts, dirs)
	}
	return p
}
