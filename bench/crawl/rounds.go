package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/bench/internal/program"
)

// An outcome is the result and the cost of one run of a rival.
type outcome struct {
	cpu, wall float64 // seconds
	peak      float64 // MB
	stored    int64   // bytes in files
	said      string

	pages    int         // answered in full with 200, each file of the site once
	statuses map[int]int // of all requests
	down, up int64       // bytes of all requests
	again    []string    // pages requested twice or more
	missing  []string    // pages that should have been requested
	extra    []string    // pages that should not have been requested
}

// perThousand is the processor time for 1,000 pages, in seconds.
func (o *outcome) perThousand() float64 { return 1000 * o.cpu / float64(max(o.pages, 1)) }

func (o *outcome) requests() (n int) {
	for _, k := range o.statuses {
		n += k
	}
	return n
}

// A bound is the most processor time that a row may take, as a share of that of its best peer.
type bound struct {
	row   *rival
	peers []*rival
	limit float64
}

// race runs all rows in every round, and prints their costs. want are the pages that each must request.
func (b *bench) race(ctx context.Context, s *site, n *nginx.Server, want []string, rows []*rival, bounds []bound) error {
	rows = slices.DeleteFunc(rows, func(r *rival) bool { return !b.wanted(r.name) })
	for round := range b.rounds {
		for i := range rows {
			r := rows[(i+round)%len(rows)]
			dir, err := os.MkdirTemp(b.dir, "run-")
			if err != nil {
				return err
			}
			o, err := b.once(ctx, r, s, n, want, dir)
			if err := errors.Join(err, empty(dir)); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.runs = append(r.runs, o)
			b.complain(r, o)
		}
	}
	b.table(rows)
	for _, g := range bounds {
		b.judge(g)
	}
	return nil
}

// empty frees the space of files, which stay until the end of the program: ext4 without a journal does not reuse inodes
// freed in the last minutes, and searches past each of them to create a file. That would cost the next run more than a
// quarter of its processor time.
func empty(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Truncate(name, 0)
	})
}

// once runs a rival in its directory, and reads its requests from nginx.
func (b *bench) once(ctx context.Context, r *rival, s *site, n *nginx.Server, want []string, dir string) (*outcome, error) {
	if r.ours != "" {
		if err := b.build(ctx, r.ours); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	settle() // the writes of the run before do not slow this one
	if _, err := n.Requests(); err != nil {
		return nil, err
	}
	cmd := r.command(s, dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	o := &outcome{statuses: map[int]int{}}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-ctx.Done():
			cmd.Process.Kill()
			<-ended
			return nil, fmt.Errorf("%w; its output: %s", ctx.Err(), tail(said.String()))
		case <-time.After(10 * time.Millisecond):
			o.peak = max(o.peak, float64(cost.Resident(cmd.Process.Pid))/1e6)
		}
	}
	o.wall = time.Since(began).Seconds()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 8 && filepath.Base(cmd.Path) == "wget2" {
		err = nil // some link is broken: a server answered with an error
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(said.String()))
	}
	o.said = said.String()
	o.cpu = cpuTime(cmd.ProcessState)
	if r.ours == "crawler" {
		if err := program.Account(cmd.ProcessState); err != nil {
			return nil, err
		}
	}
	list, err := n.Requests()
	if err != nil {
		return nil, err
	}
	o.count(s, list, want)
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var st fs.FileInfo
			if st, err = d.Info(); err == nil {
				o.stored += st.Size()
			}
		}
		return err
	})
	return o, err
}

// count compares the requests with the wanted pages. Both are mapped to files, since a path can be written in
// more than one way.
func (o *outcome) count(s *site, list []nginx.Request, want []string) {
	type file struct {
		site int
		name string
	}
	wanted := map[file]string{}
	for _, p := range want {
		for i := range s.bases {
			wanted[file{i, s.File(p)}] = p
		}
	}
	got := map[file]int{}
	for _, q := range list {
		o.statuses[q.Status]++
		o.down, o.up = o.down+q.Down, o.up+q.Up
		of := file{q.Site, s.File(q.Path)}
		if q.Status != 200 || q.Method != "GET" || filepath.Ext(of.name) != ".html" {
			continue
		}
		got[of]++
		if _, ok := wanted[of]; !ok {
			o.extra = append(o.extra, q.Path)
		} else if got[of] == 2 {
			o.again = append(o.again, q.Path)
		}
	}
	o.pages = len(got)
	for of, p := range wanted {
		if got[of] == 0 {
			o.missing = append(o.missing, p)
		}
	}
}

// complain immediately prints the faults of a run.
func (b *bench) complain(r *rival, o *outcome) {
	ok := true
	for _, c := range []struct {
		what  string
		pages []string
	}{{"not fetched", o.missing}, {"fetched, but not expected", o.extra}, {"fetched twice", o.again}} {
		if len(c.pages) > 0 {
			ok = false
			slices.Sort(c.pages)
			fmt.Fprintf(b.out, "  WRONG: %s: %d pages %s: %s\n", r.name, len(c.pages), c.what, strings.Join(c.pages[:min(3, len(c.pages))], " "))
		}
	}
	if !ok {
		b.wrong++
	}
}

func (b *bench) table(rows []*rival) {
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t  CPU s per 1,000\tmin\tmax\tpages/s\tpages\tother requests\tMB down\tMB stored\tpeak MB")
	for _, r := range rows {
		cpu := series(r.runs, (*outcome).perThousand)
		last := r.runs[len(r.runs)-1]
		fmt.Fprintf(w, "%s\t  %.3f\t%.3f\t%.3f\t%.0f\t%d\t%s\t%.1f\t%.1f\t%.0f\n", r.name, cost.Median(cpu), slices.Min(cpu), slices.Max(cpu),
			cost.Median(series(r.runs, func(o *outcome) float64 { return float64(o.pages) / o.wall })), last.pages, others(last),
			float64(last.down)/1e6, float64(last.stored)/1e6, cost.Median(series(r.runs, func(o *outcome) float64 { return o.peak })))
	}
	w.Flush()
}

// others lists the responses other than pages answered in full.
func others(o *outcome) string {
	var list []string
	for status, n := range o.statuses {
		if status == 200 {
			n -= o.pages
		}
		if n != 0 {
			list = append(list, fmt.Sprintf("%d x %d", n, status))
		}
	}
	slices.Sort(list)
	if list == nil {
		return "none"
	}
	return strings.Join(list, ", ")
}

// judge compares a row, in every round, with the best of its peers.
func (b *bench) judge(g bound) {
	peers := slices.DeleteFunc(slices.Clone(g.peers), func(r *rival) bool { return len(r.runs) == 0 })
	if len(g.row.runs) == 0 || len(peers) == 0 {
		return
	}
	var ratios []float64
	for round, o := range g.row.runs {
		best := math.Inf(1)
		for _, p := range peers {
			best = min(best, p.runs[round].perThousand())
		}
		ratios = append(ratios, o.perThousand()/best)
	}
	names := make([]string, len(peers))
	for i, p := range peers {
		names[i] = p.name
	}
	b.goals.AtMost(g.limit, cost.Median(ratios), "%s: CPU / that of %s in the same round (%.2f to %.2f, median of %d)",
		g.row.name, strings.Join(names, " or "), slices.Min(ratios), slices.Max(ratios), len(ratios))
}

func series(runs []*outcome, of func(*outcome) float64) []float64 {
	var list []float64
	for _, o := range runs {
		list = append(list, of(o))
	}
	return list
}

// tail returns the end of a program's output.
func tail(s string) string { return s[max(0, len(s)-2000):] }

func cpuTime(p *os.ProcessState) float64 { return (p.UserTime() + p.SystemTime()).Seconds() }
