// Sitemap measures what the sitemap and the feeds of a large site cost: to
// write, to write again after a change, and to find that there is nothing to
// write.
//
//	go run ./bench/sitemap            # one million pages
//	go run ./bench/sitemap -n 100000  # a shorter run
//
// Each line is a process of its own, since memory is counted by process: the
// heap that Go asked of the system, and all that was resident at most, of which
// the pages of the journal's file are a part that the system takes back at will.
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
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/static"
)

const base = "https://www.example.org/"

func main() { program.Main("sitemap", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sitemap", flag.ContinueOnError)
	n := flags.Int("n", 1_000_000, "pages")
	only := flags.String("only", "", "take one measurement in -dir; for the program itself")
	dir := flags.String("dir", "", "what -only works in")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 {
		return errors.New("-n must be at least 1")
	}
	if *only != "" {
		return alone(ctx, *only, *dir, *n, out)
	}
	return all(ctx, *n, out)
}

// steps are the measurements, in their order.
var steps = []struct{ name, what string }{
	{"journal", "make the journal (no part of the comparison)"},
	{"sitemap", "sitemap, first"},
	{"sitemap", "sitemap, nothing changed"},
	{"touch", "change one page (no part of the comparison)"},
	{"sitemap", "sitemap, one page changed"},
	{"sitemap-gzip", "sitemap, parts compressed"},
	{"sitemap-siblings", "sitemap, with .gz and .zst siblings"},
	{"sitemap-siblings", "the same, nothing changed"},
	{"feeds", "three feeds, first"},
	{"feeds", "three feeds, nothing changed"},
}

func all(ctx context.Context, n int, out io.Writer) error {
	dir, err := os.MkdirTemp("", "parley-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(out, "%d pages; %s, %d CPUs\n\n%-48s %10s %10s %10s %10s\n", n, runtime.Version(), runtime.NumCPU(), "", "wall s", "CPU s", "heap MB", "peak MB")
	for _, s := range steps {
		cmd := exec.CommandContext(ctx, os.Args[0], "-only", s.name, "-dir", dir, "-n", fmt.Sprint(n))
		cmd.Stderr = os.Stderr
		line, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		f := strings.Fields(string(line))
		fmt.Fprintf(out, "%-48s %10s %10.3f %10s %10.0f\n", s.what, f[0], used.Seconds(), f[1], float64(cost.Peak(cmd.ProcessState))/1e6)
	}
	return nil
}

// alone takes one measurement, and prints its wall time and the heap.
func alone(ctx context.Context, what, dir string, n int, out io.Writer) error {
	j, err := journal.Open(filepath.Join(dir, "state"), nil)
	if err != nil {
		return err
	}
	defer j.Close()
	begin := time.Now()
	switch what {
	case "journal":
		err = fill(ctx, j, n)
	case "touch":
		err = touch(ctx, j)
	default:
		_, err = output(what, dir).Write(ctx, j)
	}
	if err != nil {
		return err
	}
	took := time.Since(begin)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_, err = fmt.Fprintf(out, "%.3f %.0f\n", took.Seconds(), float64(m.HeapSys)/1e6)
	return err
}

func output(what, dir string) server.Output {
	if what == "feeds" {
		return &static.Feeds{Base: base, RSS: filepath.Join(dir, "feed.rss"), Atom: filepath.Join(dir, "feed.atom"), JSON: filepath.Join(dir, "feed.json")}
	}
	return &static.Sitemap{Path: filepath.Join(dir, "sitemap.xml"), Base: base,
		Gzip: what == "sitemap-gzip", Precompress: what == "sitemap-siblings"}
}

// page is one of a site of 1,000 directories.
func page(i int) protocol.Item {
	return protocol.Item{URL: fmt.Sprintf("%ssection-%03d/page-%07d.html", base, i%1000, i), Title: fmt.Sprintf("Page number %d", i),
		Modified: time.Unix(1.6e9+61*int64(i), 0).UTC(), Length: 12_345, Type: "text/html", Digest: protocol.Sum([]byte(fmt.Sprint(i)))}
}

func fill(ctx context.Context, j *journal.Journal, n int) error {
	var steps []journal.Step
	for i := range n {
		steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: page(i), Stamp: make([]byte, 40)}})
		if len(steps) == protocol.MaxBatch || i == n-1 {
			if _, err := j.Append(ctx, steps); err != nil {
				return err
			}
			steps = steps[:0]
		}
	}
	return j.Settle()
}

func touch(ctx context.Context, j *journal.Journal) error {
	it := page(0)
	it.Digest, it.Modified = protocol.Sum([]byte("other")), time.Unix(1.8e9, 0).UTC()
	_, err := j.Append(ctx, []journal.Step{{Op: protocol.Update, Entry: journal.Entry{Item: it}}})
	return err
}
