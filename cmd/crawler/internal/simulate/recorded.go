package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/sim"
)

// recordedTables are the tables of recorded histories, and of feeds.
func recordedTables() []paperTable {
	return []paperTable{
		{name: "traces", build: (*paper).traces, data: "changes",
			heading: "freshness/age in days on recorded histories of real pages, days 300 to 900, by requests per day; Zipf importance. Bound: of push, assuming Poisson changes."},
		{name: "schedulers", build: (*paper).schedulers, data: "changes",
			heading: "freshness / polls of a manifest per site and day, by the rule that schedules the polls, for the pages of two recorded sites, days 300 to 600, by requests per day; all else is learned. advaRSS's rules take a changed page for an item. Bound: of push, assuming Poisson changes."},
		{name: "pushes", build: (*paper).pushes, data: "changes",
			heading: "changes of recorded pages in 900 days, as pushes tell them; the share that polls see; and for each estimate of the rates from polls: the relative bias of their sum / the share of changes on pages for which it has no value. No bounds."},
		{name: "feeds", build: (*paper).feeds,
			heading: "460 synthetic feeds, days 28 to 56 after 28 days of learning, slots of 10 minutes. Bound: the least delay with as many polls."},
		{name: "real-feeds", build: (*paper).realFeeds, data: "feeds",
			heading: "real feeds, days 28 to 56. Bound: the least delay with as many polls, if the time of each item is known in advance."},
	}
}

// A recordedRule is a row of a table of recorded histories.
type recordedRule struct {
	words, policy string
	site          sim.Site
}

// histories returns the recorded pages, with their changes in some days.
func (p *paper) histories(days float64) (*sim.World, error) {
	return sim.TraceWeb{Dir: p.folder("changes"), Names: recorded(), Days: days, Seed: uint64(p.seed)}.World()
}

// compared adds the rows of some rules from day 300 on, with a column for each number of requests a day, and their bound.
func (p *paper) compared(ctx context.Context, s *sheet, w *sim.World, days float64, requests []float64, text func(*sim.Result) string, bound string, rules []recordedRule) (*sheet, error) {
	var budgets []float64
	for _, n := range requests {
		budgets = append(budgets, n/float64(len(w.Pages)))
	}
	for _, r := range rules {
		s.measure(text, r.policy, sim.Run{World: w.All(r.site), Days: days, From: 300}, budgets, r.words)
	}
	s.bounds(func(b float64) sim.Bound { return sim.PushBound(w, fresh.Objective{Fresh: 1}, sim.Costs{}, b) }, budgets, bound)
	return p.measured(ctx, s)
}

func (p *paper) traces(ctx context.Context) (*sheet, error) {
	const length = 900
	w, err := p.histories(length)
	if err != nil {
		return nil, err
	}
	s := &sheet{names: 1}
	b := w.Bursts(length)
	s.row(fmt.Sprintf("%d pages, %d changes", b.Pages, b.Changes), "3 a day", "7.5", "15", "30", "75")
	return p.compared(ctx, s, w, length, []float64{3, 7.5, 15, 30, 75}, bothText, "push bound", []recordedRule{
		{"uniform", "uniform", sim.Site{}},
		{"thesis", "thesis-learned", sim.Site{}},
		{"index, true mean rates", "freshness-known-deaf", sim.Site{}},
		{"index, mean rates of days 0 to 300", "freshness-past", sim.Site{}},
		{"index, learned", "freshness-deaf", sim.Site{}},
		{"harmonic index, learned", "harmonic-deaf", sim.Site{}},
		{"manifest every day", "manifest-daily", sim.Site{Manifest: true}},
		{"manifest, priced, learned", "freshness", sim.Site{Manifest: true}},
		{"push, importance / rate", "trust-gain", sim.Site{Push: true}},
		{"push, learned", "freshness", sim.Site{Push: true}},
	})
}

// smallTraces returns the traces but for one, which has more pages than all others.
func smallTraces() []string {
	return slices.DeleteFunc(sim.TraceNames(), func(name string) bool { return name == "tldr-pages" })
}

// schedulers compares rules for polling manifests, advaRSS's among them, with uniform polling and push.
func (p *paper) schedulers(ctx context.Context) (*sheet, error) {
	const length = 600
	w, err := p.histories(length)
	if err != nil {
		return nil, err
	}
	s := &sheet{names: 1}
	s.row(fmt.Sprintf("%d pages", len(w.Pages)), "7.5 a day", "30")
	text := func(r *sim.Result) string {
		return fmt.Sprintf("%s/%.2g", share(r.Fresh), r.Polls*float64(len(w.Pages))/float64(len(w.Sites)))
	}
	return p.compared(ctx, s, w, length, []float64{7.5, 30}, text, "bound", []recordedRule{
		{"none: pages are polled", "freshness-deaf", sim.Site{Manifest: true}},
		{"every day", "manifest-daily", sim.Site{Manifest: true}},
		{"every six hours", "manifest-6h", sim.Site{Manifest: true}},
		{"advaRSS's training", "manifest-training", sim.Site{Manifest: true}},
		{"advaRSS's posting rate: one change expected", "manifest-posting-rate", sim.Site{Manifest: true}},
		{"the same, weighted by subscribers", "manifest-subscribers", sim.Site{Manifest: true}},
		{"advaRSS: the one after the other", "manifest-advarss", sim.Site{Manifest: true}},
		{"any page outdated: 0.1", "outdated-any", sim.Site{Manifest: true}},
		{"mean share outdated: 0.1", "outdated-mean", sim.Site{Manifest: true}},
		{"fastest page outdated: 0.1", "outdated-fastest", sim.Site{Manifest: true}},
		{"the price", "freshness", sim.Site{Manifest: true}},
		{"push", "freshness", sim.Site{Push: true}},
	})
}

// feedTasks returns a task for each policy with each number of polls.
func feedTasks(polls []float64, names ...string) (tasks []feedTask) {
	for _, name := range names {
		r, _ := feedRuleNamed(name)
		for _, n := range polls {
			if r.free {
				tasks = append(tasks, feedTask{r, 0})
				break
			}
			tasks = append(tasks, feedTask{r, n})
		}
	}
	return tasks
}

func (p *paper) feeds(ctx context.Context) (*sheet, error) {
	w := sim.FeedWeb{Feeds: p.scaled(4600) / 10, Seed: uint64(p.seed)}.World()
	part := float64(len(w.Feeds)) / 460
	tasks := feedTasks([]float64{5 * part, 15 * part, 45 * part, 60.7 * part}, "round-robin", "training", "posting-rate-known", "square-root", "index-known", "index", "ahead-known", "ahead")
	rows, err := feedRows(ctx, []*sim.FeedWorld{w}, tasks, p.seed, 28, 10*time.Minute, &command.Progress{})
	return feedSheet(rows), err
}

func (p *paper) realFeeds(ctx context.Context) (*sheet, error) {
	w, err := sim.OpenFeeds(p.folder("feeds"), 15)
	if err != nil {
		return nil, err
	}
	w = w.Cut(0, 56)
	rows, err := feedRows(ctx, []*sim.FeedWorld{w}, feedTasks([]float64{3, 9, 27}, "round-robin", "training", "posting-rate", "index", "index-dated", "ahead"), p.seed, 28, 10*time.Minute, &command.Progress{})
	return feedSheet(rows), err
}

// A feedRule is a named policy of polling feeds. Its FeedRun has the policy, and what that knows.
type feedRule struct {
	name string
	run  sim.FeedRun
	free bool // it polls as often as it wants
}

// feedRules returns all named rules. Those that are "known" have the true rates; "ahead" polls by its price,
// all others compete for the polls of a slot.
func feedRules() []feedRule {
	index := poll.Index{Loss: -1} // by delay alone
	ahead := poll.Ahead{Index: index}
	return []feedRule{
		{"round-robin", sim.FeedRun{Policy: poll.RoundRobin{}}, false},
		{"training", sim.FeedRun{Policy: poll.Trained{}}, true},
		{"posting-rate", sim.FeedRun{Policy: poll.PostingRate{}}, false},
		{"posting-rate-known", sim.FeedRun{Policy: poll.PostingRate{}, Known: true}, false},
		{"advarss", sim.FeedRun{Policy: poll.AdvaRSS{}}, false},
		{"minimum-delay", sim.FeedRun{Policy: poll.MinimumDelay{}}, false},
		{"minimum-delay-known", sim.FeedRun{Policy: poll.MinimumDelay{}, Known: true}, false},
		{"square-root", sim.FeedRun{Policy: index, Even: true}, false},
		{"index", sim.FeedRun{Policy: index}, false},
		{"index-known", sim.FeedRun{Policy: index, Known: true}, false},
		{"index-dated", sim.FeedRun{Policy: index, Dated: true}, false},
		{"index-careful", sim.FeedRun{Policy: poll.Index{}}, false},
		{"ahead", sim.FeedRun{Policy: ahead, Priced: true}, false},
		{"ahead-known", sim.FeedRun{Policy: ahead, Priced: true, Known: true}, false},
	}
}

func feedRuleNamed(name string) (feedRule, bool) {
	for _, r := range feedRules() {
		if r.name == name {
			return r, true
		}
	}
	return feedRule{}, false
}
