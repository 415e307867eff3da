// Fresh measures the benefit of the revisit engine, goal by goal, and reports whether each goal is met.
//
//	go run ./bench/fresh [-only 1,2,8] [-seeds 3] [-budgets .05,.1] [-data DIR] [-quick]
//
// The engine is the crawler's own (internal/engine/fresh over internal/engine/frontier); the web is simulated (internal/sim).
// Each score is printed with its reference: the bound of that setting, which no policy can exceed, or another
// policy. With several seeds, the figure is their mean, and decides whether the goal is met. All runs are the
// same on every machine; the times of item 8 are not.
//
//	1  known rates: polling, push and age beside their bounds
//	2  rates learned from scratch
//	3  manifests, and that they never do harm
//	4  comparison with the policy of the thesis; and how few requests suffice
//	5  sites that lie
//	6  recorded changes of pages (-data)
//	7  feeds (real ones: -data)
//	8  speed and size
//	9  a plan for the pages of a collection, on disk
//	10 sites that fall silent
//	11 sites that announce trifling changes
//	12 pages that change together, by the clock or by age (recorded ones: -data)
//
// The exit code is 1 if a goal is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

func main() { program.Main("fresh", run) }

// A bench is one run of the program.
type bench struct {
	seeds, pages int
	stored       int
	budgets      []float64 // nil: the defaults of the item
	data, store  string
	quick        bool
	out          io.Writer
	goals        goal.Sheet
}

var items = []struct {
	n    int
	name string
	run  func(*bench, context.Context) error
}{
	{1, "known rates", (*bench).known},
	{2, "rates learned from scratch", (*bench).learned},
	{3, "manifests", (*bench).manifests},
	{4, "comparison with the thesis policy", (*bench).thesis},
	{5, "sites that lie", (*bench).liars},
	{6, "recorded changes", (*bench).traces},
	{7, "feeds", (*bench).feeds},
	{8, "speed and size", (*bench).speed},
	{9, "plan from a collection", (*bench).replan},
	{10, "sites that fall silent", (*bench).silences},
	{11, "sites that announce trifling changes", (*bench).trifles},
	{12, "pages that change together", (*bench).structures},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	b := &bench{out: out, goals: goal.Sheet{Out: out}}
	flags := flag.NewFlagSet("fresh", flag.ContinueOnError)
	only := flags.String("only", "", "measure only the `ITEMS`, such as 1,2,8")
	flags.IntVar(&b.seeds, "seeds", 3, "run with `N` seeds, from 1 on")
	flags.IntVar(&b.pages, "pages", 2000, "number of pages of a simulated web")
	flags.StringVar(&b.data, "data", os.Getenv("PARLEY_DATA"), "`DIR` of recorded data, with the directories changes and feeds")
	flags.IntVar(&b.stored, "stored", 1_000_000, "number of pages of item 9")
	flags.StringVar(&b.store, "store", "", "`DIR` of the collection of item 9; it is made if it is empty; none: a temporary one")
	flags.Func("budgets", "run items 1, 2, 3, 5, 10 and 11 only with these `BUDGETS`, in requests per page and day, such as .05,.1", func(list string) error {
		for _, text := range strings.Split(list, ",") {
			budget, err := strconv.ParseFloat(text, 64)
			if err != nil || !(budget > 0 && budget <= 100) {
				return errors.New("want numbers above 0, at most 100")
			}
			b.budgets = append(b.budgets, budget)
		}
		return nil
	})
	flags.BoolVar(&b.quick, "quick", false, "short runs on small webs, to test that it works")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.seeds < 1 || b.pages < 100 {
		return errors.New("want at least one seed and 100 pages")
	}
	if b.quick {
		b.seeds, b.pages = 1, 300
	}
	var wanted []int
	for _, s := range strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > len(items) {
			return fmt.Errorf("-only %s: want numbers from 1 to %d", *only, len(items))
		}
		wanted = append(wanted, n)
	}
	for _, it := range items {
		if wanted != nil && !slices.Contains(wanted, it.n) {
			continue
		}
		fmt.Fprintf(b.out, "%d. %s\n", it.n, it.name)
		if err := it.run(b, ctx); err != nil {
			return err
		}
		fmt.Fprintln(b.out)
	}
	return b.goals.Err()
}

// note prints a figure without a goal.
func (b *bench) note(format string, args ...any) {
	fmt.Fprintf(b.out, "                             %s\n", fmt.Sprintf(format, args...))
}

// long returns a number of days, reduced with -quick.
func (b *bench) long(days float64) float64 {
	if b.quick {
		return days / 4
	}
	return days
}

// of returns the budgets to measure an item with: its own, unless -budgets gives others.
func (b *bench) of(budgets ...float64) []float64 {
	if b.budgets != nil {
		return b.budgets
	}
	return budgets
}

// web draws a web for a seed.
func (b *bench) web(rates string, rho float64, sites int, seed uint64) *sim.World {
	return sim.Web{Rates: rates, Rho: rho, Pages: b.pages, Sites: min(sites, b.pages/4), Seed: seed}.World()
}

// A score is the result of one policy; each field is the mean over the seeds.
type score struct {
	fresh, bound, age, ageBound float64
	early, late                 float64 // days 30 to 90, and the second half
	spend                       float64
}

// A task is one run per seed.
type task struct {
	world      func(seed uint64) *sim.World
	policy     string
	budget     float64
	days, from float64
	heeds      sim.Listening
	mean       bool // the world is silent, and the score is the expected value of the visits
	score      score
}

// all runs the tasks concurrently, each for every seed, and sets their scores.
func (b *bench) all(ctx context.Context, tasks []*task) error {
	results := make([]*sim.Result, len(tasks)*b.seeds)
	bounds := make([]sim.Bound, len(results))
	tables := make([]*sim.Timetable, len(results))
	err := each(ctx, len(results), func(ctx context.Context, i int) (err error) {
		t, seed := tasks[i/b.seeds], uint64(1+i%b.seeds)
		w := t.world(seed)
		p, err := sim.NamedPolicy(t.policy)
		if err != nil {
			return err
		}
		bounds[i] = sim.WebBound(w, p.Objective, sim.Costs{}, t.budget, t.heeds)
		run := sim.Run{World: w, Policy: p, Budget: t.budget, Days: b.long(t.days), From: b.long(t.from), Seed: seed}
		if t.mean {
			tables[i] = run.Keep()
		}
		results[i], err = sim.Simulate(ctx, run)
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range results {
		s := &tasks[i/b.seeds].score
		n := float64(b.seeds)
		between, whole := r.Between, len(r.Daily)
		if t := tables[i]; t != nil {
			between = func(from, to int) (float64, float64) { return t.Between(float64(from), float64(to)) }
			r.Fresh, r.Age = t.Between(r.From, r.Days)
		}
		s.fresh += r.Fresh / n
		s.age += r.Age / n
		s.spend += r.Spend / n
		s.bound += bounds[i].Fresh / n
		s.ageBound += bounds[i].Age / n
		early, _ := between(int(b.long(30)), int(b.long(90)))
		late, _ := between(whole/2, whole)
		s.early += early / n
		s.late += late / n
	}
	return nil
}

// each calls f for 0 to n-1, with as many concurrent calls as there are processors.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range turns {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		turns <- i
	}
	close(turns)
	wg.Wait()
	return context.Cause(ctx)
}

var (
	heedsManifest = sim.Listening{Manifest: true}
	heedsPush     = sim.Listening{Push: true}
	freshness     = fresh.Objective{Fresh: 1}
)
