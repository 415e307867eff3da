// Manifest measures how fast a manifest is written and read, compared with encoding/xml on the same content
// in the same run, and the memory of both.
//
//	go run ./bench/manifest            # one million items
//	go run ./bench/manifest -n 100000  # a shorter run
//	go run ./bench/manifest -edits 300 # what an edit costs in a manifest of one file, and in parts with a sitemap
//	go run ./bench/manifest -edits 100 -over 60s # the same, with time between the edits
//	go run ./bench/manifest -heads 249 # bytes of a HEAD for each page, and of the forms that list them all
//
// Rounds are interleaved, and the best of each side counts: other load on the machine can only slow a round
// down. Peak memory is measured in processes that do nothing else.
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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("manifest", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("manifest", flag.ContinueOnError)
	n := flags.Int("n", 1_000_000, "items")
	rounds := flags.Int("rounds", 3, "rounds of each measurement")
	edits := flags.Int("edits", 0, "instead, measure this many edits, the manifest being written after each")
	over := flags.Duration("over", 0, "spread the edits in parts over this time; default: one follows the other")
	pages := flags.Int("heads", 0, "instead, compare the bytes of so many HEAD requests with those of one request for a list")
	only := flags.String("only", "", "internal: measure only the memory of one side: read or write")
	file := flags.String("file", "", "internal: manifest that -only reads")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *rounds < 1 {
		return errors.New("-n and -rounds must be at least 1")
	}
	if *edits > 0 {
		return edit(ctx, *n, *edits, *over, out)
	}
	if *pages > 0 {
		return heads(ctx, *pages, out)
	}
	if *only != "" {
		return alone(*only, *file, *n, out)
	}
	return compare(ctx, *n, *rounds, out)
}

// A contest is two implementations of the same work.
type contest struct {
	name         string
	ours, theirs func() error
	times        [2][]time.Duration
}

func compare(ctx context.Context, n, rounds int, out io.Writer) error {
	f, err := os.CreateTemp("", "parley-bench-*.rdf")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := writeOurs(w, n); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d items, %.1f MB, %.0f bytes an item; %s, %d CPUs\n\n",
		n, float64(size)/1e6, float64(size)/float64(n), runtime.Version(), runtime.NumCPU())

	goals := goal.Sheet{Out: out}
	contests := []*contest{
		{name: "write",
			ours:   func() error { return writeOurs(io.Discard, n) },
			theirs: func() error { return writeTheirs(io.Discard, n) }},
		{name: "read",
			ours:   func() error { return readFile(f.Name(), n, readOurs) },
			theirs: func() error { return readFile(f.Name(), n, readTheirs) }},
	}
	for range rounds {
		for _, c := range contests {
			for side, f := range []func() error{c.ours, c.theirs} {
				if err := ctx.Err(); err != nil {
					return err
				}
				runtime.GC()
				start := time.Now()
				if err := f(); err != nil {
					return err
				}
				c.times[side] = append(c.times[side], time.Since(start))
			}
		}
	}
	fmt.Fprintf(out, "%-6s %-24s %10s %8s %8s\n", "", "", "items/s", "MB/s", "ratio")
	for _, c := range contests {
		ours, theirs := slices.Min(c.times[0]), slices.Min(c.times[1])
		row := func(what string, d time.Duration, ratio string) {
			fmt.Fprintf(out, "%-6s %-24s %10.0f %8.1f %8s\n", c.name, what,
				float64(n)/d.Seconds(), float64(size)/1e6/d.Seconds(), ratio)
		}
		peer := "encoding/xml Encoder"
		if c.name == "read" {
			peer = "encoding/xml Token"
		}
		row("protocol", ours, fmt.Sprintf("%.1fx", theirs.Seconds()/ours.Seconds()))
		row(peer, theirs, "")
		if c.name == "read" {
			goals.AtLeast(9, theirs.Seconds()/ours.Seconds(), "items read in a second / those of encoding/xml")
		}
	}

	fmt.Fprintln(out)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, side := range []string{"write", "read"} {
		cmd := exec.CommandContext(ctx, self, "-only", side, "-n", fmt.Sprint(n), "-file", f.Name())
		cmd.Stderr = os.Stderr
		said, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s alone: %w", side, err)
		}
		fmt.Fprintf(out, "%-6s alone: %s\n", side, strings.TrimSpace(string(said)))
	}
	return goals.Err()
}

// readFile streams the file through read, which returns the number of items.
func readFile(name string, n int, read func(io.Reader) (int, error)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := read(f)
	if err != nil {
		return err
	}
	if got != n {
		return fmt.Errorf("read %d items, not %d", got, n)
	}
	return nil
}
