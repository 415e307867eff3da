// Report measures how fast rdfgen reports on an access log of five million
// lines, beside GoAccess on the same file in the same run. Each makes its whole
// report as JSON, and nothing of it is shown. The reports differ: GoAccess also
// counts visitors, referrers and systems, and does not ask what was read again.
//
//	go run ./bench/report             # five million lines, three rounds
//	go run ./bench/report -n 200000   # a shorter run
//
// Rounds are interleaved, and the best of each side counts: what else a
// machine does can only slow a round down. GoAccess is Debian's (package
// goaccess); without it, rdfgen alone is measured.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// A side is a program that reports.
type side struct {
	name      string
	args      []string
	wall, cpu time.Duration // of its best round
	memory    int64         // bytes, at most
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	n := flags.Int("n", 5_000_000, "lines")
	rounds := flags.Int("rounds", 3, "rounds of each side")
	seed := flags.Uint64("seed", 1, "of the generated log")
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
	rdfgen := filepath.Join(dir, "rdfgen")
	if text, err := exec.Command("go", "build", "-o", rdfgen, "github.com/parleyweb/parley/cmd/rdfgen").CombinedOutput(); err != nil {
		return fmt.Errorf("build rdfgen: %w: run this within the module\n%s", err, text)
	}
	sides := []*side{{name: "rdfgen report", args: []string{rdfgen, "report", "--log", log, "--json"}}}
	if goaccess, err := exec.LookPath("goaccess"); err == nil {
		sides = append(sides, &side{name: version(goaccess), args: []string{goaccess, log, "--log-format=COMBINED", "--no-global-config", "--no-progress", "-o", "json"}})
	} else {
		fmt.Fprintln(out, "there is no goaccess on this machine: rdfgen alone is measured")
	}
	fmt.Fprintf(out, "%d lines, %.0f MB; %s, %d CPUs; best of %d\n\n", *n, float64(size)/1e6, runtime.Version(), runtime.NumCPU(), *rounds)
	for range *rounds {
		for _, s := range sides {
			if err := s.round(); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(out, "%-22s%10s%10s%16s%16s%14s\n", "", "wall s", "CPU s", "lines/wall s", "lines/CPU s", "memory MB")
	for _, s := range sides {
		fmt.Fprintf(out, "%-22s%10.2f%10.2f%16.0f%16.0f%14.0f\n", s.name, s.wall.Seconds(), s.cpu.Seconds(),
			float64(*n)/s.wall.Seconds(), float64(*n)/s.cpu.Seconds(), float64(s.memory)/1e6)
	}
	if len(sides) == 2 {
		fmt.Fprintf(out, "\nrdfgen / goaccess: %.2f in lines per wall second, %.2f in lines per CPU second\n",
			sides[1].wall.Seconds()/sides[0].wall.Seconds(), sides[1].cpu.Seconds()/sides[0].cpu.Seconds())
	}
	return nil
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

// round runs a side once. What it says goes nowhere.
func (s *side) round() error {
	cmd := exec.Command(s.args[0], s.args[1:]...)
	var said strings.Builder
	cmd.Stderr = &said
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", s.name, err, said.String())
	}
	wall := time.Since(start)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if s.cpu == 0 || cpu < s.cpu {
		s.cpu = cpu
	}
	if s.wall == 0 || wall < s.wall {
		s.wall = wall
	}
	s.memory = max(s.memory, peak(cmd.ProcessState))
	return nil
}

// version is what a program calls itself.
func version(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return filepath.Base(path)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	line = strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(line), "."), " - ", " ")
	return line[:min(len(line), 21)]
}
