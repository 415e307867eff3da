// Report measures how fast rdfgen reports on an access log of five million lines, compared with GoAccess on
// the same file in the same run. Each makes its whole report as JSON, which is discarded. The reports differ:
// GoAccess also counts visitors, referrers and systems, and does not count repeated reads.
//
//	go run ./bench/report             # five million lines, three rounds
//	go run ./bench/report -n 200000   # a shorter run
//
// Rounds are interleaved, and the best of each side counts: other load on the machine can only slow a round
// down. GoAccess is Debian's (package goaccess); without it, only rdfgen is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("report", run) }

// A side is a program that makes a report.
type side struct {
	name string
	args []string
	best cost.Cost
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	n := flags.Int("n", 5_000_000, "lines")
	rounds := flags.Int("rounds", 3, "rounds of each side")
	seed := flags.Uint64("seed", 1, "seed of the generated log")
	write := flags.String("write", "", "only write the log to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *rounds < 1 {
		return errors.New("-n and -rounds must be at least 1")
	}
	if *write != "" {
		_, err := writeLog(*write, *n, *seed)
		return err
	}
	dir, err := os.MkdirTemp("", "parley-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "access.log")
	size, err := writeLog(log, *n, *seed)
	if err != nil {
		return err
	}
	if err := program.Build(ctx, dir, "rdfgen"); err != nil {
		return err
	}
	sides := []*side{{name: "rdfgen report", args: []string{filepath.Join(dir, "rdfgen"), "report", "--log", log, "--json"}}}
	if goaccess, err := exec.LookPath("goaccess"); err == nil {
		sides = append(sides, &side{name: version(goaccess), args: []string{goaccess, log, "--log-format=COMBINED", "--no-global-config", "--no-progress", "-o", "json"}})
	} else {
		fmt.Fprintln(out, "goaccess is not installed: measuring rdfgen only")
	}
	fmt.Fprintf(out, "%d lines, %.0f MB; %s, %d CPUs; best of %d\n\n", *n, float64(size)/1e6, runtime.Version(), runtime.NumCPU(), *rounds)
	for range *rounds {
		for _, s := range sides {
			c, err := cost.Run(exec.CommandContext(ctx, s.args[0], s.args[1:]...)) // its output is discarded
			if err != nil {
				return err
			}
			s.best = s.best.Best(c)
		}
	}
	fmt.Fprintf(out, "%-22s%10s%10s%16s%16s%14s\n", "", "wall s", "CPU s", "lines/wall s", "lines/CPU s", "memory MB")
	for _, s := range sides {
		fmt.Fprintf(out, "%-22s%10.2f%10.2f%16.0f%16.0f%14.0f\n", s.name, s.best.Wall.Seconds(), s.best.CPU.Seconds(),
			float64(*n)/s.best.Wall.Seconds(), float64(*n)/s.best.CPU.Seconds(), float64(s.best.Memory)/1e6)
	}
	goals := goal.Sheet{Out: out}
	if len(sides) == 2 {
		goals.AtLeast(10, sides[1].best.CPU.Seconds()/sides[0].best.CPU.Seconds(), "lines a CPU second / those of goaccess")
	}
	return goals.Err()
}

func writeLog(name string, n int, seed uint64) (int64, error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	if err := generate(f, n, seed); err != nil {
		f.Close()
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return 0, err
	}
	return info.Size(), f.Close()
}

// version returns the name and version that a program prints.
func version(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return filepath.Base(path)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	line = strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(line), "."), " - ", " ")
	return line[:min(len(line), 21)]
}
