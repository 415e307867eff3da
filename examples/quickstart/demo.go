package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/parleyweb/parley/internal/front"
)

// A demo is a site, its notifier, and a crawler that follows it.
type demo struct {
	tmp, root, mirror, state string
	out                      io.Writer
	web                      *front.Front
	pages                    []string // paths below the docroot, the last segment included
	notifier, crawler        *exec.Cmd
	logs                     bytes.Buffer
}

// patience is the time after which a step has failed. The first copy of a big docroot takes longest.
const patience = 5 * time.Minute

func (d *demo) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return exec.CommandContext(ctx, filepath.Join(d.tmp, name), args...)
}

// start serves the site, starts the notifier and waits for its first manifest.
func (d *demo) start(ctx context.Context) error {
	var err error
	if d.web, err = front.Serve(d.root); err != nil {
		return err
	}
	d.state = filepath.Join(d.tmp, "notifier.db")
	d.notifier = d.command(ctx, "notifier", "--docroot", d.root, "--base", d.web.Base,
		"--listen", d.web.Sidecar, "--state", d.state)
	d.notifier.Stderr = &d.logs
	if err := d.notifier.Start(); err != nil {
		return err
	}
	return d.until(ctx, func() bool {
		d.pages, err = d.web.Pages(ctx)
		return err == nil
	})
}

func (d *demo) startCrawler(ctx context.Context) error {
	d.crawler = d.command(ctx, "crawler", "follow", d.web.Base, "--into", d.mirror)
	d.crawler.Stderr = &d.logs
	return d.crawler.Start()
}

func (d *demo) killCrawler() error {
	if err := d.crawler.Process.Kill(); err != nil {
		return err
	}
	d.crawler.Wait() // the error only says that the crawler was killed
	d.crawler = nil
	return nil
}

func (d *demo) close() error {
	if d.crawler != nil {
		d.crawler.Process.Kill()
		d.crawler.Wait()
	}
	if d.notifier != nil && d.notifier.Process != nil {
		d.notifier.Process.Kill()
		d.notifier.Wait()
	}
	if d.web != nil {
		return d.web.Close()
	}
	return nil
}

// step does something, waits until the mirror is fresh, and prints the cost.
func (d *demo) step(ctx context.Context, what string, do func() error, fresh func() bool) error {
	before, began := d.web.Crawler(), time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := d.until(ctx, fresh); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	took, cost := time.Since(began), d.web.Crawler().Sub(before)
	blind, err := d.web.AskAgain(ctx, d.pages)
	if err != nil {
		return fmt.Errorf("%s: fetch every page again: %w", what, err)
	}
	fmt.Fprintf(d.out, "%-44s %9s %9d %10s   %d requests, %s\n", clip(what, 44), round(took),
		cost.Requests, size(cost.Bytes), blind.Requests, size(blind.Bytes))
	return nil
}

// until waits for a condition; on a timeout it returns the logs of the programs.
func (d *demo) until(ctx context.Context, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !cond() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %w\n%s", ctx.Err(), d.logs.String())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (d *demo) in(dir, page string) string { return filepath.Join(dir, filepath.FromSlash(page)) }

// allFresh reports whether every page in the mirror equals the one in the docroot.
func (d *demo) allFresh() bool {
	for _, p := range d.pages {
		if !sameFile(d.in(d.root, p), d.in(d.mirror, p)) {
			return false
		}
	}
	return true
}

func (d *demo) append(page, what string) error {
	f, err := os.OpenFile(d.in(d.root, page), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "<!-- %s at %s -->\n", what, time.Now().Format(time.RFC3339Nano))
	return cmp.Or(err, f.Close())
}

func (d *demo) rewrite(page string) error {
	name := d.in(d.root, page)
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".tmp", b, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	if err != nil || x.Size() != y.Size() {
		return false
	}
	p, err := os.ReadFile(a)
	if err != nil {
		return false
	}
	q, err := os.ReadFile(b)
	return err == nil && bytes.Equal(p, q)
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n+3:]
}

func round(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func size(n int64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d B", n)
	}
	if n < 10_000_000 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
