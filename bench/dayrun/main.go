// Dayrun measures the benefit of a site with Parley to a crawler. Two sites with the same pages are served by
// one nginx. One has a notifier; the other is silent, and is crawled by its links. One "crawler run" keeps
// copies of both while every edit is made to both at the same moment.
//
//	go run ./bench/dayrun [-docroot /usr/share/doc/git-doc] [-edits 2000] [-over 10m]
//
// For both sites it prints the time from an edit until the crawler has stored it (or a later one of the same
// page), according to "crawler events --follow", and the requests and bytes, according to nginx's log. At the
// end every stored page must equal the served one; if not, the exit code is 1.
//
// Each page of the silent site is visited once in every -period: with a minute, ten minutes correspond to a
// day with a period of two hours and 24 minutes. The freshness of a silent site is limited by its requests; a
// site with Parley needs no extra requests for freshness.
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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/protocol"
)

func main() { program.Main("dayrun", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("dayrun", flag.ContinueOnError)
	from := flags.String("docroot", "/usr/share/doc/git-doc", "directory of the pages of both sites")
	edits := flags.Int("edits", 2000, "number of edits to each site")
	over := flags.Duration("over", 10*time.Minute, "duration of all edits")
	period := flags.Duration("period", time.Minute, "interval between visits of a page without notices")
	limit := flags.Duration("limit", 30*time.Minute, "time limit of the whole run")
	extra := flags.String("crawler", "", "additional `OPTIONS` for the crawler")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "parley-dayrun-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := program.Build(ctx, dir, "notifier", "crawler"); err != nil {
		return err
	}
	d := &day{dir: dir, out: out}
	if err := d.open(ctx, *from); err != nil {
		return err
	}
	defer d.close()
	waiting, cancel := context.WithTimeout(ctx, *limit) // the programs keep running after it, to report what they did
	defer cancel()
	if err := d.begin(ctx, waiting, append([]string{"--policy", "thesis", "--wait", "0", "--allow-private", "--min-period", period.String(), "--max-period", period.String(), "--max-file", "16MB"}, strings.Fields(*extra)...)); err != nil {
		return err
	}
	if err := d.edit(waiting, *edits, *over); err != nil {
		return errors.Join(err, d.report())
	}
	return d.report()
}

// A day is two sites, and the crawler's copies of them.
type day struct {
	dir      string
	out      io.Writer
	server   *nginx.Server
	sites    []*site
	pages    []string // pages of both sites that the crawler has stored from both
	programs []*program.Program

	mu sync.Mutex // guards the sites' versions
}

// A site is one of the two.
type site struct {
	name, base string
	*docroot.Docroot
	versions map[string]*versions // by file
	fresh    []time.Duration      // delays of the edits so far
}

// Versions are the versions of one page.
type versions struct {
	digests []protocol.Digest // the first, and after each edit
	edited  []time.Time       // time of each edit
	held    int               // the newest version that the crawler has stored; -1: none
}

func (d *day) open(ctx context.Context, from string) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	sidecar := free.Addr().String()
	free.Close()
	speaks := &site{name: "with the notifier"}
	silent := &site{name: "silent"}
	d.sites = []*site{speaks, silent}
	for i, s := range d.sites {
		if s.Docroot, err = docroot.Copy(from, filepath.Join(d.dir, fmt.Sprint("docroot-", i))); err != nil {
			return err
		}
		s.versions = map[string]*versions{}
		for _, p := range s.Pages {
			// A crawler treats all but one of the pages with the same content as duplicates.
			b, err := s.Edit(p, "This is the site "+s.name+".")
			if err != nil {
				return err
			}
			s.versions[s.File(p)] = &versions{digests: []protocol.Digest{sha256.Sum256(b)}, edited: []time.Time{{}}, held: -1}
		}
	}
	if d.server, err = nginx.Start(ctx, d.dir, nginx.Site{Root: speaks.Path, Sidecar: sidecar}, nginx.Site{Root: silent.Path}); err != nil {
		return err
	}
	speaks.base, silent.base = d.server.Bases[0], d.server.Bases[1]
	_, err = d.start(ctx, nil, "notifier", "--docroot", speaks.Path, "--base", speaks.base, "--listen", sidecar, "--state", filepath.Join(d.dir, "site.db"))
	return err
}

// start runs one of the programs.
func (d *day) start(ctx context.Context, lines func([]byte) error, name string, args ...string) (*program.Program, error) {
	p, err := program.Start(ctx, lines, filepath.Join(d.dir, name), args...)
	if err == nil {
		d.programs = append(d.programs, p)
	}
	return p, err
}

func (d *day) close() {
	for _, p := range slices.Backward(d.programs) {
		p.End()
	}
	if d.server != nil {
		d.server.Close()
	}
}

// begin starts the crawler, and waits until it has stored both sites.
func (d *day) begin(ctx, waiting context.Context, options []string) error {
	speaks, silent := d.sites[0], d.sites[1]
	want := speaks.Survey().Pages // for the silent site, only linked pages can be known
	// The first description must be complete, or the crawler would not find that the site uses Parley.
	if err := program.Until(waiting, "the notifier's manifest", func() bool { return program.Get(speaks.base+"robots.rdf") == nil }, d.programs...); err != nil {
		return err
	}
	collection := filepath.Join(d.dir, "collection")
	began := time.Now()
	crawler, err := d.start(ctx, nil, "crawler", append([]string{"run", speaks.base, silent.base, "--into", collection}, options...)...)
	if err != nil {
		return err
	}
	if err := program.Until(waiting, "the collection", func() bool {
		_, err := os.Stat(filepath.Join(collection, "state.db"))
		return err == nil || crawler.Ended()
	}, d.programs...); err != nil {
		return err
	}
	if _, err := d.start(ctx, d.told, "crawler", "events", "--into", collection, "--follow"); err != nil {
		return err
	}
	err = program.Until(waiting, "the first copies", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.sites {
			for _, p := range want {
				if s.versions[s.File(p)].held < 0 {
					return false
				}
			}
		}
		return true
	}, d.programs...)
	if err != nil {
		for _, s := range d.sites {
			var missing []string
			for _, p := range want {
				if s.versions[s.File(p)].held < 0 {
					missing = append(missing, p)
				}
			}
			err = fmt.Errorf("%w; %s: %d of %d pages are not stored: %q", err, s.name, len(missing), len(want), missing[:min(len(missing), 5)])
		}
		return err
	}
	d.pages = want
	fmt.Fprintf(d.out, "%d pages on each site, copied in %.1f s\n", len(want), time.Since(began).Seconds())
	return nil
}

// edit makes the edits at even intervals, and waits until the crawler has stored their results.
func (d *day) edit(ctx context.Context, edits int, over time.Duration) error {
	if _, err := d.server.Requests(); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	for i := range edits {
		at := began.Add(over * time.Duration(i) / time.Duration(edits))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(at)):
		}
		p := d.pages[random.IntN(len(d.pages))]
		for _, s := range d.sites {
			d.mu.Lock() // so that the event cannot arrive before its version is known
			saved := time.Now()
			b, err := s.Edit(p, fmt.Sprintf("Edit %d.", i))
			v := s.versions[s.File(p)]
			v.digests, v.edited = append(v.digests, sha256.Sum256(b)), append(v.edited, saved)
			d.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(d.out, "%d edits of each site in %.0f s\n", edits, time.Since(began).Seconds())
	err := program.Until(ctx, "the last edits", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.sites {
			if len(s.fresh) < edits {
				return false
			}
		}
		return true
	}, d.programs...)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.sites {
			err = fmt.Errorf("%w; %s: %d of %d edits have arrived", err, s.name, len(s.fresh), edits)
		}
	}
	return err
}

// told processes a line of "crawler events".
func (d *day) told(line []byte) error {
	now := time.Now()
	var e struct {
		Op     string
		URL    string
		Digest protocol.Digest
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("crawler events: %w: %s", err, line)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sites {
		rest, ok := strings.CutPrefix(e.URL, s.base)
		if !ok {
			continue
		}
		v := s.versions[s.File("/"+rest)]
		if v == nil {
			continue
		}
		// The newest version with these bytes: an older one is not reported after it.
		for i := len(v.digests) - 1; i > v.held; i-- {
			if v.digests[i] != e.Digest {
				continue
			}
			for k := max(v.held+1, 1); k <= i; k++ {
				s.fresh = append(s.fresh, now.Sub(v.edited[k]))
			}
			v.held = i
			break
		}
	}
	return nil
}

// report ends the crawler, and prints the cost of both sites.
func (d *day) report() error {
	for _, p := range slices.Backward(d.programs) {
		p.End() // so that the stream, too, is in nginx's log
	}
	requests, err := d.server.Requests()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tdelay until fresh: p50\tp90\tp99\tmax\trequests\tof them 200\t304\tothers\tMB")
	stale := 0
	for i, s := range d.sites {
		statuses, n, size := map[string]int{}, 0, int64(0)
		for _, q := range requests {
			if q.Site != i {
				continue
			}
			n++
			size += q.Down + q.Up
			switch q.Status {
			case 200:
				statuses["200"]++
			case 304:
				statuses["304"]++
			default:
				statuses["others"]++
			}
		}
		slices.Sort(s.fresh)
		at := func(q float64) time.Duration {
			if len(s.fresh) == 0 {
				return -1
			}
			t := s.fresh[min(len(s.fresh)-1, int(q*float64(len(s.fresh))))]
			if t < 10*time.Second {
				return t.Round(time.Millisecond)
			}
			return t.Round(100 * time.Millisecond)
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%v\t%d\t%d\t%d\t%d\t%.1f\n", s.name, at(.5), at(.9), at(.99), at(1), n,
			statuses["200"], statuses["304"], statuses["others"], float64(size)/1e6)
		for _, v := range s.versions {
			if v.held >= 0 && v.held != len(v.digests)-1 {
				stale++
			}
		}
	}
	w.Flush()
	if stale > 0 {
		return fmt.Errorf("%d stored pages are outdated", stale)
	}
	return nil
}
