// Sync measures the first copy of a site: the real notifier describes a
// docroot, the real crawler copies it, and both are asked to end.
//
//	go run ./bench/sync DOCROOT [DOCROOT ...]
//
// What robots.txt forbids is not published, and so not copied. It prints times, and the peak memory and CPU of each program, and fails
// unless the mirror is byte-identical to the site.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/front"
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, docroot := range flag.Args() {
		if err := run(ctx, docroot); err != nil {
			fmt.Fprintln(os.Stderr, "sync:", err)
			os.Exit(1)
		}
	}
}

func run(ctx context.Context, docroot string) error {
	tmp, err := os.MkdirTemp("", "parley-sync-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	build := exec.CommandContext(ctx, "go", "build", "-o", tmp+string(filepath.Separator),
		"github.com/parleyweb/parley/cmd/notifier", "github.com/parleyweb/parley/cmd/crawler")
	if msg, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, msg)
	}
	web, err := front.Serve(docroot)
	if err != nil {
		return err
	}
	defer web.Close()
	mirror := filepath.Join(tmp, "mirror")

	began := time.Now()
	notifier, err := start(ctx, filepath.Join(tmp, "notifier"), "--docroot", docroot, "--base", web.Base,
		"--listen", web.Sidecar, "--state", filepath.Join(tmp, "state.db"))
	if err != nil {
		return err
	}
	defer notifier.end()
	var pages []string
	if err := until(ctx, notifier, func() bool { pages, err = web.Pages(ctx); return err == nil }); err != nil {
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
	crawler, err := start(ctx, filepath.Join(tmp, "crawler"), "follow", web.Base, "--into", mirror)
	if err != nil {
		return err
	}
	defer crawler.end()
	if err := until(ctx, crawler, func() bool { return web.Crawler().Requests >= len(pages) && identical(docroot, mirror, pages) }); err != nil {
		return fmt.Errorf("%w; asked for %d of %d pages", err, web.Crawler().Requests, len(pages))
	}
	copied := time.Since(began)
	cost := web.Crawler()
	fmt.Printf("%s: %d pages, %d MB; described in %.1f s, copied in %.1f s with %d requests for pages; notifier %v; crawler %v\n",
		docroot, len(pages), size>>20, described.Seconds(), copied.Seconds(), cost.Requests, notifier.end(), crawler.end())
	return nil
}

// A program is one of ours, running.
type program struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	done bool
}

func start(ctx context.Context, name string, args ...string) (*program, error) {
	p := &program{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = &p.said
	return p, p.cmd.Start()
}

// A usage is what a program took: peak memory as Linux tells it, pages of
// mapped files included.
type usage struct {
	peak      int // kB
	user, sys time.Duration
}

func (u usage) String() string {
	return fmt.Sprintf("peak memory %d MB, CPU %.1f + %.1f s", u.peak>>10, u.user.Seconds(), u.sys.Seconds())
}

// end asks the program to end, waits, and returns what it took.
func (p *program) end() (u usage) {
	if p.done {
		return u
	}
	p.done = true
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
		fmt.Sscan(rest, &u.peak)
	}
	p.cmd.Process.Signal(os.Interrupt)
	p.cmd.Wait()
	if s := p.cmd.ProcessState; s != nil {
		u.user, u.sys = s.UserTime(), s.SystemTime()
	}
	return u
}

func until(ctx context.Context, p *program, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 9*time.Minute)
	defer cancel()
	for !cond() {
		select {
		case <-ctx.Done():
			p.end()
			return fmt.Errorf("waited in vain: %s", p.said.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
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
