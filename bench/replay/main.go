// Replay compares the simulator's predictions with the crawler. It applies recorded changes to the pages of a site, each at its
// time, while the crawler keeps copies of them; and simulates the same pages with the same budget and the same knowledge. It does so
// for sites that tell of their changes in three ways: by push, by a manifest alone, and not at all.
//
//	PARLEY_DATA=... go run ./bench/replay [-traces endoflife-date,python-peps] [-seeds 20] [-pages 150] [-days 60] [-budget .05]
//
// The crawler is the whole engine of "crawler run", with its collection on disk. The site is in the same process (internal/fakeweb), and
// the time is that of the recorded changes: it passes as fast as the processor allows, and stands still while anything is computed
// (testing/synctest). So the crawler's price, budget and intervals are what they are in years of a real crawl.
//
// Each seed draws other pages, and the traces are taken in turn. In each mode the mean difference of freshness is to be within -within points, at a
// confidence of 90 %, and the requests of the whole time within -spend of those predicted; else the exit code is 1. All pages have the same importance.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/sim"
	"github.com/parleyweb/parley/protocol"
)

// main runs a test, as a bubble of synctest needs one: so the exit code is 1 if it fails.
func main() {
	args := os.Args[1:]
	os.Args = os.Args[:1] // the others are not for package testing
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "replay", F: func(t *testing.T) {
		ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
		defer stop()
		if err := run(ctx, t, args, os.Stdout); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

type options struct {
	traces []string
	seeds  int
	pages  int
	days   float64
	budget float64 // requests per page and day
	within float64 // percentage points
	spend  float64 // share of the budget
	policy sim.Policy
	modes  []string
	show   bool
}

const aDay = 24 * time.Hour

// The ways in which a site tells of its changes.
var modes = map[string]sim.Site{
	"push":     {Push: true, Numbered: true},
	"manifest": {Manifest: true},
	"neither":  {},
}

func run(ctx context.Context, t *testing.T, args []string, out io.Writer) (err error) {
	o := options{policy: sim.MustPolicy("freshness")}
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	traces := flags.String("traces", strings.Join(sim.TraceNames(), ","), "recorded `TRACES` whose changes are replayed")
	which := flags.String("modes", "push,manifest,neither", "`WAYS` in which the site tells of its changes")
	flags.IntVar(&o.seeds, "seeds", 20, "run with `N` seeds, from 1 on; each draws other pages, of the next of the traces")
	flags.IntVar(&o.pages, "pages", 150, "number of pages, drawn at random")
	flags.Float64Var(&o.days, "days", 60, "number of days, the last ones of the trace; the second half is scored")
	flags.Float64Var(&o.budget, "budget", .05, "request budget per page and day")
	flags.Float64Var(&o.within, "within", 1, "allowed error of the prediction, in percentage points of freshness")
	flags.Float64Var(&o.spend, "spend", .05, "allowed error of the requests, as a share of the budget")
	flags.BoolVar(&o.show, "show", false, "print each run, and what the crawler says of it")
	flags.Func("policy", "`NAME` of a simulated policy of the crawler, such as freshness-eager", func(name string) (err error) {
		o.policy, err = sim.NamedPolicy(name)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.traces, o.modes = strings.Split(*traces, ","), strings.Split(*which, ",")
	o.policy.LongestPoll = 1 // as the crawler's
	var runs []*replay
	for _, mode := range o.modes {
		site, ok := modes[mode]
		if !ok {
			return fmt.Errorf("-modes %s: want push, manifest and neither", mode)
		}
		for seed := range o.seeds {
			runs = append(runs, &replay{options: &o, mode: mode, speaks: site, trace: o.traces[seed%len(o.traces)], seed: uint64(seed + 1)})
		}
	}
	t.Run("runs", func(t *testing.T) { // as many at a time as there are processors
		for _, r := range runs {
			t.Run(fmt.Sprint(r.mode, " ", r.trace, " ", r.seed), func(t *testing.T) {
				t.Parallel()
				if err := r.run(ctx, t); err != nil {
					t.Error(err)
				}
				if o.show {
					fmt.Fprintf(out, "%s: %.4f, predicted %.4f; %.4f requests, predicted %.4f\n%s", t.Name(), r.fresh, r.predicted.Fresh, r.requests.sum(), r.asked.sum(), r.said)
				}
			})
		}
	})
	if t.Failed() {
		return errors.New("not all runs ended well")
	}
	return o.report(runs, out)
}

// A replay is one run of the crawler, and its simulation.
type replay struct {
	*options
	mode, trace string
	speaks      sim.Site
	seed        uint64

	world     *sim.World
	predicted *sim.Result
	asked     requests // as predicted
	fresh     float64  // in the second half
	requests  requests // as made
	said      string
}

// requests are those of the whole time, per page and day: what the first half saves, the second one spends.
type requests struct{ visits, polls float64 }

func (r requests) sum() float64 { return r.visits + r.polls }

func (r *replay) run(ctx context.Context, t *testing.T) (err error) {
	if err := r.draw(); err != nil {
		return err
	}
	if r.predicted, err = sim.Simulate(ctx, sim.Run{World: r.world, Policy: r.policy, Budget: r.budget, Days: r.days, From: r.days / 2, Seed: r.seed, Watch: func(e sim.Event) {
		switch e.Kind {
		case sim.Visited:
			r.asked.visits += r.perPage()
		case sim.Polled:
			r.asked.polls += r.perPage()
		}
	}}); err != nil {
		return err
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { err = r.crawl(ctx, t.Context(), dir) })
	return err
}

// perPage is one request, per page and day.
func (r *replay) perPage() float64 { return 1 / (float64(len(r.world.Pages)) * r.days) }

// draw makes a world of some pages of the trace, all of the same importance, and of the page that links to them, which never changes.
func (r *replay) draw() (err error) {
	if r.world, err = (sim.TraceWeb{Dir: filepath.Join(os.Getenv("PARLEY_DATA"), "changes"), Names: []string{r.trace}, Days: r.days}).World(); err != nil {
		return err
	}
	w := r.world
	rng := rand.New(rand.NewPCG(r.seed, 2))
	rng.Shuffle(len(w.Pages), func(i, j int) { w.Pages[i], w.Pages[j] = w.Pages[j], w.Pages[i] })
	w.Pages = append([]sim.Page{{Trace: []float64{}}}, w.Pages[:min(r.pages, len(w.Pages))]...)
	for i := range w.Pages {
		w.Pages[i].Weight = 1
	}
	w.Sites = []sim.Site{r.speaks}
	w.Normalize()
	return nil
}

// path is that of a page.
func path(i int) string {
	if i == 0 {
		return "/"
	}
	return fmt.Sprintf("/p%d.html", i)
}

// crawl runs the crawler, and measures what its copies were worth. It stops when ctx ends; within is a context of the
// time in which the crawler runs.
func (r *replay) crawl(ctx, within context.Context, dir string) (err error) {
	within, cancel := context.WithCancel(within)
	defer cancel()
	w := fakeweb.New(fakeweb.Options{Own: true, Pages: 1, Start: time.Now()})
	defer w.Close()
	s := w.Add(fakeweb.Honest)
	s.Speaks, s.Sitemap, s.Polled, s.Undated, s.Robots = r.speaks.Push || r.speaks.Manifest, false, r.speaks.Manifest, true, "User-agent: *\nDisallow: /cgi-bin/\n"
	for i := 1; i < len(r.world.Pages); i++ {
		s.Edit(path(i))
	}
	o := crawl.DefaultOptions()
	o.Start, o.Collection.Into, o.Collection.Store, o.Collection.NoLinks = []string{s.Origin + "/"}, dir, "none", true
	o.Fetch.AllowPrivate, o.Fetch.Wait, o.Fetch.WaitBig, o.Order.Score = true, 0, 0, "static=1"
	o.Revisits.Objective = objective(r.policy)
	o.Revisits.Budget, o.Revisits.Frugal = fmt.Sprint(r.budget*float64(len(r.world.Pages))), !r.policy.FetchOutsideBudget
	o.Sources.NoSitemaps, o.Sources.NoFeeds = true, true
	c, err := o.Open(within)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Collection.Close()) }()
	c.Harvester.Options.Resolver, c.Harvester.Options.Dial = w, w.Dial
	ended := make(chan error, 1)
	go func() { ended <- c.Run(within) }()
	time.Sleep(time.Minute) // for the first copies
	began := time.Now()
	r.play(ctx, s, began)
	if r.show {
		r.said = r.says(c, s)
	}
	cancel()
	if err := errors.Join(<-ended, ctx.Err()); err != nil {
		return err
	}
	visits := r.measure(s, w.Log(), began)
	for i := range r.world.Pages { // the log shows what was fetched, and this that it was stored
		p, ok, err := c.Collection.Page(s.Origin + path(i))
		if body, _ := s.Body(path(i)); err != nil || !ok || visits[i].right != (p.Digest == protocol.Sum([]byte(body))) {
			return fmt.Errorf("%s: the copy of %s does not follow from the requests: %v", r.trace, path(i), err)
		}
	}
	return nil
}

// objective is that of a policy, as an option.
func objective(p sim.Policy) string {
	return fmt.Sprintf("fresh=%g,harmonic=%g,age=%g", p.Objective.Fresh, p.Objective.Harmonic, p.Objective.Age)
}

// play makes the changes, each at its time.
func (r *replay) play(ctx context.Context, s *fakeweb.Site, began time.Time) {
	type edit struct {
		at   float64
		page int
	}
	var edits []edit
	for i, p := range r.world.Pages {
		for _, at := range p.Trace {
			edits = append(edits, edit{at, i})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return int(1e9 * (a.at - b.at)) })
	for _, e := range edits {
		time.Sleep(time.Until(began.Add(time.Duration(e.at * float64(aDay)))))
		if ctx.Err() != nil {
			return
		}
		s.Edit(path(e.page))
	}
	time.Sleep(time.Until(began.Add(time.Duration(r.days * float64(aDay)))))
}

func (r *replay) says(c *crawl.Crawler, s *fakeweb.Site) string {
	text := fmt.Sprintf("%+v\n", c.Status().Revisits)
	for i := range min(3, len(r.world.Pages)) {
		if x, err := c.Why(s.Origin + path(i)); err == nil {
			text += strings.Join(x.Beliefs, "; ") + "\n"
		}
	}
	return text
}

// A visited is a page in the log.
type visited struct {
	right bool // after the last request
	next  int  // its first change that was not fetched
}

// measure computes freshness and requests by the log of the site.
func (r *replay) measure(s *fakeweb.Site, log []fakeweb.Access, began time.Time) []visited {
	numbers := map[string]int{}
	for i := range r.world.Pages {
		numbers[path(i)] = i
	}
	pages, stale := make([]visited, len(r.world.Pages)), 0.
	from := r.days / 2
	const soon = 1e-9 // days: a page is visited in the moment in which its change is told
	wrong := func(i int, to float64) {
		p, trace := &pages[i], r.world.Pages[i].Trace
		if p.next < len(trace) && trace[p.next] < to+soon {
			stale += max(0, to-max(trace[p.next], from))
		}
		for p.next < len(trace) && trace[p.next] < to+soon {
			p.next++
		}
	}
	for _, a := range log {
		at := float64(a.Begin.Sub(began)) / float64(aDay)
		i, page := numbers[a.Path]
		switch {
		case at < 0:
		case page:
			wrong(i, at)
			r.requests.visits += r.perPage()
		case a.Path == "/robots.rdf" && s.Polled:
			r.requests.polls += r.perPage()
		}
	}
	for i := range pages {
		before := pages[i].next
		wrong(i, r.days)
		pages[i].right = pages[i].next == before
	}
	r.fresh = 1 - stale/(float64(len(pages))*(r.days-from))
	return pages
}

func (o *options) report(runs []*replay, out io.Writer) (wrong error) {
	fmt.Fprintf(out, "%d pages, %g days, freshness of the second half; budget %g requests per page and day; policy %s; mean of %d seeds, with the limits of 90 %% of the difference\n", o.pages, o.days, o.budget, o.policy.Name, o.seeds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "notices by\tfresh\tpredicted\tpoints\t\trequests\tpredicted\tpolls\tpredicted\t")
	for _, mode := range o.modes {
		for _, trace := range append(slices.Clone(o.traces), "") {
			var of []*replay
			for _, r := range runs {
				if r.mode == mode && (r.trace == trace || trace == "") {
					of = append(of, r)
				}
			}
			mean := func(f func(r *replay) float64) (mean float64) {
				for _, r := range of {
					mean += f(r) / float64(len(of))
				}
				return mean
			}
			points := func(r *replay) float64 { return 100 * (r.fresh - r.predicted.Fresh) }
			off := mean(points)
			spread := math.Sqrt(mean(func(r *replay) float64 { return math.Pow(points(r)-off, 2) }) / float64(len(of)-1))
			error, shown := 1.645*spread, "unknown"
			if len(of) > 1 {
				shown = fmt.Sprintf("±%.2f", error)
			}
			asked, expected := mean(func(r *replay) float64 { return r.requests.sum() }), mean(func(r *replay) float64 { return r.asked.sum() })
			name := mode
			if trace != "" {
				name += " " + trace
			}
			fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%+.2f\t%s\t%.4f\t%.4f\t%.4f\t%.4f\t\n", name, mean(func(r *replay) float64 { return r.fresh }),
				mean(func(r *replay) float64 { return r.predicted.Fresh }), off, shown, asked, expected, mean(func(r *replay) float64 { return r.requests.polls }), mean(func(r *replay) float64 { return r.asked.polls }))
			switch {
			case trace != "":
			case len(of) > 1 && max(off+error, error-off) > o.within:
				wrong = errors.Join(wrong, fmt.Errorf("%s: freshness is %+.2f ± %.2f points off the prediction", mode, off, error))
			case math.Abs(asked-expected) > o.spend*o.budget:
				wrong = errors.Join(wrong, fmt.Errorf("%s: %.4f requests per page and day, predicted %.4f", mode, asked, expected))
			}
		}
	}
	w.Flush()
	return wrong
}
