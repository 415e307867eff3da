package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/sim"
)

// feeds is "crawler simulate feeds".
type feeds struct {
	webs     feedWebs
	policies words
	polls    numbers
	from     int
	slot     time.Duration
	output
}

// feedWebs are the simulated feeds.
type feedWebs struct {
	trial
	world               string
	days, feeds, window int
}

func (f *feedWebs) flags() []command.Flag {
	bind := command.Bind
	*f = feedWebs{world: "synthetic", days: 56, feeds: 460, window: 15}
	return append(f.trial.flags(),
		bind("world", &f.world, "simulate the world `NAME`: synthetic, weekly or real"),
		bind("days", &f.days, "simulate `N` days"),
		bind("feeds", &f.feeds, "draw `N` feeds"),
		bind("window", &f.window, "a feed lists its newest `N` items"))
}

func simulateFeeds() *command.Command {
	bind := command.Bind
	f := &feeds{policies: words{"round-robin", "training", "posting-rate", "square-root", "index", "index-known", "ahead"},
		polls: numbers{5, 15, 45}, from: 28, slot: 10 * time.Minute}
	var names []string
	for _, r := range feedRules() {
		names = append(names, r.name)
	}
	return simulation(&command.Command{
		Name:    "feeds",
		Summary: "print the delay with which policies find new feed items, by polls",
		Usage:   "[options]",
		Help: `
For each policy and number of polls it prints the delay from the publication of
an item to the next poll of its feed, and the smallest delay possible with that
many polls; how many items wait in the fullest feed; and the share of items that
dropped out of a feed before it was polled.

    crawler simulate feeds --per-slot 5,15,45
    crawler simulate feeds --policy training,index,ahead --seeds 5
    crawler simulate feeds --world real --data /srv/parley-data --days 120
    crawler simulate feeds --chart feeds.html

Worlds: synthetic, 460 feeds with daily patterns; weekly, the same with different
working days and weekends; real, the recordings in --data, for which the bound
knows in advance when each item appears.

Policies: ` + wrapped(names, 10) + `.

A policy with "-known" knows the true rates. training polls as often as it wants,
regardless of --per-slot; ahead polls the feeds that are worth its price; all
others poll the highest ranked feeds in each slot.`,
		Groups: []command.Group{
			{Title: "Simulation", Options: []string{"world", "policy", "feeds", "days", "slot", "per-slot", "window", "seed", "seeds", "data"}},
		},
		Flags: slices.Concat(f.webs.flags(), f.output.flags(), []command.Flag{
			bind("policy", &f.policies, "simulate the policies `NAME,...`"),
			bind("per-slot", &f.polls, "poll `N,...` feeds in each slot"),
			bind("slot", &f.slot, "`TIME` of a slot"),
			bind("from", &f.from, "measure from day `N` on; the days before are for learning"),
		}),
		Run: f.run,
	})
}

// A feedRow is the score of a policy with a number of polls.
type feedRow struct {
	World   string  `json:"world"`
	Policy  string  `json:"policy"`
	Asked   float64 `json:"polls_wanted,omitempty"` // in a slot; 0: as many as the policy takes
	Polls   spread  `json:"polls_per_slot"`
	PerDay  spread  `json:"polls_per_feed_day"`
	Delay   spread  `json:"delay_minutes"`
	Bound   spread  `json:"delay_bound_minutes"`
	Pending spread  `json:"max_pending"`
	Lost    spread  `json:"lost_share"`
	Fruit   spread  `json:"fruitful_share"`
}

func (f *feeds) check() error {
	if err := f.webs.check(); err != nil {
		return err
	}
	for _, name := range f.policies {
		if _, ok := feedRuleNamed(name); !ok {
			return command.Misusef("--policy %s: unknown policy: -h lists them", name)
		}
	}
	w := &f.webs
	switch {
	case f.from < 0 || f.from >= w.days || w.days > 3650:
		return command.Misusef("--from %d --days %d: want --from below --days, and --days at most 3650", f.from, w.days)
	case w.feeds < 1 || w.feeds > 1_000_000:
		return command.Misusef("--feeds %d: want 1 to 1000000", w.feeds)
	case w.window < 0:
		return command.Misusef("--window %d: want 0 (all items) or more", w.window)
	case f.slot < time.Minute || f.slot > 24*time.Hour:
		return command.Misusef("--slot %s: want a minute to a day", command.FormatDuration(f.slot))
	}
	return nil
}

// draw returns the world of a seed.
func (f *feedWebs) draw(seed uint64) (*sim.FeedWorld, error) {
	switch f.world {
	case "synthetic", "weekly":
		window := f.window
		if window == 0 {
			window = -1
		}
		return sim.FeedWeb{Feeds: f.feeds, Window: window, Days: float64(f.days), Weekly: f.world == "weekly", Seed: seed}.World(), nil
	case "real":
		dir := f.folder("feeds")
		if dir == "" {
			return nil, command.Misusef("--world real: needs --data DIR, with a folder \"feeds\" in it")
		}
		w, err := sim.OpenFeeds(dir, f.window)
		if err != nil {
			return nil, err
		}
		return w.Cut(0, float64(f.days)), nil
	}
	return nil, command.Misusef("--world %s: want synthetic, weekly or real", f.world)
}

func (f *feeds) run(ctx context.Context, env *command.Env) error {
	if err := f.check(); err != nil {
		return err
	}
	var worlds []*sim.FeedWorld
	for i := range f.webs.seeds {
		w, err := f.webs.draw(uint64(f.webs.seed + i))
		if err != nil {
			return err
		}
		worlds = append(worlds, w)
	}
	tasks := feedTasks(f.polls, f.policies...)
	progress := env.Progress("simulating", int64(len(tasks)*len(worlds)))
	rows, err := feedRows(ctx, worlds, tasks, f.webs.seed, float64(f.from), f.slot, progress)
	progress.Done()
	if err != nil {
		return err
	}
	return f.show(env, rows, func() *chart.Page { return f.page(env, rows) }, func() error {
		about := fmt.Sprintf("%d feeds, %s; days %d to %d; slots of %s; seed %d", len(worlds[0].Feeds), worlds[0].Name, f.from, f.webs.days, command.FormatDuration(f.slot), f.webs.seed)
		return feedSheet(rows).print(env.Stdout, about, "delay and bound: minutes, mean of all items; pending: items in the fullest feed")
	})
}

// A feedTask is a policy with a number of polls in a slot, 0 for as many as it wants.
type feedTask struct {
	rule  feedRule
	polls float64
}

// feedRows runs all tasks, once for each world.
func feedRows(ctx context.Context, worlds []*sim.FeedWorld, tasks []feedTask, seed int, from float64, slot time.Duration, progress *command.Progress) ([]feedRow, error) {
	n := len(worlds)
	results := make([]*sim.FeedResult, n*len(tasks))
	err := each(ctx, len(results), func(ctx context.Context, i int) error {
		task, w := tasks[i/n], worlds[i%n]
		run := task.rule.run
		run.World, run.Polls, run.From, run.Slot, run.Seed = w, task.polls, from, slot, uint64(seed+i%n)
		r, err := sim.SimulateFeeds(ctx, run)
		if err != nil {
			return err
		}
		results[i] = r
		progress.Add(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var rows []feedRow
	for i, task := range tasks {
		of := func(get func(*sim.FeedResult) float64) spread { return spreadBy(results[i*n:(i+1)*n], get) }
		rows = append(rows, feedRow{World: worlds[0].Name, Policy: task.rule.name, Asked: task.polls,
			Polls:   of(func(r *sim.FeedResult) float64 { return r.Polls }),
			PerDay:  of(func(r *sim.FeedResult) float64 { return r.PerDay }),
			Delay:   of(func(r *sim.FeedResult) float64 { return r.Delay }),
			Bound:   of(func(r *sim.FeedResult) float64 { return r.Bound }),
			Pending: of(func(r *sim.FeedResult) float64 { return r.Pending }),
			Lost:    of(func(r *sim.FeedResult) float64 { return r.Lost }),
			Fruit:   of(func(r *sim.FeedResult) float64 { return r.Fruitful })})
	}
	return rows, nil
}

func feedSheet(rows []feedRow) *sheet {
	s := &sheet{names: 1}
	s.row("policy", "polls/slot", "polls/feed/day", "delay", "bound", "delay/bound", "pending", "lost", "polls with news")
	for _, r := range rows {
		times := "-"
		if r.Bound.Mean > 0 {
			times = fmt.Sprintf("%.3f", r.Delay.Mean/r.Bound.Mean)
		}
		s.row(r.Policy, r.Polls.text(1), spread{Mean: r.PerDay.Mean}.text(1), r.Delay.text(1), spread{Mean: r.Bound.Mean}.text(1), times,
			r.Pending.text(1), fmt.Sprintf("%.2f%%", 100*r.Lost.Mean), fmt.Sprintf("%.0f%%", 100*r.Fruit.Mean))
	}
	return s
}

// page returns the page for --chart.
func (f *feeds) page(env *command.Env, rows []feedRow) *chart.Page {
	delay := chart.Chart{Title: "Delay", X: "polls per feed and day", Y: "delay in minutes", LogX: true, LogY: true}
	times := chart.Chart{Title: "Delay divided by its bound", X: delay.X, Y: "delay / least delay", LogX: true}
	bound := chart.Line{Name: "least delay", Bound: true}
	one := chart.Line{Name: "least delay", Bound: true}
	at := map[string]int{}
	seen := map[float64]bool{}
	for _, r := range rows {
		i, ok := at[r.Policy]
		if !ok {
			i = len(delay.Lines)
			at[r.Policy] = i
			delay.Lines, times.Lines = append(delay.Lines, chart.Line{Name: r.Policy}), append(times.Lines, chart.Line{Name: r.Policy})
		}
		delay.Lines[i].Points = append(delay.Lines[i].Points, chart.Point{X: r.PerDay.Mean, Y: r.Delay.Mean, Spread: r.Delay.Deviation})
		addPoint(&times.Lines[i], r.PerDay.Mean, r.Delay.Mean/r.Bound.Mean)
		if x := math.Round(100 * r.PerDay.Mean); !seen[x] {
			seen[x] = true
			addPoint(&bound, r.PerDay.Mean, r.Bound.Mean)
			addPoint(&one, r.PerDay.Mean, 1)
		}
	}
	delay.Lines, times.Lines = append(delay.Lines, bound), append(times.Lines, one)
	return &chart.Page{Title: "Feeds: delay by polls", Made: made("feeds", env.Flags),
		About:  fmt.Sprintf("%s; days %d to %d, from seed %d.", rows[0].World, f.from, f.webs.days, f.webs.seed),
		Charts: []chart.Chart{delay, times}}
}
