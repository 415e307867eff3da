// Replay compares the simulator's predictions with the real crawler. It applies a trace of real changes to
// files behind a real nginx, a day of it in a few seconds, on three sites: one with the notifier, one with
// only a manifest, and one without either. Three "crawler run" with the same budget keep copies of them.
//
//	PARLEY_DATA=... go run ./bench/replay [-trace endoflife-date] [-pages 200] [-days 240] [-day 2s] [-budget .05]
//
// For each site it prints the share of pages and time in which the crawler's copy was right, in the second
// half of the days, the prediction of internal/sim for the same changes, the same budget and the same
// knowledge, and the number of requests. If share and prediction differ by more than -within points, the exit
// code is 1.
//
// All pages have the same importance, since a silent site publishes none.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/sim"
	"github.com/parleyweb/parley/protocol"
)

func main() { program.Main("replay", run) }

type options struct {
	trace  string
	pages  int
	days   float64
	day    time.Duration
	budget float64 // requests per page and day
	within float64 // percentage points
	seed   uint64
	show   bool
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.StringVar(&o.trace, "trace", "endoflife-date", "recorded trace whose changes are replayed")
	flags.IntVar(&o.pages, "pages", 200, "number of its pages, drawn at random")
	flags.Float64Var(&o.days, "days", 240, "number of days, the last ones of the trace")
	flags.DurationVar(&o.day, "day", 2*time.Second, "real duration of each day")
	flags.Float64Var(&o.budget, "budget", .05, "request budget per page and day")
	flags.Float64Var(&o.within, "within", 3, "allowed error of the prediction, in percentage points of freshness")
	flags.Uint64Var(&o.seed, "seed", 1, "seed for drawing the pages")
	flags.BoolVar(&o.show, "show", false, "print the crawlers' status at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	world, err := sim.TraceWeb{Dir: filepath.Join(os.Getenv("PARLEY_DATA"), "changes"), Names: []string{o.trace}, Days: o.days}.World()
	if err != nil {
		return err
	}
	draw(world, o)
	dir, err := os.MkdirTemp("", "parley-replay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := program.Build(ctx, dir, "notifier", "crawler"); err != nil {
		return err
	}
	r := &replay{options: o, dir: dir, world: world}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.play(ctx); err != nil {
		return err
	}
	return r.report(ctx, out)
}

// draw selects some of a world's pages, and gives all the same importance.
func draw(w *sim.World, o options) {
	rng := rand.New(rand.NewPCG(o.seed, 2))
	rng.Shuffle(len(w.Pages), func(i, j int) { w.Pages[i], w.Pages[j] = w.Pages[j], w.Pages[i] })
	w.Pages = w.Pages[:min(o.pages, len(w.Pages))]
	for i := range w.Pages {
		w.Pages[i].Weight = 1
	}
	w.Normalize()
}

type replay struct {
	options
	dir      string
	world    *sim.World
	sites    []*site
	server   *nginx.Server
	programs []*program.Program
	began    time.Time
	mu       sync.Mutex // guards the sites' pages
}

// A site is one of the three.
type site struct {
	name  string
	speak sim.Site
	flags []string
	root  string
	base  string
	pages []page
}

// A page has its versions on the site, and the version that the crawler stores.
type page struct {
	versions []protocol.Digest
	held     int // the newest version that the crawler has stored; -1: none
	wrong    time.Time
	stale    time.Duration // in the second half
}

func (s *site) file(i int) string { return filepath.Join(s.root, fmt.Sprintf("p%d.html", i)) }

// write writes a new version of a page.
func (s *site) write(i int) error {
	p := &s.pages[i]
	v := len(p.versions)
	body := fmt.Sprintf("<!DOCTYPE html><title>Page %d</title><body><p>Version %d of page %d.%s</p></body>\n", i, v, i, strings.Repeat(" More.", v%97))
	name := s.file(i)
	if err := os.WriteFile(name+".new", []byte(body), 0o644); err != nil {
		return err
	}
	p.versions = append(p.versions, sha256.Sum256([]byte(body)))
	return os.Rename(name+".new", name)
}

func (r *replay) open(ctx context.Context) error {
	r.sites = []*site{
		{name: "push", speak: sim.Site{Push: true, Recall: 1, Precision: 1}},
		{name: "manifest", speak: sim.Site{Manifest: true, Recall: 1, Precision: 1}, flags: []string{"--no-streams"}},
		{name: "neither", flags: []string{"--no-manifests"}},
	}
	var hosts []nginx.Site
	var sidecars []string
	for i, s := range r.sites {
		s.root, s.pages = filepath.Join(r.dir, fmt.Sprint("site-", i)), make([]page, len(r.world.Pages))
		if err := os.Mkdir(s.root, 0o755); err != nil {
			return err
		}
		var index strings.Builder
		index.WriteString("<!DOCTYPE html><title>All pages</title><body>")
		for j := range s.pages {
			s.pages[j].held = -1
			if err := s.write(j); err != nil {
				return err
			}
			// Earlier changes are not replayed: to the crawler, the page has been unchanged for a while.
			old := time.Now().Add(-time.Duration(r.days / 2 * float64(r.day)))
			if err := os.Chtimes(s.file(j), old, old); err != nil {
				return err
			}
			fmt.Fprintf(&index, "<a href=p%d.html>%d</a>\n", j, j)
		}
		if err := os.WriteFile(filepath.Join(s.root, "index.html"), []byte(index.String()), 0o644); err != nil {
			return err
		}
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		sidecars = append(sidecars, free.Addr().String())
		free.Close()
		host := nginx.Site{Root: s.root}
		if s.speak.Push {
			host.Sidecar = sidecars[i]
		}
		hosts = append(hosts, host)
	}
	var err error
	if r.server, err = nginx.Start(ctx, r.dir, hosts...); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	each := r.budget * float64(24*time.Hour) / float64(r.day) // of a page in a real day
	for i, s := range r.sites {
		s.base = r.server.Bases[i]
		if s.speak.Push || s.speak.Manifest {
			if err := r.start(ctx, nil, "notifier", "--docroot", s.root, "--base", s.base, "--listen", sidecars[i], "--out", filepath.Join(s.root, "robots.rdf"), "--write-every", (r.day / 20).String(), "--state", filepath.Join(r.dir, s.name+".db")); err != nil {
				return err
			}
			if err := program.Until(waiting, "the manifest of "+s.name, func() bool { return program.Get(s.base+"robots.rdf") == nil }, r.programs...); err != nil {
				return err
			}
		}
		into := r.into(s)
		args := append([]string{"run", s.base, "--into", into, "--store", "none", "--allow-private", "--wait", "0", "--frugal", "--objective", "fresh=1",
			"--budget", fmt.Sprint(each) + "/page", "--min-period", (r.day / 20).String(), "--max-period", (1000 * r.day).String(),
			"--manifest-every", (r.day / 4).String(), "--replan", (2 * r.day).String()}, s.flags...)
		if err := r.start(ctx, nil, "crawler", args...); err != nil {
			return err
		}
		if err := program.Until(waiting, "the collection of "+s.name, func() bool {
			_, err := os.Stat(filepath.Join(into, "state.db"))
			return err == nil
		}, r.programs...); err != nil {
			return err
		}
		if err := r.start(ctx, func(line []byte) error { return r.told(s, line) }, "crawler", "events", "--into", into, "--follow"); err != nil {
			return err
		}
	}
	return program.Until(waiting, "the first copies", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.sites {
			if slices.ContainsFunc(s.pages, func(p page) bool { return p.held < 0 }) {
				return false
			}
		}
		return true
	}, r.programs...)
}

// into returns the directory of a site's collection.
func (r *replay) into(s *site) string { return filepath.Join(r.dir, "collection-"+s.name) }

func (r *replay) start(ctx context.Context, lines func([]byte) error, name string, args ...string) error {
	p, err := program.Start(ctx, lines, filepath.Join(r.dir, name), args...)
	if err == nil {
		r.programs = append(r.programs, p)
	}
	return err
}

func (r *replay) close() {
	for _, p := range slices.Backward(r.programs) {
		p.End()
	}
	r.programs = nil
	if r.server != nil {
		r.server.Close()
	}
}

// play makes the changes, each at its time.
func (r *replay) play(ctx context.Context) error {
	type edit struct {
		at   float64
		page int
	}
	var edits []edit
	for i, p := range r.world.Pages {
		for _, at := range p.Trace {
			edits = append(edits, edit{at, i})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return int(1e9 * (a.at - b.at)) })
	if _, err := r.server.Requests(); err != nil {
		return err
	}
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	for _, e := range append(edits, edit{at: r.days, page: -1}) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(r.began.Add(time.Duration(e.at * float64(r.day))))):
		}
		for _, p := range r.programs {
			if p.Ended() {
				return fmt.Errorf("%s exited: %w: %s", p.Name, p.Err(), p.Tail())
			}
		}
		if e.page < 0 {
			break
		}
		r.mu.Lock()
		for _, s := range r.sites {
			if p := &s.pages[e.page]; p.wrong.IsZero() {
				p.wrong = time.Now()
			}
			if err := s.write(e.page); err != nil {
				r.mu.Unlock()
				return err
			}
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sites {
		for i := range s.pages {
			if p := &s.pages[i]; !p.wrong.IsZero() {
				r.right(p, time.Now())
			}
		}
	}
	return nil
}

// right records that a wrong page has become right.
func (r *replay) right(p *page, at time.Time) {
	half := r.began.Add(time.Duration(r.days / 2 * float64(r.day)))
	if from := p.wrong; from.Before(half) {
		p.stale += max(0, at.Sub(half))
	} else {
		p.stale += at.Sub(from)
	}
	p.wrong = time.Time{}
}

// told processes a line of "crawler events".
func (r *replay) told(s *site, line []byte) error {
	now := time.Now()
	var e struct {
		URL    string
		Digest protocol.Digest
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("crawler events: %w: %s", err, line)
	}
	name, ok := strings.CutPrefix(e.URL, s.base+"p")
	i, err := strconv.Atoi(strings.TrimSuffix(name, ".html"))
	if !ok || err != nil || i < 0 || i >= len(s.pages) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &s.pages[i]
	if v := slices.Index(p.versions, e.Digest); v > p.held {
		p.held = v
	}
	if p.held == len(p.versions)-1 && !p.wrong.IsZero() && !r.began.IsZero() {
		r.right(p, now)
	}
	return nil
}

func (r *replay) report(ctx context.Context, out io.Writer) error {
	for _, s := range r.sites {
		for _, args := range [][]string{{"status", r.into(s)}, {"why", s.base + "p0.html", "--into", r.into(s)}} {
			if said, err := exec.CommandContext(ctx, filepath.Join(r.dir, "crawler"), args...).CombinedOutput(); r.show && err == nil {
				fmt.Fprintf(out, "%s: crawler %s\n%s\n", s.name, args[0], said)
			}
		}
	}
	for _, p := range slices.Backward(r.programs) {
		p.End()
	}
	requests, err := r.server.Requests()
	if err != nil {
		return err
	}
	changes := 0
	for _, p := range r.world.Pages {
		changes += len(p.Trace)
	}
	fmt.Fprintf(out, "%s: %d pages, %d changes in %g days of %v, %g requests per page and day\n", r.trace, len(r.world.Pages), changes, r.days, r.day, r.budget)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "notices by\tfresh\tpredicted\tdifference\trequests per page and day\tpredicted\t")
	var wrong error
	for i, s := range r.sites {
		stale := time.Duration(0)
		for _, p := range s.pages {
			stale += p.stale
		}
		fresh := 1 - stale.Seconds()/(float64(len(s.pages))*r.days/2*r.day.Seconds())
		asked := 0
		for _, q := range requests {
			if q.Site == i {
				asked++
			}
		}
		world := *r.world
		world.Sites = []sim.Site{s.speak}
		predicted, err := sim.Simulate(ctx, sim.Run{World: &world, Policy: sim.MustPolicy("freshness"), Budget: r.budget, Days: r.days, From: r.days / 2, Seed: 1})
		if err != nil {
			return err
		}
		points := 100 * (fresh - predicted.Fresh)
		fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%+.1f points\t%.4f\t%.4f\t\n", s.name, fresh, predicted.Fresh, points,
			float64(asked)/float64(len(s.pages))/r.days, predicted.Requests)
		if points > r.within || points < -r.within {
			wrong = errors.Join(wrong, fmt.Errorf("%s: freshness is %.1f points off the prediction", s.name, points))
		}
	}
	w.Flush()
	return wrong
}
