package anysite

import (
	"context"
	"fmt"
	"strings"

	"github.com/parleyweb/parley/internal/anysite/judge"
	"github.com/parleyweb/parley/internal/anysite/record"
)

// A Result is what came of one run.
type Result struct {
	Plan    *Plan
	Record  *record.Recording
	Verdict judge.Verdict
	Err     error // of the run itself
}

// Try carries a plan out once, and has it judged.
func (r *Runner) Try(ctx context.Context, p *Plan, number int) Result {
	rec, err := r.Run(ctx, p, number)
	x := Result{Plan: p, Record: rec, Err: err}
	if err == nil {
		x.Verdict = judge.Judge(rec)
	}
	return x
}

// kind is what a finding is about, without the page and the moment: a smaller
// history shows the same fault when it shows a finding of the same oracle.
func (x Result) kinds() map[string]bool {
	kinds := map[string]bool{}
	for _, f := range x.Verdict.Findings {
		kinds[f.Oracle] = true
	}
	if x.Err != nil {
		kinds["run"] = true
	}
	return kinds
}

// rate carries a plan out so often, and counts how often it shows a finding of a kind.
func (r *Runner) rate(ctx context.Context, p *Plan, kind string, times, number int) (failed int) {
	for range times {
		if ctx.Err() == nil && r.Try(ctx, p, number).kinds()[kind] {
			failed++
		}
	}
	return failed
}

// Shrink takes steps, options and features away from a plan while what is left
// shows a finding of the same kind at least half as often as the whole did.
func (r *Runner) Shrink(ctx context.Context, p *Plan, kind string, number int) *Plan {
	const times = 4
	var parts []string
	for _, s := range p.Steps {
		parts = append(parts, fmt.Sprint("step", s.Number))
	}
	if len(p.Options) > 0 {
		parts = append(parts, "options")
		for _, list := range p.Options {
			for _, s := range list {
				parts = append(parts, "--"+s.Name)
			}
		}
	}
	for _, d := range dimensions {
		if p.Chosen[d.name] != d.values[0] {
			parts = append(parts, d.name)
		}
	}
	for _, part := range parts {
		if strings.HasPrefix(part, "--") && p.leaves("options") {
			continue
		}
		smaller := Draw(p.Seed, r.Tables, append(append([]string{}, p.Without...), part)...)
		if r.rate(ctx, smaller, kind, times, number)*2 >= times {
			p = smaller
		}
		if ctx.Err() != nil {
			break
		}
	}
	return p
}

// Commands are what a person types to see it again.
func (x Result) Commands() string {
	var b strings.Builder
	fmt.Fprintf(&b, "PARLEY_ANYSITE_SEED=%d ", x.Plan.Seed)
	if len(x.Plan.Without) > 0 {
		fmt.Fprintf(&b, "PARLEY_ANYSITE_WITHOUT=%s ", strings.Join(x.Plan.Without, ","))
	}
	fmt.Fprintln(&b, "go test ./internal/anysite -run AnySite -v")
	for _, s := range x.Plan.Sites {
		fmt.Fprintf(&b, "  site %s: tells %s, served by %s, at %s, %d pages\n", s.Name, s.Tells, s.Front, s.Host+s.Path, len(s.Pages))
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

// Rate runs a plan nine times more, and says of how many of the ten runs show
// what the first one did.
func (r *Runner) Rate(ctx context.Context, x Result, number int) (kind string, failed int) {
	kind = "run"
	if x.Err == nil {
		kind = x.Verdict.Findings[0].Oracle
	}
	return kind, 1 + r.rate(ctx, x.Plan, kind, 9, number)
}
