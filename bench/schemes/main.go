// Schemes measures the twelve ways in which a site can announce its changes to a crawler (C01 to C14), and no
// cooperation at all, on one workload, and compares the signs with those of table 6.2 of the thesis (C42).
//
//	go run ./bench/schemes [-docroot DIR] [-pages 300] [-for 30s] [-period 5s] [-only push,delta]
//
// Each way has a docroot of its own behind a real nginx with a notifier, and a crawler that keeps a copy.
// When the copy is complete, the same changes are made for each way: most of them minor (a date at the foot
// of a page), some major, and once, in the middle, nearly all pages at once. It prints
//
//   - bytes and requests between crawler and site, in both directions;
//   - the processor time of nginx with the notifier, and of the crawler;
//   - the share of pages and time in which the copy was right, byte for byte,
//     and in which it was right except for minor changes.
//
// The site in the row "no subscribers" has a notifier, which finds every change, and no crawler: a site pays
// that cost once, for any number of subscribers.
//
// Polling repeats every -period. The costs before the first change are not counted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("schemes", run) }

type options struct {
	docroot string
	pages   int
	last    time.Duration
	period  time.Duration
	only    string
	seed    uint64
	show    bool
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) > 0 && args[0] == "poll" {
		return poll(ctx, args[1:])
	}
	var o options
	flags := flag.NewFlagSet("schemes", flag.ContinueOnError)
	flags.StringVar(&o.docroot, "docroot", "/usr/share/doc/git-doc", "directory whose pages are copied")
	flags.IntVar(&o.pages, "pages", 300, "number of pages, drawn at random")
	flags.DurationVar(&o.last, "for", 30*time.Second, "duration of the changes")
	flags.DurationVar(&o.period, "period", 5*time.Second, "polling interval")
	flags.StringVar(&o.only, "only", "", "run only schemes whose names contain all of these comma-separated words")
	flags.Uint64Var(&o.seed, "seed", 1, "seed for drawing pages and changes")
	flags.BoolVar(&o.show, "show", false, "print the output of the programs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "parley-schemes-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := program.Build(ctx, dir, "notifier", "crawler"); err != nil {
		return err
	}
	if err := buildAgent(ctx, dir); err != nil {
		return err
	}
	w, err := newWorkload(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d pages, %s in all; %d changes in %v, %d of them minor; polling every %v\n\n",
		len(w.pages), size(w.bytes()), w.changes, o.last, w.minor, o.period)
	var results []result
	for _, way := range ways(o) {
		if !slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool { return !strings.Contains(way.name, word) }) {
			r, err := measure(ctx, dir, way, w, o)
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			fmt.Fprintf(os.Stderr, "%s: %s, %d requests\n", way.name, size(r.bytes), r.requests)
			results = append(results, r)
		}
	}
	return report(out, results)
}
