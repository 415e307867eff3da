//go:build linux

package anysite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/anysite/judge"
	"github.com/parleyweb/parley/internal/anysite/record"
)

// A Result is the outcome of one run.
type Result struct {
	Plan    *Plan
	Record  *record.Recording
	Verdict judge.Verdict
	Err     error // of the run itself
}

// Try executes a plan once, and judges the recording.
func (r *Runner) Try(ctx context.Context, p *Plan) Result {
	rec, err := r.Run(ctx, p)
	x := Result{Plan: p, Record: rec, Err: err}
	if err == nil {
		x.Verdict = judge.Judge(rec)
	}
	return x
}

// kindOf returns the subject of a finding, without the page, the bytes and the time: a smaller history shows
// the same fault if it has a finding of the same kind.
func kindOf(f judge.Finding) string {
	kind := f.Oracle + ":"
	for i, word := range strings.Fields(f.Text) {
		if i < 9 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz,.") == "" {
			kind += " " + strings.Trim(word, ",.")
		}
	}
	return kind
}

// kinds returns the kinds of all findings.
func (x Result) kinds() map[string]bool {
	kinds := map[string]bool{}
	for _, f := range x.Verdict.Findings {
		kinds[kindOf(f)] = true
	}
	if x.Err != nil {
		kinds["run"] = true
	}
	return kinds
}

// shows executes a plan up to times times, a few at once, and reports whether a finding of a kind occurs in
// at least least runs. It stops as soon as that is decided.
func (r *Runner) shows(ctx context.Context, p *Plan, kind string, least, times int) bool {
	failed, passed := 0, 0
	for failed < least && passed <= times-least && ctx.Err() == nil {
		n := min(atOnce, least-failed, times-failed-passed)
		f := r.several(ctx, p, kind, max(1, n))
		failed, passed = failed+f, passed+max(1, n)-f
	}
	return failed >= least
}

// atOnce is the number of concurrent worlds of one plan.
const atOnce = 3

// several executes a plan in that many worlds at once, and counts those with a finding of a kind.
func (r *Runner) several(ctx context.Context, p *Plan, kind string, worlds int) int {
	brief := *r
	if brief.Log = nil; !strings.HasPrefix(kind, "liveness") {
		brief.Most = 2 * time.Second
	}
	var group sync.WaitGroup
	var failed atomic.Int32
	for range worlds {
		group.Go(func() {
			if brief.Try(ctx, p).kinds()[kind] {
				failed.Add(1)
			}
		})
	}
	group.Wait()
	return int(failed.Load())
}

// Rate returns the kind of a result's first finding, and how many of ten runs show it, the given one
// included.
func (r *Runner) Rate(ctx context.Context, x Result) (kind string, failed int) {
	kind = "run"
	if x.Err == nil {
		kind = kindOf(x.Verdict.Findings[0])
	}
	failed = 1
	for range 3 {
		failed += r.several(ctx, x.Plan, kind, 3)
	}
	return kind, failed
}

// Shrink removes steps, options and features from a plan as long as at least half of four runs still show a
// finding of the same kind: many at once at first, then fewer, then one by one.
func (r *Runner) Shrink(ctx context.Context, p *Plan, kind string) *Plan {
	var parts []string
	for _, d := range dimensions {
		if p.Chosen[d.name] != d.values[0] {
			parts = append(parts, d.name)
		}
	}
	for _, list := range p.Options {
		for _, s := range list {
			parts = append(parts, "--"+s.Name)
		}
	}
	for _, s := range p.Steps {
		parts = append(parts, fmt.Sprint("step", s.Number))
	}
	for size := (len(parts) + 1) / 2; size > 0 && ctx.Err() == nil; size /= 2 {
		for at := 0; at < len(parts) && ctx.Err() == nil; {
			end := min(len(parts), at+size)
			smaller := Draw(p.Seed, r.Tables, slices.Concat(p.Without, parts[at:end])...)
			if r.shows(ctx, smaller, kind, 2, 4) {
				p, parts = smaller, slices.Delete(parts, at, end)
			} else {
				at = end
			}
		}
	}
	return p
}

// Commands returns the command that repeats the run, with a description of it.
func (x Result) Commands() string {
	var b strings.Builder
	fmt.Fprintf(&b, "PARLEY_ANYSITE_SEED=%d ", x.Plan.Seed)
	if len(x.Plan.Without) > 0 {
		fmt.Fprintf(&b, "PARLEY_ANYSITE_WITHOUT=%s ", strings.Join(x.Plan.Without, ","))
	}
	fmt.Fprintln(&b, "go test ./internal/anysite -run AnySite -v")
	for _, s := range x.Plan.Sites {
		fmt.Fprintf(&b, "  site %s: announces by %s, served by %s, at %s, %d pages\n", s.Name, s.Tells, s.Front, s.Host+s.Path, len(s.Pages))
	}
	if x.Record == nil {
		return b.String()
	}
	said := map[string]bool{}
	for _, p := range x.Record.Settings {
		program := "crawler"
		if p.Kind == "notifier" || p.Kind == "rdfgen" {
			program = p.Kind
		}
		line := "  " + program + " " + strings.Join(quoted(p.Args), " ")
		if !said[line] {
			said[line] = true
			fmt.Fprintln(&b, line)
		}
	}
	for _, s := range x.Plan.Steps {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	return b.String()
}

func quoted(args []string) (list []string) {
	for _, a := range args {
		if strings.ContainsAny(a, " *{}[]&?$") {
			a = "'" + a + "'"
		}
		list = append(list, a)
	}
	return list
}
