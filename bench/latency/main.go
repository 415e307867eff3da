// Latency measures how long a saved page takes to reach a crawler's mirror: the real notifier and the real
// crawler as processes on loopback, a docroot copied from --docroot, one edit at a time.
//
//	go run ./bench/latency [--docroot /usr/share/doc/git-doc] [--edits 1000] [--every 100ms] [--preset high]
//
// In the same run, between the edits, it measures two fsyncs of the same disk: write a page of the same size,
// fsync, rename, fsync the directory. The goals: the median latency is at most 5 ms more than that of the two
// fsyncs, and the 99th percentile at most 4 times the median. With --edits 0 it measures the first copy of the
// site alone: its times, and the memory of both.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/front"
)

func main() { program.Main("latency", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("latency", flag.ContinueOnError)
	docroot := flags.String("docroot", "/usr/share/doc/git-doc", "site to copy and edit")
	edits := flags.Int("edits", 1000, "number of edits; 0 measures the first copy alone")
	every := flags.Duration("every", 0, "shortest time from one edit to the next; 0: no page is edited twice within 2 s, since then it may rest before it is read")
	preset := flags.String("preset", "", "preset of the notifier: low, moderate or high")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "parley-latency-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	root, mirror := filepath.Join(tmp, "docroot"), filepath.Join(tmp, "mirror")
	if err := os.CopyFS(root, os.DirFS(*docroot)); err != nil {
		return err
	}
	if err := program.Build(ctx, tmp, "notifier", "crawler"); err != nil {
		return err
	}
	web, err := front.Serve(root)
	if err != nil {
		return err
	}
	defer web.Close()

	waiting, cancel := context.WithTimeout(ctx, 8*time.Minute) // for the first copy
	defer cancel()
	began := time.Now()
	options := []string{"--docroot", root, "--base", web.Base, "--listen", web.Sidecar, "--state", filepath.Join(tmp, "state.db")}
	if *preset != "" {
		options = append(options, "--preset", *preset)
	}
	notifier, err := program.Start(ctx, nil, filepath.Join(tmp, "notifier"), options...)
	if err != nil {
		return err
	}
	defer notifier.End()
	var pages []string
	if err := program.Until(waiting, "the manifest", func() bool { pages, err = web.Pages(ctx); return err == nil }, notifier); err != nil {
		return err
	}
	described := time.Since(began)
	began = time.Now()
	crawler, err := program.Start(ctx, nil, filepath.Join(tmp, "crawler"), "follow", web.Base, "--into", mirror)
	if err != nil {
		return err
	}
	defer crawler.End()
	if err := program.Until(waiting, "the copy", func() bool {
		return same(root, mirror, pages[len(pages)-1]) &&
			!slices.ContainsFunc(pages, func(p string) bool { return !same(root, mirror, p) })
	}, notifier, crawler); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d pages described in %v, copied in %v with %d requests for pages; peak memory of the notifier %d MB, of the crawler %d MB\n", *docroot, len(pages),
		described.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), web.Crawler().Requests, cost.Resident(notifier.PID())>>20, cost.Resident(crawler.PID())>>20)
	if *edits == 0 {
		return nil
	}

	memory := []int64{cost.Anonymous(notifier.PID())}
	before := web.Crawler()
	var fresh, floor []time.Duration
	pace := *every
	if pace <= 0 {
		pace = 2100 * time.Millisecond / time.Duration(len(pages))
	}
	for i := range *edits {
		p := pages[i*7919%len(pages)]
		content, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			return err
		}
		content = fmt.Appendf(content, "<!-- %d -->\n", i)
		saved := time.Now()
		if err := save(filepath.Join(root, p), content, false); err != nil {
			return err
		}
		for !same(root, mirror, p) {
			if time.Since(saved) > 30*time.Second {
				return fmt.Errorf("edit %d of %s did not arrive: %s\n%s", i, p, notifier.Tail(), crawler.Tail())
			}
			time.Sleep(200 * time.Microsecond)
		}
		fresh = append(fresh, time.Since(saved))
		time.Sleep(pace - time.Since(saved))
		memory = append(memory, cost.Anonymous(notifier.PID()))

		began := time.Now()
		if err := save(filepath.Join(tmp, "floor"), content, true); err != nil {
			return err
		}
		floor = append(floor, time.Since(began))
	}
	asked := web.Crawler().Sub(before).Requests
	crawler.End()
	user, system := crawler.Used()
	fmt.Fprintf(out, "%d edits, %d requests for pages; the crawler took %v of CPU in all\n", *edits, asked, (user + system).Round(10*time.Millisecond))
	fmt.Fprintf(out, "notifier's anonymous memory: %d MB before the edits, at most %d MB, %d MB after them\n", memory[0]>>20, slices.Max(memory)>>20, memory[len(memory)-1]>>20)
	fmt.Fprintf(out, "save to fresh copy  %s\n", quantiles(fresh))
	fmt.Fprintf(out, "two fsyncs          %s\n", quantiles(floor))
	goals := goal.Sheet{Out: out}
	goals.AtMost(5, (at(fresh, .5)-at(floor, .5)).Seconds()*1e3, "ms from saving a page to its copy, median, more than two fsyncs")
	goals.AtMost(4, float64(at(fresh, .99))/float64(at(fresh, .5)), "its 99th percentile / its median")
	return goals.Err()
}

// save writes a page as most editors do: to a temporary file, which is then renamed.
func save(name string, content []byte, durable bool) error {
	tmp := name + ".new"
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(content))
	if err == nil && durable {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil || !durable {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func same(root, mirror, page string) bool {
	a, err := os.Stat(filepath.Join(root, page))
	if err != nil {
		return false
	}
	b, err := os.Stat(filepath.Join(mirror, page))
	if err != nil || a.Size() != b.Size() {
		return false
	}
	p, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return false
	}
	q, err := os.ReadFile(filepath.Join(mirror, page))
	return err == nil && bytes.Equal(p, q)
}

// quantiles formats quantiles of durations, which it sorts.
func quantiles(d []time.Duration) string {
	slices.Sort(d)
	round := func(q float64) time.Duration { return at(d, q).Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v  p90 %v  p99 %v  max %v", round(.5), round(.9), round(.99), round(1))
}

// at returns a quantile of sorted durations.
func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
