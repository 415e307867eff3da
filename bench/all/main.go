// All runs the measurements that have goals, one after the other, and prints their figures in one table.
//
//	go run ./bench/all                           # about an hour and a half; the machine should do nothing else
//	go run ./bench/all -only listeners,latency   # those whose command contains one of the words
//	go run ./bench/all -list                     # the commands
//
// What they print meanwhile goes to stderr. The exit code is 1 if a goal is missed, or a measurement fails.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("all", run) }

// measurements are the commands, without "go run ./bench/".
var measurements = []string{
	"manifest",
	"manifest -n 31871 -edits 31",
	"manifest -edits 12000",
	"manifest -edits 100 -over 60s",
	"firstlook --edits 200 --files 100000",
	"firstlook --sitemap --rounds 5",
	"latency",
	"listeners",
	"listeners --listeners 4000 --burst 0 --sides parley,doors",
	"cluster",
	"pages",
	"batch",
	"crawl",
	"crawl -mode manifest",
	"crawl -mode recrawl",
	"frontier",
	"report",
	"fresh -only 1,2,3,8 -seeds 1",
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("all", flag.ContinueOnError)
	only := flags.String("only", "", "run only the measurements whose commands contain one of these `WORDS`, separated by commas")
	list := flags.Bool("list", false, "print the commands, and run none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	words := strings.Split(*only, ",")
	chosen := slices.DeleteFunc(slices.Clone(measurements), func(m string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(m, w) })
	})
	if len(chosen) == 0 {
		return fmt.Errorf("-only %s: no measurement contains that: see -list", *only)
	}
	var table bytes.Buffer
	var failed []error
	for _, m := range chosen {
		if *list {
			fmt.Fprintln(out, "go run ./bench/"+m)
			continue
		}
		figures, missed, err := measure(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(&table, "go run ./bench/%s\n%s", m, figures)
		if err != nil && missed == 0 {
			fmt.Fprintln(&table, "     FAILED", err)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m, err))
		}
	}
	if _, err := table.WriteTo(out); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// measure runs a measurement, and returns its figures that have goals.
func measure(ctx context.Context, command string) (figures string, missed int, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run"}, strings.Fields("./bench/"+command)...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		if figure, bad := goal.In(lines.Text()); figure {
			fmt.Fprintln(&b, " ", strings.TrimPrefix(lines.Text(), "goal"))
			if bad {
				missed++
			}
		}
	}
	return b.String(), missed, errors.Join(lines.Err(), cmd.Wait())
}
