package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/server"
)

// compared measures the first scan of a directory with features and without them, and a scan that finds nothing changed, each beside a
// program that reads the same files or their metadata. Each round runs all of them one after the other; the medians count.
func compared(ctx context.Context, out io.Writer, tmp, dir string, rounds int) error {
	const sums, names = "sha256sum", "find -printf"
	costs := map[string][]cost.Cost{}
	note := func(what string, c cost.Cost, err error) error {
		fmt.Fprintf(out, "%-24s %s\n", what, c)
		costs[what] = append(costs[what], c)
		return err
	}
	// The first round reads the files into the memory of the system, and does not count.
	for round := range rounds + 1 {
		for what, command := range map[string]string{sums: `find "$1" -type f -print0 | xargs -0 sha256sum`, names: `find "$1" -type f -printf '%P %s %T@ %C@ %i\n'`} {
			c, err := cost.Run(exec.CommandContext(ctx, "sh", "-c", command+" >/dev/null", "sh", dir))
			if err := note(what, c, err); err != nil {
				return err
			}
		}
		for _, side := range []string{"digests", "features"} {
			site := &server.Site{Docroot: dir, Base: base}
			if side == "features" {
				site.Features = forms.ReadFeatures(nil)
			}
			if err := scans(ctx, filepath.Join(tmp, fmt.Sprintf("%s-%d.db", side, round)), site, side, note); err != nil {
				return err
			}
		}
		if round == 0 {
			clear(costs)
		}
	}
	cpu := func(what string) float64 {
		return median(costs[what], func(c cost.Cost) float64 { return c.CPU.Seconds() })
	}
	wall := func(what string) float64 {
		return median(costs[what], func(c cost.Cost) float64 { return c.Wall.Seconds() })
	}
	goals := goal.Sheet{Out: out}
	goals.AtMost(1.5, wall("features first")/wall(sums), "wall time of a first scan with features / sha256sum's")
	goals.AtMost(1.1, cpu("digests first")/cpu(sums), "CPU of a first scan without features / sha256sum's")
	goals.AtMost(1.0, cpu("features unchanged")/cpu(names), "CPU of a scan of unchanged files / that of %s", names)
	goals.AtMost(0.6, wall("features unchanged")/wall(names), "wall time of a scan of unchanged files / that of %s", names)
	return goals.Err()
}

func median(list []cost.Cost, of func(cost.Cost) float64) float64 {
	values := make([]float64, len(list))
	for i, c := range list {
		values[i] = of(c)
	}
	return cost.Median(values)
}

// scans measures the first scan of a site, whose journal it makes, and a scan that finds nothing changed.
func scans(ctx context.Context, state string, site *server.Site, side string, note func(string, cost.Cost, error) error) error {
	defer os.Remove(state)
	journal, err := server.OpenJournal(ctx, state, server.JournalOptions{Base: base})
	if err != nil {
		return err
	}
	defer journal.Close()
	site.Journal = journal
	publisher := &server.Publisher{Inventory: site, Journal: journal}
	for _, which := range []string{" first", " unchanged"} {
		c, err := cost.Of(func() error { _, err := publisher.Scan(ctx, nil); return err })
		if err := note(side+which, c, err); err != nil {
			return err
		}
	}
	return nil
}
