// Pairs compares the processor time of two builds of Parley's programs for the workload of another
// measurement.
//
//	go run ./bench/pairs -old DIR -new DIR [-rounds 20] -- ./bench/latency --edits 200
//	go run ./bench/pairs -old DIR -new DIR -- ./bench/latency --docroot /usr/share/doc/git-doc --edits 0
//	go run ./bench/pairs -old DIR -new DIR -- ./bench/crawl -rounds 1 -only Parley,gzip /usr/share/doc/git-doc
//
// DIR has the programs notifier, crawler and rdfgen of one build. In every round the old build runs twice and
// the new one once, in an order that changes from round to round. It prints the median of the ratios new/old,
// with the interval that contains the median of such ratios with a probability of 95 % (by order statistics,
// without an assumption about their distribution), and the same for old/old, which shows the precision of the
// machine. Only the processor time of the programs themselves counts, not that of the web server or of the
// measurement.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("pairs", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("pairs", flag.ContinueOnError)
	older := flags.String("old", "", "`DIR` of the old programs, the baseline")
	newer := flags.String("new", "", "`DIR` of the new programs")
	rounds := flags.Int("rounds", 20, "number of pairs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *older == "" || *newer == "" || flags.NArg() == 0 {
		return errors.New("usage: pairs -old DIR -new DIR -- PACKAGE [ARGUMENTS]")
	}
	tmp, err := os.MkdirTemp("", "parley-pairs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	workload := filepath.Join(tmp, "workload")
	if msg, err := exec.CommandContext(ctx, "go", "build", "-o", workload, flags.Arg(0)).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", flags.Arg(0), err, msg)
	}
	cpu := func(dir string) (time.Duration, error) {
		return processorTime(ctx, dir, filepath.Join(tmp, "cpu"), workload, flags.Args()[1:])
	}

	var changed, noise []float64
	for i := range *rounds {
		dirs := []string{*older, *newer, *older}
		var took [3]time.Duration
		for k := range dirs {
			at := (i + k) % len(dirs)
			if took[at], err = cpu(dirs[at]); err != nil {
				return fmt.Errorf("round %d, programs of %s: %w", i+1, dirs[at], err)
			}
		}
		changed = append(changed, took[1].Seconds()/took[0].Seconds())
		noise = append(noise, took[2].Seconds()/took[0].Seconds())
		fmt.Fprintf(out, "round %2d: old %6.2f s  new %6.2f s  old again %6.2f s\n", i+1, took[0].Seconds(), took[1].Seconds(), took[2].Seconds())
	}
	fmt.Fprintf(out, "new/old: %s\nold/old: %s\n", interval(changed), interval(noise))
	return nil
}

// processorTime runs the workload with the programs of dir and returns the sum of their processor times.
func processorTime(ctx context.Context, dir, account, workload string, args []string) (time.Duration, error) {
	if err := os.RemoveAll(account); err != nil {
		return 0, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, workload, args...)
	cmd.Env = append(os.Environ(), program.ProgramsEnv+"="+dir, program.AccountEnv+"="+account)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, msg)
	}
	f, err := os.Open(account)
	if err != nil {
		return 0, fmt.Errorf("the workload ran none of the programs: %w", err)
	}
	defer f.Close()
	var sum time.Duration
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		d, err := time.ParseDuration(lines.Text())
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, lines.Err()
}

// interval returns the median of ratios and the interval that contains the true one with 95 %.
func interval(ratios []float64) string {
	slices.Sort(ratios)
	n := len(ratios)
	low, high := order(n)
	return fmt.Sprintf("median %.3f, 95 %% interval %.3f to %.3f, %d pairs", (ratios[(n-1)/2]+ratios[n/2])/2, ratios[low], ratios[high], n)
}

// order returns which of n sorted values enclose their median with a probability of at least 95 %: the widest
// pair, if n is under 6 and none does.
func order(n int) (low, high int) {
	// P(fewer than k of n fair coins show heads) is at most 2.5 %.
	tail, term := 0.0, 1.0
	for range n {
		term /= 2
	}
	for k := 0; k < n/2; k++ {
		if tail += term; tail > 0.025 {
			break
		}
		low = k
		term *= float64(n-k) / float64(k+1)
	}
	return low, n - 1 - low
}
