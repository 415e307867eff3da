package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// flat measures the cost of one edit among the files of a single directory, from the file event to the change in the
// journal, one edit after the other. No manifest is written: finding a change is what depends on the directory.
func flat(ctx context.Context, out io.Writer, tmp, dir string, files, edits int) (err error) {
	page := func(i int) string { return filepath.Join(dir, fmt.Sprintf("page-%d.html", i)) }
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range files {
		if err := os.WriteFile(page(i), fmt.Appendf(nil, "<!doctype html><title>%d</title>", i), 0o644); err != nil {
			return err
		}
	}
	journal, err := server.OpenJournal(ctx, filepath.Join(tmp, "flat.db"), server.JournalOptions{Base: base})
	if err != nil {
		return err
	}
	defer journal.Close()
	site := &server.Site{Docroot: dir, Base: base, Journal: journal}
	publisher := &server.Publisher{Inventory: site, Journal: journal}

	ctx, stop := context.WithCancel(ctx)
	dirty, watched := make(chan []inventory.Scope, 16), make(chan error, 1)
	go func() {
		watched <- site.Watch(ctx, func(scopes []inventory.Scope) {
			select {
			case dirty <- scopes:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { stop(); err = errors.Join(err, <-watched) }()
	next := func() ([]inventory.Scope, error) {
		select {
		case scopes := <-dirty:
			return scopes, nil
		case <-time.After(time.Minute):
			return nil, errors.New("no file event within a minute")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if _, err := next(); err != nil { // everything is dirty at the beginning
		return err
	}
	c, err := cost.Of(func() error { _, err := publisher.Scan(ctx, nil); return err })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d files in one directory\n%-12s %s\n", files, "first scan", c)
	c, err = cost.Of(func() error {
		for i := range edits {
			if err := os.WriteFile(page(i*7919%files), fmt.Appendf(nil, "<!doctype html><title>edit %d</title>", i), 0o644); err != nil {
				return err
			}
			scopes, err := next()
			if err != nil {
				return err
			}
			if r, err := publisher.Scan(ctx, scopes); err != nil || len(scopes) != 1 || r.Changed != 1 {
				return fmt.Errorf("edit %d: a scan of %v found %v: %w", i, scopes, r, err)
			}
		}
		return nil
	})
	each := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(edits) }
	fmt.Fprintf(out, "%-12s %6.2f ms wall %6.2f ms cpu, mean of %d\n", "an edit", each(c.Wall), each(c.CPU), edits)
	if err != nil {
		return err
	}
	goals := goal.Sheet{Out: out}
	goals.AtMost(2, each(c.CPU), "ms of CPU for an edit in a directory of %d files", files)
	return goals.Err()
}
