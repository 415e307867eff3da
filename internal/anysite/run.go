//go:build linux

package anysite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parleyweb/parley/internal/anysite/judge"
	"github.com/parleyweb/parley/internal/anysite/record"
)

// crawlerName is the name of the only crawler of a world.
const crawlerName = "crawler-1"

// A Runner executes plans.
type Runner struct {
	Programs string // directory of crawler, notifier and rdfgen
	Tables   Tables
	Log      func(format string, args ...any) // nil is silent

	// Most limits how long the end of a history is waited for. Zero waits as long as it may take; with less,
	// the run says nothing about liveness.
	Most time.Duration
}

// Run executes a plan in a directory and a network of its own, and returns the recording. An error means that
// the run itself failed.
func (r *Runner) Run(ctx context.Context, p *Plan) (*record.Recording, error) {
	dir, err := os.MkdirTemp("", "anysite")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // nginx reads files as another user
		return nil, err
	}
	w := &world{plan: p, dir: dir, programs: r.Programs, tables: r.Tables, log: r.Log, most: r.Most}
	defer w.end()
	if err := w.occupy(); err != nil {
		return nil, err
	}
	if w.certs, err = newCertificates(filepath.Join(dir, "ca.pem")); err != nil {
		return nil, err
	}
	if err := w.build(ctx); err != nil {
		return nil, fmt.Errorf("build the world: %w", err)
	}
	if err := w.mount(); err != nil {
		return nil, err
	}
	w.visitor = w.newVisitor()
	err = w.history(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	return &w.rec, errors.Join(err, w.bad)
}

func (w *world) logf(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// mount gives the crawler a small file system of its own, if the plan has a full disk. Where mounting is not
// allowed, the disk is never full.
func (w *world) mount() error {
	w.store = filepath.Join(w.dir, "store")
	if err := os.MkdirAll(w.store, 0o755); err != nil {
		return err
	}
	if !slices.ContainsFunc(w.plan.Steps, func(s Step) bool { return s.Kind == "disk-full" }) {
		return nil
	}
	if err := syscall.Mount("tmpfs", w.store, "tmpfs", 0, "size=64m"); err != nil {
		w.logf("cannot mount a small disk, so none is filled: %v", err)
		return nil
	}
	w.disk = w.store
	return nil
}

// contact identifies the crawler of this world to its front servers: others may run on the same machine.
func (w *world) contact() string { return fmt.Sprintf("%s.%d.%d", crawlerName, os.Getpid(), w.network) }

// into returns the directory of the crawler's copy.
func (w *world) into() string { return filepath.Join(w.store, "copy") }

// history starts the programs, executes the steps in order, and waits until the copies are right, or should
// be.
func (w *world) history(ctx context.Context) error {
	w.declare()
	for _, s := range w.sites {
		if p := w.procs["notifier-"+s.Name]; p != nil {
			if err := p.start(); err != nil {
				return err
			}
			if !p.says("scanned", 5*time.Second) && s.Front != "bad-cert" {
				return fmt.Errorf("%s does not scan: %s", p.name, strings.Join(p.lines, "; "))
			}
		}
		w.cron(ctx, s)
	}
	w.rec.Steps = append(w.rec.Steps, record.Step{At: time.Now(), Done: time.Now(), Kind: "start", Failure: w.plan.Chosen["front"] == "bad-cert"})
	w.visitor.look()
	c := w.procs[crawlerName]
	again := w.plan.Chosen["crawler"] == "crawl-again"
	once := w.plan.Chosen["crawler"] == "crawl"
	later := w.plan.Chosen["begins"] == "later" && len(w.plan.Steps) > 1 || once
	if !later {
		if err := c.start(); err != nil {
			return err
		}
	}
	if again && !later {
		c.wait(5 * time.Second)
	}
	if w.plan.Has("settled") && c.done != nil {
		w.settle(ctx, c, 4*time.Second)
	}
	for i, s := range w.plan.Steps {
		if later && (i == len(w.plan.Steps)/2 && !once || once && strings.HasSuffix(s.Kind, "-crawler")) && c.done == nil {
			if err := c.start(); err != nil {
				return err
			}
		}
		w.logf("%s", s)
		if err := w.step(ctx, s); err != nil {
			return err
		}
	}
	if c.kind == "crawl" {
		if c.done != nil {
			c.wait(20 * time.Second)
		}
		time.Sleep(time.Second) // time for a notifier to look and write, and for a timer to fire
		for range 2 {
			for _, s := range w.sites {
				w.cron(ctx, s)
			}
		}
		if c.running() {
			w.logf("the previous crawl does not end")
		} else if err := c.start(); err != nil {
			return err
		}
	} else if c.done == nil {
		if err := c.start(); err != nil {
			return err
		}
	}
	w.settle(ctx, c, cmp.Or(w.most, longest))
	c.stop()
	last := w.copyOf(ctx, c)
	w.accounts(ctx, c)
	w.mu.Lock()
	w.rec.Copies, w.rec.Ended = []record.Copy{last}, time.Now()
	w.mu.Unlock()
	for _, p := range w.procs {
		p.stop()
	}
	for i, u := range w.rec.Usage {
		if u.Program == crawlerName {
			w.rec.Usage[i].StateSize = sizeOf(w.into())
		}
	}
	return nil
}

// longest limits how long the end of a history is waited for, even if its settings would take longer: such a
// run says nothing about liveness.
const longest = time.Minute

// settle waits until the copy is right twice in a row, until D is over, or for most.
func (w *world) settle(ctx context.Context, c *process, most time.Duration) {
	w.mu.Lock()
	deadline := min(most, judge.Deadline(&w.rec))
	w.mu.Unlock()
	begin, right := time.Now(), 0
	for pause := 150 * time.Millisecond; time.Since(begin) < deadline && right < 2 && ctx.Err() == nil; pause = min(2*pause, time.Second) {
		if c.kind == "crawl" && !c.wait(pause) {
			continue
		}
		time.Sleep(pause)
		for _, s := range w.sites { // the timer continues
			w.cron(ctx, s)
		}
		w.visitor.look()
		copied := w.copyOf(ctx, c)
		w.mu.Lock()
		now := w.rec
		now.Copies, now.Ended = []record.Copy{copied}, time.Now()
		right++
		for _, j := range judge.Liveness(&now) {
			if len(j.Findings) > 0 {
				right = 0
			}
		}
		w.mu.Unlock()
		if c.kind == "crawl" && !c.running() {
			break // nothing more will come
		}
	}
	w.logf("stopped waiting after %v of %v, copies right %d times in a row", time.Since(begin).Round(time.Millisecond), deadline, right)
}

// declare makes the programs of a plan before any of them starts.
func (w *world) declare() {
	c := w.plan.Chosen
	var bases []string
	for _, s := range w.sites {
		bases = append(bases, s.base)
		flags := []string{"--docroot", s.docroot, "--base", s.base, "--hurry", "50ms"}
		if c["clean-urls"] == "yes" {
			flags = append(flags, "--clean-urls")
		}
		if c["types"] == "yes" && s.Name == "a" {
			flags = append(flags, "--include", "**/*.{txt,css,json,zip,md}", "--include", "*.{txt,css,json,zip,md}")
		}
		if c["parts"] != "no" && w.servesParts(s) {
			flags = append(flags, "--parts", c["parts"])
		}
		state := filepath.Join(w.dir, "state-"+s.Name)
		switch {
		case s.Tells == "manifest":
			w.add(&process{name: "rdfgen-" + s.Name, kind: "rdfgen", uses: []string{s.base}, args: append(flags, "--out", filepath.Join(s.docroot, "robots.rdf"), "--state", state)})
		case s.notified():
			flags = append(flags, "--state", state, "--listen", s.door, "--grace", "80ms", "--look-every", "500ms", "--write-every", "50ms", "--log-level", "info")
			switch {
			case s.Tells == "changes":
				flags = append(flags, "--stream=false")
			case s.Tells == "high":
				flags = append(flags, "--preset", "high")
				if s.Name == "a" && c["preset"] == "versions" {
					flags = append(flags, "--archive=false")
				} else if s.Name == "a" && c["preset"] == "archive-only" {
					flags = append(flags, "--pages=false")
				}
			}
			if w.tables.has("notifier", "ask-via") {
				switch c["evidence"] {
				case "via":
					flags = append(flags, "--ask-via", w.proxy.url())
				case "trust":
					flags = append(flags, "--trust-docroot")
				}
			}
			if s.front.kind == "notifier" {
				flags = append(flags, "--serve-pages")
			}
			if c["out"] == "yes" {
				flags = append(flags, "--out", filepath.Join(s.docroot, "robots.rdf"))
			}
			if s.Name == "a" {
				flags = append(flags, written(w.plan.Options["notifier"])...)
			}
			w.add(&process{name: "notifier-" + s.Name, kind: "notifier", uses: []string{s.base}, args: flags})
		}
	}
	again := "300ms" // interval of repeated requests; a crawl that ends does not wait for them
	if w.plan.called() == "crawl" {
		again = "5s"
	}
	p := &process{name: crawlerName, kind: w.plan.called(), uses: bases}
	common := []string{"--into", w.into(), "--contact", w.contact() + "@anysite.test", "--hurry", c["hurry"], "--as", c["as"]}
	switch p.kind {
	case "follow":
		p.uses = bases[:1]
		p.args = append([]string{"follow", bases[0], "--delay", c["wait"], "--poll", "200ms"}, common...)
	default:
		p.args = append(append([]string{p.kind}, bases...), common...)
		p.args = append(p.args, "--wait", c["wait"], "--wait-big", c["wait"], "--store", c["store"], "--allow-private", "--patience", "40ms", "--retry", "100ms", "--dns-retry", "2s",
			"--refused-again", "1s", "--source-again", "500ms", "--robots-every", again, "--manifest-every", "100ms", "--sitemap-every", "300ms", "--feed-every", "300ms",
			"--replan", "100ms", "--resolver", w.names.conn.LocalAddr().String())
		if slices.ContainsFunc(w.tables[p.kind], func(o Option) bool { return o.Name == "per-address" && o.Kind == "string" }) {
			p.args = append(p.args, "--per-address", "200/s,8") // two a second would take minutes
		}
		if c["budget"] != "default" && p.kind == "run" {
			p.args = append(p.args, "--budget", "100000000")
		}
		if c["budget"] == "plenty" && p.kind == "run" {
			least := w.round(c["wait"])
			p.args = append(p.args, "--min-period", least.String(), "--max-period", (least + 450*time.Millisecond).String())
		}
	}
	p.args = append(p.args, written(w.plan.Options["crawler"])...)
	w.add(p)
}

// servesParts reports whether a site can have its manifest in parts: the shipped nginx configuration serves them from the docroot.
func (w *world) servesParts(s *site) bool {
	return s.inDocroot() || !strings.HasPrefix(s.front.kind, "nginx")
}

// round returns an interval in which each page can be visited three times with a wait between two requests: with a
// shorter one, the order of the crawl would decide which pages are never fetched.
func (w *world) round(wait string) time.Duration {
	pages := 0
	for _, s := range w.sites {
		pages += len(s.Pages)
	}
	d, _ := time.ParseDuration(wait)
	return min(time.Duration(3*pages)*max(d, 10*time.Millisecond), 5*time.Second) // without a wait, responses take time too
}

func (w *world) add(p *process) {
	p.w = w
	w.procs[p.name] = p
}

// written returns settings as command-line arguments.
func written(list []Setting) (args []string) {
	for _, s := range list {
		args = append(args, "--"+s.Name+"="+s.Value)
	}
	return args
}

// options returns all options of a program with the values in force.
func (w *world) options(kind string, args []string) map[string]string {
	all := map[string]string{}
	kinds := map[string]string{}
	for _, o := range w.tables[kind] {
		all[o.Name], kinds[o.Name] = o.Default, o.Kind
	}
	set := map[string]bool{}
	for i := 0; i < len(args); i++ {
		name, isOption := strings.CutPrefix(args[i], "--")
		if !isOption {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		switch {
		case given:
		case kinds[name] == "bool":
			value = "true"
		case i+1 < len(args):
			i++
			value = args[i]
		}
		if kinds[name] == "strings" && set[name] {
			value = all[name] + "\n" + value
		}
		all[name], set[name] = value, true
	}
	return all
}

func sizeOf(dir string) (n int64) {
	filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			n += info.Size()
		}
		return nil
	})
	return n
}
