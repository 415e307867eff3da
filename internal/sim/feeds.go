package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/engine/poll"
)

// A FeedWorld is a set of feeds with the times of their items. A run does not modify it, and many may share
// it.
type FeedWorld struct {
	Name  string
	Start time.Time
	Days  float64
	Feeds []Feed
}

// A Feed is one feed of a FeedWorld.
type Feed struct {
	Name   string
	Window int         // number of items that it lists, the newest; 0: all that ever came
	Weight float64     // of an item; 0 means 1
	Rates  *poll.Rates // by which its items come; nil: unknown
	Items  []float64   // times of the items, in order, in days from the start
}

func (f *Feed) weight() float64 {
	if f.Weight > 0 {
		return f.Weight
	}
	return 1
}

// A FeedWeb draws a synthetic set of feeds: lognormal rates, with peaks at some hours of the day. The zero
// value is the 460 feeds of advaRSS's experiment as described in freshness.md.
type FeedWeb struct {
	Feeds  int     // 0 means 460
	Mean   float64 // items a day, of each feed; 0 means 11.6
	Sigma  float64 // of the rates' logarithm; 0 means 1.5
	Window int     // 0 means 15 items, negative all
	Days   float64 // 0 means 56
	Weekly bool    // working days and weekends differ
	Seed   uint64
}

func (w FeedWeb) withDefaults() FeedWeb {
	if w.Feeds <= 0 {
		w.Feeds = 460
	}
	if !(w.Mean > 0) {
		w.Mean = 11.6
	}
	if !(w.Sigma > 0) {
		w.Sigma = 1.5
	}
	if w.Window == 0 {
		w.Window = 15
	}
	w.Window = max(w.Window, 0)
	if !(w.Days > 0) {
		w.Days = 56
	}
	return w
}

// feedStart is a Monday.
var feedStart = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// World draws the feeds. Their mean rate is exactly w.Mean.
func (w FeedWeb) World() *FeedWorld {
	w = w.withDefaults()
	rng := rand.New(rand.NewPCG(w.Seed, 0xfeed))
	world := &FeedWorld{Name: "feeds", Start: feedStart, Days: w.Days, Feeds: make([]Feed, w.Feeds)}
	if w.Weekly {
		world.Name = "feeds-weekly"
	}
	mean, sum := make([]float64, w.Feeds), 0.
	for i := range mean {
		mean[i] = math.Exp(w.Sigma * rng.NormFloat64())
		sum += mean[i]
	}
	for i := range world.Feeds {
		rate := feedPattern(rng, w.Weekly)
		all := 0.
		for _, x := range rate {
			all += x
		}
		for h := range rate {
			rate[h] *= mean[i] / sum * w.Mean * float64(w.Feeds) * poll.Hours / all
		}
		world.Feeds[i] = Feed{Name: fmt.Sprint(i), Window: w.Window, Rates: poll.NewRates(&rate)}
	}
	for i := range world.Feeds {
		world.Feeds[i].Items = arrivals(rng, world.Feeds[i].Rates, w.Days)
	}
	return world
}

// feedPattern is the shape of a feed's week: one or two peaks a day above a low base, as in figure 2 of
// advaRSS: 30 % of a day's items between 11 and 14 h, 2 % from 1 to 6 h.
func feedPattern(rng *rand.Rand, weekly bool) (rate [poll.Hours]float64) {
	type peak struct{ at, width, height float64 }
	peaks := []peak{{24 * rng.Float64(), 1.5 + 2.5*rng.Float64(), 1}}
	if rng.Float64() < .5 {
		peaks = append(peaks, peak{24 * rng.Float64(), 1.5 + 2.5*rng.Float64(), .3 + .7*rng.Float64()})
	}
	ground := .02 + .13*rng.Float64()
	weekend := 1.
	if weekly {
		weekend = .1 + .6*rng.Float64()
	}
	for h := range rate {
		x := ground
		for _, p := range peaks {
			d := math.Abs(float64(h%24) + .5 - p.at)
			d = min(d, 24-d) / p.width
			x += p.height * math.Exp(-d*d/2)
		}
		if h/24 >= 5 {
			x *= weekend
		}
		rate[h] = x
	}
	return rate
}

// arrivals draws the items of a feed: a Poisson process, hour by hour.
func arrivals(rng *rand.Rand, r *poll.Rates, days float64) (items []float64) {
	mass, t := rng.ExpFloat64(), 0.
	for h := 0; t < days; h++ {
		end := min(float64(h+1)/24, days)
		rate := r.Hour(h % poll.Hours)
		for rate*(end-t) >= mass {
			t += mass / rate
			items = append(items, t)
			mass = rng.ExpFloat64()
		}
		mass -= rate * (end - t)
		t = end
	}
	return items
}

// A FeedRun is a policy in a world of feeds. Polls take place at the end of each slot.
type FeedRun struct {
	World  *FeedWorld
	Policy poll.Policy

	// Polls is the number of polls in a slot, of all feeds together. 0: the policy decides.
	Polls float64

	// Priced: a feed is polled when the policy says so, at a price that gives Polls polls in a slot on
	// average. Otherwise the feeds with the highest rank are polled, Polls of them in each slot.
	Priced bool

	Known bool // the policy is told the true rates
	Even  bool // the policy is told the true mean rates, but not how they change by the hour
	Dated bool // items have a credible date

	Slot time.Duration // 0 means 10 minutes
	From float64       // day from which the run is scored; before, the policy learns
	Seed uint64
}

// A FeedResult is the result of a FeedRun. Delay is from publication to the next poll, also of items that
// were lost, weighted as the feeds are; by Little's law it is Total pending divided by items a minute.
type FeedResult struct {
	World, Policy string
	Polls         float64 // in a slot
	PerDay        float64 // of each feed
	Fruitful      float64 // share of polls with new items
	Items         int
	Delay         float64 // minutes, mean of all items
	Pending       float64 // in the feed with most pending items, mean over slots
	Total         float64 // pending in all feeds, mean over slots
	Lost          float64 // share of items
	Bound         float64 // minutes: LeastFeedDelay at these Polls
	Foreseen      float64 // minutes, where some rates are unknown: LeastSeenDelay at these Polls; else NaN
}

// feedState is one feed in a run.
type feedState struct {
	*Feed
	rec       poll.Record
	src       poll.Source
	published int // items so far
	fetched   int // number of them known
	next      time.Time
	rank      float64
}

// pending are the times of the items to be found by the next poll, also of those that it will have lost.
func (f *feedState) pending() []float64 { return f.Items[f.fetched:f.published] }

// SimulateFeeds executes a run.
func SimulateFeeds(ctx context.Context, run FeedRun) (*FeedResult, error) {
	if run.Slot <= 0 {
		run.Slot = 10 * time.Minute
	}
	if w := run.World; w == nil || len(w.Feeds) == 0 || !(w.Days > run.From) || run.Policy == nil || !(run.Polls >= 0) {
		return nil, fmt.Errorf("simulate feeds: no feeds, no policy or no time to score")
	}
	s := newFeedSim(&run)
	for slot := 1; slot <= s.slots; slot++ {
		if slot%s.perDay == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("simulate feeds: %w", err)
			}
		}
		s.step(slot)
	}
	return s.result(), nil
}

// A feedSim is a run in progress.
type feedSim struct {
	run           *FeedRun
	feeds         []feedState
	order         []*feedState // to poll in a slot
	slots, perDay int
	slot          float64 // in days
	keep          poll.Schedule
	credit        float64 // polls
	price         feedPrice
	score         feedScore
}

func newFeedSim(run *FeedRun) *feedSim {
	w := run.World
	s := &feedSim{run: run, feeds: make([]feedState, len(w.Feeds)), slot: run.Slot.Hours() / 24,
		keep: poll.Schedule{Policy: run.Policy, Shortest: run.Slot}, price: feedPrice{factor: 1}, score: feedScore{from: run.From}}
	s.slots = int(w.Days/s.slot + 1e-6)
	s.perDay = max(1, int(1/s.slot))
	rng := rand.New(rand.NewPCG(run.Seed, 0xfeed))
	for i := range s.feeds {
		f := &s.feeds[i]
		f.Feed = &w.Feeds[i]
		f.rec.Training = poll.NewTraining(int(rng.Uint32() & 3))
		f.next = w.Start.Add(time.Duration(f.rec.Training.ToE+1) * run.Slot)
		f.src = poll.Source{Record: &f.rec, Weight: f.Weight, Rates: run.rates(f)}
	}
	s.replan()
	return s
}

// rates are the rates that the policy uses.
func (run *FeedRun) rates(f *feedState) *poll.Rates {
	switch {
	case f.Rates != nil && run.Even:
		return poll.Flat(f.Rates.Mean())
	case f.Rates != nil && run.Known:
		return f.Rates
	}
	r := f.rec.Rates()
	if run.Even {
		r = poll.Flat(r.Mean())
	}
	return r
}

// step simulates one slot, with the polls at its end.
func (s *feedSim) step(slot int) {
	day := float64(slot) * s.slot
	now := s.run.World.Start.Add(time.Duration(slot) * s.run.Slot)
	most, total := 0, 0
	for i := range s.feeds {
		f := &s.feeds[i]
		for f.published < len(f.Items) && f.Items[f.published] <= day {
			f.published++
		}
		n := len(f.pending())
		most, total = max(most, n), total+n
	}
	s.score.slot(day, most, total)
	for _, f := range s.choose(now) {
		s.ask(f, day, now)
	}
	if slot%s.perDay == 0 {
		s.price.trim(s.run.Polls * float64(s.perDay))
		s.replan()
	}
}

// choose returns the feeds to poll at the end of a slot.
func (s *feedSim) choose(now time.Time) []*feedState {
	s.order = s.order[:0]
	if s.run.Polls == 0 || s.run.Priced {
		for i := range s.feeds {
			if f := &s.feeds[i]; !f.next.After(now) {
				s.order = append(s.order, f)
			}
		}
		return s.order
	}
	s.credit += s.run.Polls
	k := min(int(s.credit+1e-9), len(s.feeds))
	s.credit -= float64(k)
	for i := range s.feeds {
		f := &s.feeds[i]
		if f.rank = s.keep.Rank(&f.src, now); f.rank > 0 {
			s.order = append(s.order, f)
		}
	}
	slices.SortStableFunc(s.order, func(a, b *feedState) int { return cmp.Compare(b.rank, a.rank) })
	return s.order[:min(k, len(s.order))]
}

// ask polls a feed.
func (s *feedSim) ask(f *feedState, day float64, now time.Time) {
	fresh := f.pending()
	p := poll.Poll{At: now, New: len(fresh), Window: f.Window}
	if f.rec.Polls == 0 { // the number of items before the run is unknown
		p.New = 0
	}
	lost := 0
	if f.Window > 0 && len(fresh) > f.Window {
		lost = len(fresh) - f.Window
		p.New = f.Window
	}
	if s.run.Dated && f.rec.Polls > 0 {
		for _, t := range fresh[lost:] {
			p.Dates = append(p.Dates, s.run.World.Start.Add(time.Duration(t*24*float64(time.Hour))))
		}
	}
	s.price.polls++
	s.score.poll(f, day, lost)
	f.fetched = f.published
	f.rec = f.rec.Poll(p)
	f.src.Rates = s.run.rates(f)
	f.next = s.keep.Next(&f.src, s.price.now(), now)
}

// result ends the run.
func (s *feedSim) result() *FeedResult {
	run, end := s.run, float64(s.slots)*s.slot
	for i := range s.feeds {
		s.score.found(&s.feeds[i], end)
	}
	r := s.score.result(s.feeds)
	r.World, r.Policy = run.World.Name, run.Policy.Name()
	r.PerDay = r.Polls / s.slot / float64(len(s.feeds))
	r.Bound = run.World.LeastFeedDelay(run.From, s.slot, r.Polls).Delay
	r.Foreseen = math.NaN()
	if slices.ContainsFunc(run.World.Feeds, func(f Feed) bool { return f.Rates == nil }) {
		r.Foreseen = run.World.LeastSeenDelay(run.From, s.slot, r.Polls).Delay
	}
	return r
}

// A feedPrice is the price of a poll: planned from the rates, and corrected by the actual number of polls.
type feedPrice struct {
	planned, factor float64
	polls           int // since the last trim
}

func (p *feedPrice) now() float64 { return p.planned * p.factor }

// trim corrects the price after a day. The number of polls goes by the square root of the price; and a week
// must be known before the price is corrected by much.
func (p *feedPrice) trim(target float64) {
	if target > 0 {
		p.factor *= math.Pow(min(max(float64(p.polls)/target, .5), 2), .5)
		p.factor = min(max(p.factor, .01), 100)
	}
	p.polls = 0
}

// replan sets the price: at a constant rate r, a poll is worth it every sqrt(2 price / r).
func (s *feedSim) replan() {
	if s.run.Polls == 0 {
		return
	}
	sum := 0.
	for i := range s.feeds {
		f := &s.feeds[i]
		sum += math.Sqrt(f.src.Rates.Mean() * f.weight() / 2)
	}
	rate := s.run.Polls / s.slot
	s.price.planned = sum * sum / (rate * rate)
}
