// Package simulate is crawler simulate: the crawler's own policies and orders on simulated webs.
package simulate

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
)

// simulation completes a command that prints its results, or draws them.
func simulation(c *command.Command) *command.Command {
	c.LogLevel, c.File = slog.LevelWarn, command.File{Foreign: []string{"*"}}
	c.Groups = append(c.Groups, command.Group{Title: "Output", Options: []string{"json", "chart"}})
	return c
}

// Links yields the links of the collection in a directory, as pairs of URLs.
type Links func(ctx context.Context, dir string, log *slog.Logger) iter.Seq2[[2]string, error]

// Command returns crawler simulate with its simulations.
func Command(links Links) *command.Command {
	return &command.Command{
		Name:    "simulate",
		Summary: "compare revisit policies and crawl orders with the best possible",
		Usage:   "freshness|exponents|feeds|paper|order|batch|servers|browsing [options]",
		Help: `
It runs the crawler's own policies on simulated webs, and prints beside each score
the bound that no policy can exceed in that setting.

    crawler simulate freshness --world gamma --policy thesis,priced
    crawler simulate exponents
    crawler simulate feeds
    crawler simulate paper
    crawler simulate order --strategy opic,breadth-first
    crawler simulate batch
    crawler simulate servers
    crawler simulate browsing

The same options and seed give the same numbers on every machine.`,
		Sub: []*command.Command{simulateFreshness(), simulateExponents(), simulateFeeds(), simulatePaper(), simulateOrder(links), simulateBatch(), simulateServers(), simulateBrowsing()},
	}
}

// A trial says with which random numbers and recorded data a simulation is run.
type trial struct {
	seed, seeds int
	data        string
}

func (t *trial) flags() []command.Flag {
	t.seed, t.seeds = 1, 1
	return []command.Flag{
		command.Bind("seed", &t.seed, "seed all random numbers with `N`"),
		command.Bind("data", &t.data, "`DIR` of recorded histories, with the folders changes and feeds"),
		command.Bind("seeds", &t.seeds, "run with `N` consecutive seeds from --seed on, and print mean and standard deviation"),
	}
}

func (t *trial) check() error {
	switch {
	case t.seed < 0:
		return command.Misusef("--seed %d: want 0 or more", t.seed)
	case t.seeds < 1 || t.seeds > 1000:
		return command.Misusef("--seeds %d: want 1 to 1000", t.seeds)
	}
	return nil
}

// folder returns the folder of recorded data of a kind; "" if there is none.
func (t *trial) folder(kind string) string {
	if t.data == "" {
		return ""
	}
	dir := filepath.Join(t.data, kind)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// made returns the command that reproduces the output.
func made(name string, fs *flag.FlagSet) string {
	var b strings.Builder
	b.WriteString("crawler simulate " + name)
	fs.VisitAll(func(f *flag.Flag) {
		if v := f.Value.String(); v != f.DefValue && f.Name != "chart" && f.Name != "json" && f.Name != "config" && f.Name != "data" {
			fmt.Fprintf(&b, " --%s %s", f.Name, v)
		}
	})
	return b.String()
}

// An output says how the results of a simulation are shown, besides as text.
type output struct {
	asJSON bool
	chart  string
}

func (o *output) flags() []command.Flag {
	return []command.Flag{
		command.Bind("json", &o.asJSON, "print the results as JSON"),
		command.Bind("chart", &o.chart, "write a page with charts to `FILE`, such as freshness.html"),
	}
}

// show prints rows, as JSON or else by text, and writes the page of their charts, whole or not at all.
func (o *output) show(env *command.Env, rows any, page func() *chart.Page, text func() error) error {
	if o.chart != "" {
		var b strings.Builder
		if err := page().WriteHTML(&b); err != nil {
			return err
		}
		if err := atomicfile.Write(o.chart, b.String(), 0o644); err != nil {
			return err
		}
	}
	if o.asJSON {
		return env.PrintJSON(rows)
	}
	return text()
}

// each calls f for 0 to n-1, in parallel on all processors, and waits for all calls. It returns the error of
// the lowest number.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				if errs[i] = f(ctx, i); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(cmp.Or(errs...), ctx.Err())
}

// A spread is the result of several seeds.
type spread struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"` // 0 with a single seed
}

func spreadOf(xs []float64) (s spread) {
	for _, x := range xs {
		s.Mean += x / float64(len(xs))
	}
	if len(xs) > 1 {
		sum := 0.
		for _, x := range xs {
			sum += (x - s.Mean) * (x - s.Mean)
		}
		s.Deviation = math.Sqrt(sum / float64(len(xs)-1))
	}
	return s
}

// spreadBy returns the spread of a number that each of several results has.
func spreadBy[T any](results []T, get func(T) float64) spread {
	var xs []float64
	for _, r := range results {
		xs = append(xs, get(r))
	}
	return spreadOf(xs)
}

// text formats it with a number of digits.
func (s spread) text(digits int) string {
	t := strconv.FormatFloat(s.Mean, 'f', digits, 64)
	if s.Deviation > 0 {
		t += " ± " + strconv.FormatFloat(s.Deviation, 'f', digits, 64)
	}
	return t
}

// numbers is an option that is a list of numbers.
type numbers []float64

func (n *numbers) String() string {
	list := make([]string, len(*n))
	for i, x := range *n {
		list[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(list, ",")
}

// Set reads a list, which replaces what was there.
func (n *numbers) Set(v string) error {
	var list numbers
	for _, s := range strings.Split(v, ",") {
		x, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(s), "/page"), 64) // as in the budget of a crawler
		if err != nil || !(x > 0) || x > 1e9 || len(list) == 100 {
			return fmt.Errorf("want numbers above 0 and up to 1e9, such as .05,.1,.2")
		}
		list = append(list, x)
	}
	*n = list
	return nil
}

// words is an option that is a list of names.
type words []string

func (w *words) String() string { return strings.Join(*w, ",") }

// Set reads a list, which replaces what was there.
func (w *words) Set(v string) error {
	var list words
	for _, s := range strings.Split(v, ",") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	if len(list) == 0 || len(list) > 100 {
		return fmt.Errorf("want 1 to 100 words, with commas between")
	}
	*w = list
	return nil
}

// addPoint adds a point to a line of a chart.
func addPoint(l *chart.Line, x, y float64) {
	l.Points = append(l.Points, chart.Point{X: x, Y: y})
}

// A sheet is a table for people: names to the left, numbers to the right.
type sheet struct {
	names int // columns that are words
	rows  [][]string
	runs  []measure // that fill cells which are still empty
}

func (s *sheet) row(cells ...string) { s.rows = append(s.rows, cells) }

// print writes the table between a sentence and a note.
func (s *sheet) print(w io.Writer, about, note string) error {
	fmt.Fprintf(w, "%s\n\n", about)
	if err := s.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", note)
	return err
}

func (s *sheet) write(w io.Writer) error {
	var width []int
	for _, r := range s.rows {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, r := range s.rows {
		line := ""
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i > 0 {
				line += "  "
			}
			if i < s.names {
				line += c + pad
			} else {
				line += pad + c
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
