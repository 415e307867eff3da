// Pages measures what the pages of --admin cost, of a crawler that has stored 30,000 pages of 300 sites and fetches 20 pages a second, and
// of a notifier with 1,000 listeners and two edits a second, and fails if a limit is missed.
//
//	go run ./bench/pages                                    # takes about eight minutes, and needs Linux
//	go run ./bench/pages -rounds 3 -for 5s -updates 1000
//
// It runs the real programs on the loopback, and measures of each:
//
//   - the first page: the slowest of twenty, each on a new connection and rendered anew, until its first byte has come and until it is
//     complete, with its style sheet and script;
//   - the processor time of the program with three viewers, who keep the page open, and without them, in turns, as a share of one
//     processor. Of each, the mean of the calmer half of the rounds counts, since the programs also do other work at times;
//   - 10,000 updates, as many as a viewer gets in hours: a form makes the program render the page anew, and a viewer connects, gets all
//     sections and leaves. The least live heap and number of goroutines in the second tenth of the updates and in the last are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("pages", run) }

const viewers = 3

type options struct {
	pages, rounds, updates int
	last                   time.Duration
	dir                    string // for the programs and their files
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("pages", flag.ContinueOnError)
	flags.IntVar(&o.pages, "pages", 30_000, "number of pages that are crawled, 100 of each site, and 30 for each listener")
	flags.IntVar(&o.rounds, "rounds", 9, "rounds with and without viewers")
	flags.DurationVar(&o.last, "for", 10*time.Second, "duration of half a round")
	flags.IntVar(&o.updates, "updates", 10_000, "number of updates")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.pages < 100 || o.rounds < 1 || o.updates < 100 {
		return errors.New("want at least 100 pages and updates, and one round")
	}
	if o.dir, err = os.MkdirTemp("", "parley-pages-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	if err := program.Build(ctx, o.dir, "crawler", "notifier"); err != nil {
		return err
	}
	goals := goal.Sheet{Out: out}
	for _, start := range []func(context.Context, *options) (*subject, error){startCrawler, startNotifier} {
		s, err := start(ctx, &o)
		if err == nil {
			err = s.measure(ctx, &o, func(limit, value float64, what string, args ...any) {
				goals.AtMost(limit, value, "%s", s.name+": "+fmt.Sprintf(what, args...))
			})
			if s.end(); err != nil {
				err = fmt.Errorf("%s: %w\n%s", s.name, err, s.program.Tail())
			}
		}
		if err != nil {
			return err
		}
	}
	return goals.Err()
}

// measure makes all measurements of a program.
func (s *subject) measure(ctx context.Context, o *options, figure func(limit, value float64, what string, args ...any)) error {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	var first, whole time.Duration
	for range 20 {
		f, w, err := s.load(ctx)
		if err != nil {
			return err
		}
		first, whole = max(first, f), max(whole, w)
	}
	figure(100, ms(first), "ms until the first byte of the page")
	figure(100, ms(whole), "ms until the page is complete")

	var without, with []float64
	updates := 0
	for range o.rounds {
		share, err := s.share(ctx, o.last)
		if err != nil {
			return err
		}
		without = append(without, share)
		stop, err := s.view(ctx)
		if err == nil {
			share, err = s.share(ctx, o.last)
			got, ended := stop()
			updates, err = updates+got, errors.Join(err, ended)
		}
		if err != nil {
			return err
		}
		with = append(with, share)
	}
	figure(1, 100*(calm(with)-calm(without)), "%% of a processor for %d viewers, who get %d updates, beside %.1f %%", viewers, updates, 100*calm(without))

	began := time.Now()
	heap, goroutines, err := s.update(ctx, o.updates)
	if err != nil {
		return err
	}
	figure(2, heap/1e6, "MB of growth of the heap in %d updates of %.1f ms", o.updates, ms(time.Since(began))/float64(o.updates))
	figure(10, goroutines, "goroutines more than before") // those of a connection that is idle now come and go
	return nil
}

// calm returns the mean of the smaller half of the values.
func calm(list []float64) (mean float64) {
	half := slices.Sorted(slices.Values(list))[:(len(list)+1)/2]
	for _, v := range half {
		mean += v / float64(len(half))
	}
	return mean
}
