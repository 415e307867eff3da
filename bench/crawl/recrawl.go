package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/bench/internal/nginx"
)

// period is the revisit period of a page on a site without Parley. It is more than the minute that a crawl
// waits for pages to become due before it ends.
const period = 2 * time.Minute

// recrawl crawls a site, changes a share of its pages, and crawls it again: by its manifest, without one, and
// with wget2.
func (b *bench) recrawl(ctx context.Context, s *site, n *nginx.Server, share float64) error {
	type row struct {
		*rival
		manifest bool
		dir      string
		ended    time.Time // the first crawl
	}
	rows := []*row{
		{rival: b.parley("manifest", "warc", "none", "--no-parse"), manifest: true},
		{rival: b.parley("links", "warc", "none", "--policy", "thesis", "--min-period", period.String(), "--threshold", "1e-9")},
		{rival: b.wget2Again()},
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return !b.wanted(r.name) })
	var err error
	defer func() {
		for _, r := range rows {
			os.RemoveAll(r.dir)
		}
	}()
	named, err := b.publish(ctx, s)
	if err != nil {
		return err
	}
	// The manifest is in the docroot only for rows that read it.
	manifest := filepath.Join(s.Path, "robots.rdf")
	hidden := filepath.Join(filepath.Dir(s.Path), "robots.rdf")
	crawl := func(r *row, want []string) (*outcome, error) {
		if r.manifest {
			return b.once(ctx, r.rival, s, n, want, r.dir)
		}
		if err := os.Rename(manifest, hidden); err != nil {
			return nil, err
		}
		o, err := b.once(ctx, r.rival, s, n, want, r.dir)
		return o, errors.Join(err, os.Rename(hidden, manifest))
	}
	for _, r := range rows {
		want := s.Survey.Pages
		if r.manifest {
			want = named
		}
		if r.dir, err = os.MkdirTemp(b.dir, "run-"); err != nil {
			return err
		}
		o, err := crawl(r, want)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		b.complain(r.rival, o)
		r.ended = time.Now()
	}

	// Pages that all rows know, spread over the site.
	var both, changed []string
	inManifest := map[string]bool{}
	for _, p := range named {
		inManifest[s.File(p)] = true
	}
	for _, p := range s.Survey.Pages {
		if inManifest[s.File(p)] {
			both = append(both, p)
		}
	}
	count := max(1, int(share*float64(len(both))))
	for i := range count {
		p := both[i*len(both)/count]
		if _, err := s.Edit(p, fmt.Sprintf("Edit %d.", i)); err != nil {
			return err
		}
		changed = append(changed, p)
	}
	if _, err := b.publish(ctx, s); err != nil {
		return err
	}

	fmt.Fprintf(b.out, "%d pages changed\n", count)
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t  requests\tchanged pages found\tother requests\tKB down\tKB up\tCPU s\tseconds")
	for _, r := range rows {
		if !r.manifest && r.ours != "" {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(r.ended.Add(period))):
			}
		}
		o, err := crawl(r, changed)
		if err != nil {
			return fmt.Errorf("second crawl with %s: %w", r.name, err)
		}
		b.complain(r.rival, o)
		fmt.Fprintf(w, "%s\t  %d\t%d\t%s\t%d\t%d\t%.2f\t%.2f\n", r.name, o.requests(), o.pages-len(o.extra), others(o), o.down/1000, o.up/1000, o.cpu, o.wall)
		if bodies := o.statuses[200] - o.pages; !r.manifest && bodies > 0 {
			b.wrong++
			fmt.Fprintf(b.out, "  WRONG: %s: %d bodies of unchanged pages\n", r.name, bodies)
		}
		if r.manifest {
			w.Flush()
			b.goals.AtMost(1.05, float64(o.requests())/float64(count+1), "%s: requests / (changed pages + 1)", r.name)
		}
	}
	return w.Flush()
}

// wget2Again is wget2 run again on its stored files.
func (b *bench) wget2Again() *rival {
	r := b.wget2(8)
	args := r.args
	r.name = "wget2 -N, 8 connections"
	r.args = func(s *site, dir string) []string {
		a := args(s, dir)
		return append(a[:len(a)-1:len(a)-1], "--timestamping", a[len(a)-1])
	}
	return r
}
