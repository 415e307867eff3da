package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/bench/internal/program"
)

// A result is the cost of announcing changes in one way, from the first change until the copy had the last one.
type result struct {
	way
	bytes           int64
	requests        int
	server, crawler time.Duration // processor time
	fresh, fair     float64       // shares of pages and time: right, and right except for minor changes
}

// measure runs one way.
func measure(ctx context.Context, dir string, y way, w *workload, o options) (r result, err error) {
	r.way = y
	dir, err = os.MkdirTemp(dir, "")
	if err != nil {
		return r, err
	}
	root, into := filepath.Join(dir, "site"), filepath.Join(dir, "copy")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.MkdirAll(into, 0o755), w.lay(root)); err != nil {
		return r, err
	}
	wire, err := newWire()
	if err != nil {
		return r, err
	}
	defer wire.close()
	base := "http://" + wire.ln.Addr().String() + "/"
	sidecar, err := free()
	if err != nil {
		return r, err
	}
	site := nginx.Site{Root: root}
	if y.poll == nil {
		site.Sidecar = sidecar
	}
	server, err := nginx.Start(ctx, dir, site)
	if err != nil {
		return r, err
	}
	defer server.Close()
	go wire.serve(strings.TrimSuffix(strings.TrimPrefix(server.Bases[0], "http://"), "/"))

	serving := []int{server.PID()}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	waiting, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	var crawler *program.Program
	if y.poll != nil {
		if crawler, err = w.poller(ctx, base, into, y.poll); err != nil {
			return r, err
		}
	} else {
		callers := filepath.Join(dir, "callers")
		if err := os.WriteFile(callers, []byte("bench "+token+" agents\n"), 0o600); err != nil {
			return r, err
		}
		args := append([]string{"--docroot", root, "--base", base, "--state", filepath.Join(dir, "state"), "--listen", sidecar,
			"--preset", "high", "--serve-pages", "--no-self-check", "--callers", callers}, "--log-level", "warn")
		notifier, err := program.Start(ctx, nil, filepath.Join(filepath.Dir(dir), "notifier"), args...)
		if err != nil {
			return r, err
		}
		defer notifier.End()
		defer sayTail(o, notifier)
		serving = append(serving, notifier.PID())
		if err := program.Until(waiting, "the manifest", func() bool { return program.Get(base+"robots.rdf") == nil }, notifier); err != nil {
			return r, err
		}
		args = append([]string{"follow", base, "--into", into}, y.follow...)
		if y.agent {
			args = append(args, "--token", token, "--program", filepath.Join(filepath.Dir(dir), agentFile))
		}
		if y.nobody {
			crawler = notifier // its status is not requested
		} else if crawler, err = program.Start(ctx, nil, filepath.Join(filepath.Dir(dir), "crawler"), args...); err != nil {
			return r, err
		}
	}
	c := newCopyState(w, into)
	if y.nobody {
		r.server, err = c.alone(ctx, root, crawler, serving, o)
		return r, err
	}
	defer crawler.End()
	defer sayTail(o, crawler)
	if err := program.Until(waiting, "the copy", func() bool { c.look(time.Now()); return c.stale() == 0 }, crawler); err != nil {
		return r, err
	}
	settle(ctx, o) // for what follows a first copy, such as opening a stream
	if _, err := server.Requests(); err != nil {
		return r, err
	}
	bytes, served, crawled := wire.bytes.Load(), cpu(serving...), cpu(crawler.PID())
	if err := c.play(ctx, root, crawler, o); err != nil {
		return r, err
	}
	r.bytes, r.server, r.crawler = wire.bytes.Load()-bytes, cpu(serving...)-served, cpu(crawler.PID())-crawled
	list, err := server.Requests()
	r.requests = len(list)
	r.fresh, r.fair = c.shares()
	return r, err
}

// alone returns the processor time of a site without subscribers.
func (c *copyState) alone(ctx context.Context, root string, notifier *program.Program, serving []int, o options) (time.Duration, error) {
	settle(ctx, o)
	served := cpu(serving...)
	err := c.play(ctx, root, notifier, o)
	return cpu(serving...) - served, err
}

const (
	token     = "a-token-of-the-measurement"
	agentFile = "minor.wasm"
)

// buildAgent builds the agent that the crawler sends.
func buildAgent(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-ldflags", "-s -w", "-o", filepath.Join(dir, agentFile),
		"github.com/parleyweb/parley/examples/agents/minor")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build agent: %w\n%s", err, msg)
	}
	return nil
}

func sayTail(o options, p *program.Program) {
	if o.show {
		fmt.Fprintf(os.Stderr, "%s:\n%s\n", p.Name, p.Tail())
	}
}

// settle waits for a period and a second.
func settle(ctx context.Context, o options) {
	select {
	case <-ctx.Done():
	case <-time.After(o.period + time.Second):
	}
}

func (w *workload) poller(ctx context.Context, base, into string, args []string) (*program.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	names := filepath.Join(into, ".names")
	if err := os.WriteFile(names, []byte(strings.Join(w.pages, "\n")), 0o644); err != nil {
		return nil, err
	}
	return program.Start(ctx, nil, self, append([]string{"poll", "-base", base, "-into", into, "-names", names}, args...)...)
}

func free() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// cpu returns the processor time of processes and their children so far. A child that has ended is not
// counted any more.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil {
			continue
		}
		for _, t := range tasks {
			if stat, err := os.ReadFile(filepath.Join(t, "schedstat")); err == nil {
				sum += firstNumber(stat)
			}
			list, _ := os.ReadFile(filepath.Join(t, "children")) // not every kernel has it
			for child := range strings.FieldsSeq(string(list)) {
				if n, err := strconv.Atoi(child); err == nil {
					sum += cpu(n)
				}
			}
		}
	}
	return sum
}

func firstNumber(text []byte) time.Duration {
	var n int64
	fmt.Sscan(string(text), &n)
	return time.Duration(n)
}

// A copyState compares a copy with the site.
type copyState struct {
	w     *workload
	into  string
	at    []version // current versions on the site
	held  []held    // versions in the copy
	since time.Time
	wrong [2]time.Duration // sums over pages: not right; not right except for minor changes
	last  time.Time
}

type held struct {
	version
	ok   bool
	stat os.FileInfo
}

func newCopyState(w *workload, into string) *copyState {
	return &copyState{w: w, into: into, at: make([]version, len(w.pages)), held: make([]held, len(w.pages))}
}

// look checks the wrong pages of the copy, and adds up how long they were wrong.
func (c *copyState) look(now time.Time) {
	for i := range c.held {
		h := &c.held[i]
		if h.ok && h.version == c.at[i] {
			continue
		}
		if !c.last.IsZero() {
			c.wrong[0] += now.Sub(c.last)
			if !h.ok || h.major != c.at[i].major {
				c.wrong[1] += now.Sub(c.last)
			}
		}
		file := filepath.Join(c.into, c.w.pages[i])
		st, err := os.Stat(file)
		if err != nil || h.stat != nil && os.SameFile(st, h.stat) && st.ModTime().Equal(h.stat.ModTime()) && st.Size() == h.stat.Size() {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if v, ok := c.w.versions[i][sha256.Sum256(text)]; ok {
			h.version, h.ok, h.stat = v, true, st
		}
	}
	c.last = now
}

// stale returns the number of wrong pages.
func (c *copyState) stale() (n int) {
	for i, h := range c.held {
		if !h.ok || h.version != c.at[i] {
			n++
		}
	}
	return n
}

// play makes the changes, and then waits for a period and a second, so that a way that polls seldom polls
// once more.
func (c *copyState) play(ctx context.Context, root string, crawler *program.Program, o options) error {
	c.since, c.wrong = time.Now(), [2]time.Duration{}
	c.last = c.since
	end := c.since.Add(o.last + o.period + time.Second)
	steps := c.w.steps
	for now := time.Now(); now.Before(end); now = time.Now() {
		if crawler.Ended() {
			return fmt.Errorf("crawler exited: %w\n%s", crawler.Err(), crawler.Tail())
		}
		for len(steps) > 0 && now.Sub(c.since) >= steps[0].after {
			s := steps[0]
			steps = steps[1:]
			if err := c.w.write(root, s); err != nil {
				return err
			}
			c.at[s.page] = c.w.versions[s.page][sha256.Sum256(s.text)]
		}
		c.look(now)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (c *copyState) shares() (fresh, fair float64) {
	all := float64(c.last.Sub(c.since)) * float64(len(c.held))
	return 1 - float64(c.wrong[0])/all, 1 - float64(c.wrong[1])/all
}
