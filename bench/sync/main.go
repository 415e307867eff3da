// Sync measures the first copy of a site: the real notifier describes a docroot, the real crawler copies it,
// and then both are stopped.
//
//	go run ./bench/sync DOCROOT [DOCROOT ...]
//
// Pages that robots.txt forbids are not published, and so not copied. It prints times, and the peak memory
// and CPU of each program, and fails unless the mirror is byte-identical to the site.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/front"
)

func main() {
	program.Main("sync", func(ctx context.Context, docroots []string, out io.Writer) error {
		for _, docroot := range docroots {
			if err := run(ctx, docroot, out); err != nil {
				return err
			}
		}
		return nil
	})
}

func run(ctx context.Context, docroot string, out io.Writer) error {
	tmp, err := os.MkdirTemp("", "parley-sync-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := program.Build(ctx, tmp, "notifier", "crawler"); err != nil {
		return err
	}
	web, err := front.Serve(docroot)
	if err != nil {
		return err
	}
	defer web.Close()
	mirror := filepath.Join(tmp, "mirror")

	waiting, cancel := context.WithTimeout(ctx, 9*time.Minute)
	defer cancel()
	began := time.Now()
	notifier, err := program.Start(ctx, nil, filepath.Join(tmp, "notifier"), "--docroot", docroot, "--base", web.Base,
		"--listen", web.Sidecar, "--state", filepath.Join(tmp, "state.db"))
	if err != nil {
		return err
	}
	defer notifier.End()
	var pages []string
	if err := program.Until(waiting, "the manifest", func() bool { pages, err = web.Pages(ctx); return err == nil }, notifier); err != nil {
		return err
	}
	described := time.Since(began)
	size := int64(0)
	for _, p := range pages {
		st, err := os.Stat(filepath.Join(docroot, p))
		if err != nil {
			return err
		}
		size += st.Size()
	}

	began = time.Now()
	crawler, err := program.Start(ctx, nil, filepath.Join(tmp, "crawler"), "follow", web.Base, "--into", mirror)
	if err != nil {
		return err
	}
	defer crawler.End()
	if err := program.Until(waiting, "the copy", func() bool {
		return identical(docroot, mirror, pages[len(pages)-1:]) && identical(docroot, mirror, pages)
	}, notifier, crawler); err != nil {
		return fmt.Errorf("%w; fetched %d of %d pages", err, web.Crawler().Requests, len(pages))
	}
	copied := time.Since(began)
	cost := web.Crawler()
	fmt.Fprintf(out, "%s: %d pages, %d MB; described in %.1f s, copied in %.1f s with %d requests for pages; notifier %s; crawler %s\n",
		docroot, len(pages), size>>20, described.Seconds(), copied.Seconds(), cost.Requests, end(notifier), end(crawler))
	return nil
}

// end stops a program, waits, and returns its costs.
func end(p *program.Program) string {
	peak := cost.Resident(p.PID())
	p.End()
	user, system := p.Used()
	return fmt.Sprintf("peak memory %d MB, CPU %.1f + %.1f s", peak>>20, user.Seconds(), system.Seconds())
}

func identical(root, mirror string, pages []string) bool {
	for _, p := range pages {
		a, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			return false
		}
		b, err := os.ReadFile(filepath.Join(mirror, p))
		if err != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}
