// Latency measures how long a saved page takes to be fresh in a crawler's
// mirror: the real notifier and the real crawler as processes on loopback, a
// docroot copied from --docroot, one edit at a time.
//
//	go run ./bench/latency [--docroot /usr/share/doc/git-doc] [--edits 1000]
//
// Beside it, in the same run and between the edits, it measures the floor
// under all of it: write a page of the same size, fsync, rename, fsync the
// folder. A save is acknowledged by two durable transactions and one durable
// file, so no less than three floors can be hoped for.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/front"
)

func main() {
	docroot := flag.String("docroot", "/usr/share/doc/git-doc", "site to copy and edit")
	edits := flag.Int("edits", 1000, "how many edits")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *docroot, *edits); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, docroot string, edits int) (err error) {
	tmp, err := os.MkdirTemp("", "parley-latency-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	root, mirror := filepath.Join(tmp, "docroot"), filepath.Join(tmp, "mirror")
	if err := os.CopyFS(root, os.DirFS(docroot)); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", tmp+string(filepath.Separator),
		"github.com/parleyweb/parley/cmd/notifier", "github.com/parleyweb/parley/cmd/crawler")
	if msg, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, msg)
	}
	web, err := front.Serve(root)
	if err != nil {
		return err
	}
	defer web.Close()

	var logs bytes.Buffer
	program := func(name string, args ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(tmp, name), args...)
		cmd.Stderr = &logs
		return cmd, cmd.Start()
	}
	began := time.Now()
	notifier, err := program("notifier", "--docroot", root, "--base", web.Base, "--listen", web.Sidecar, "--state", filepath.Join(tmp, "state.db"))
	if err != nil {
		return err
	}
	defer end(notifier)
	var pages []string
	if err := until(ctx, func() bool { pages, err = web.Pages(ctx); return err == nil }); err != nil {
		return fmt.Errorf("%w: %s", err, logs.String())
	}
	described := time.Since(began)
	began = time.Now()
	crawler, err := program("crawler", "follow", web.Base, "--into", mirror)
	if err != nil {
		return err
	}
	defer end(crawler)
	if err := until(ctx, func() bool { return web.Crawler().Requests >= len(pages) && same(root, mirror, pages[len(pages)-1]) }); err != nil {
		return fmt.Errorf("%w: %s", err, logs.String())
	}
	if err := until(ctx, func() bool {
		return !slices.ContainsFunc(pages, func(p string) bool { return !same(root, mirror, p) })
	}); err != nil {
		return fmt.Errorf("%w: %s", err, logs.String())
	}
	fmt.Printf("%s: %d pages described in %v, copied in %v\n", docroot, len(pages), described.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))

	before := web.Crawler()
	var fresh, floor []time.Duration
	for i := range edits {
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
				return fmt.Errorf("edit %d of %s did not arrive: %s", i, p, logs.String())
			}
			time.Sleep(200 * time.Microsecond)
		}
		fresh = append(fresh, time.Since(saved))

		began := time.Now()
		if err := save(filepath.Join(tmp, "floor"), content, true); err != nil {
			return err
		}
		floor = append(floor, time.Since(began))
	}
	cost := web.Crawler().Sub(before)
	end(crawler)
	spent := crawler.ProcessState
	fmt.Printf("%d edits, %d requests for pages; the crawler took %v of CPU in all\n", edits, cost.Requests, (spent.UserTime() + spent.SystemTime()).Round(10*time.Millisecond))
	fmt.Printf("save to fresh copy  %s\n", quantiles(fresh))
	fmt.Printf("floor: one fsync    %s\n", quantiles(floor))
	return nil
}

// save writes a page as most editors do: beside it, then renamed.
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

func until(ctx context.Context, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	for !cond() {
		select {
		case <-ctx.Done():
			return errors.New("waited in vain")
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func end(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	cmd.Process.Kill()
	cmd.Wait() // its error is that it was killed
}

func quantiles(d []time.Duration) string {
	slices.Sort(d)
	at := func(q float64) time.Duration {
		return d[min(len(d)-1, int(q*float64(len(d))))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v  p90 %v  p99 %v  max %v", at(.5), at(.9), at(.99), at(1))
}
