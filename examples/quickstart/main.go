// Quickstart shows how a crawler's copy of a site follows every edit.
//
//	go run ./examples/quickstart [DOCROOT]
//
// It copies a site (a small one of its own, or DOCROOT, which is never written to) to a temporary place,
// serves it, starts the real notifier and the real crawler beside it, and then edits the copy. For each step
// it shows how long the crawler's mirror took to be fresh, the requests and bytes that this needed, and what
// fetching every page again would have cost instead.
//
// With --keep it goes on running after the last step, so that you can edit files yourself.
package main

import (
	"cmp"
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

//go:embed all:site
var site embed.FS

func main() {
	keep := flag.Bool("keep", false, "keep running after the last step, until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *keep, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, docroot string, keep bool, out io.Writer) (err error) {
	tmp, err := os.MkdirTemp("", "parley-quickstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	var from fs.FS
	if docroot == "" {
		docroot = "the example's own site"
		from, err = fs.Sub(site, "site")
		if err != nil {
			return err
		}
	} else {
		from = os.DirFS(docroot)
	}
	d := &demo{tmp: tmp, out: out, root: filepath.Join(tmp, "docroot"), mirror: filepath.Join(tmp, "mirror")}
	if err := os.CopyFS(d.root, from); err != nil {
		return fmt.Errorf("copy %s: %w", docroot, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", tmp+string(filepath.Separator),
		"github.com/parleyweb/parley/cmd/rdfgen", "github.com/parleyweb/parley/cmd/notifier", "github.com/parleyweb/parley/cmd/crawler")
	if msg, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the commands: %w\n%s", err, msg)
	}
	defer func() { err = cmp.Or(err, d.close()) }()
	if err := d.start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "A copy of %s: %d pages at %s\n\n", docroot, len(d.pages), d.web.Base)
	fmt.Fprintf(out, "%-44s %9s %9s %10s   %s\n", "", "fresh in", "requests", "bytes", "cost of fetching every page again")
	for _, step := range []func(context.Context) error{d.sync, d.edit, d.rename, d.rebuild, d.crash} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if keep {
		fmt.Fprintf(out, "\nEdit files below %s and watch the copy below %s. Press Ctrl-C to stop.\n", d.root, d.mirror)
		<-ctx.Done()
	}
	return nil
}

// sync waits for the first copy: each page is found in the manifest and fetched once; no page is parsed.
func (d *demo) sync(ctx context.Context) error {
	return d.step(ctx, "first copy", func() error { return d.startCrawler(ctx) }, d.allFresh)
}

// edit saves one page.
func (d *demo) edit(ctx context.Context) error {
	p := d.pages[len(d.pages)/2]
	return d.step(ctx, "edit "+p, func() error { return d.append(p, "edited") }, d.allFresh)
}

// rename moves one page: the copy moves without a request.
func (d *demo) rename(ctx context.Context) error {
	p := d.pages[len(d.pages)-1]
	to := strings.TrimSuffix(p, filepath.Ext(p)) + "-moved" + filepath.Ext(p)
	return d.step(ctx, "rename "+p, func() error {
		d.pages[len(d.pages)-1] = to
		return os.Rename(d.in(d.root, p), d.in(d.root, to))
	}, func() bool { return !exists(d.in(d.mirror, p)) && d.allFresh() })
}

// rebuild writes every file anew with the same bytes, as a site generator does. rdfgen asks the running
// notifier to scan all of them.
func (d *demo) rebuild(ctx context.Context) error {
	return d.step(ctx, "rebuild: every file rewritten", func() error {
		for _, p := range d.pages {
			if err := d.rewrite(p); err != nil {
				return err
			}
		}
		out, err := d.command(ctx, "rdfgen", "--docroot", d.root, "--base", d.web.Base, "--state", d.state).CombinedOutput()
		if err != nil {
			return fmt.Errorf("rdfgen: %w: %s", err, out)
		}
		return nil
	}, d.allFresh)
}

// crash kills the crawler, edits while it is gone, and starts it again.
func (d *demo) crash(ctx context.Context) error {
	if err := d.killCrawler(); err != nil {
		return err
	}
	n := min(3, len(d.pages))
	for _, p := range d.pages[:n] {
		if err := d.append(p, "edited while the crawler was dead"); err != nil {
			return err
		}
	}
	time.Sleep(500 * time.Millisecond) // a while without a crawler
	return d.step(ctx, fmt.Sprintf("kill -9, %d edits meanwhile, restart", n), func() error { return d.startCrawler(ctx) }, d.allFresh)
}
