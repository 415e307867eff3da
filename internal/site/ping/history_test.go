package ping_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

// A history is a site that changes at random, with senders that are stopped and killed at random, and engines
// that answer at random. It also records what the oracle must know.
type history struct {
	*world
	rnd     *rand.Rand
	engines []*searchEngine
	sender  *ping.IndexNow
	cron    bool // the sender runs by Turn, not by Run
	renews  bool // the journal gets a new epoch now and then
	forgets bool // the sender is away for longer than the journal remembers
	dated   bool // files have old mtimes of their own

	events []event
	kills  []time.Time
	olds   int // changes with an older mtime

	cancel context.CancelFunc
	ended  sync.WaitGroup
	killed atomic.Bool
}

// An event is the oracle's record of one URL in one change.
type event struct {
	told int // the number of the change, from 1
	at   time.Time
	url  string
	op   protocol.Op

	significant bool
	listed      bool // it has no other canonical page
	byRule      bool // a deletion: the page is forbidden, not gone
}

// The oracle's own ops.
const (
	forbid protocol.Op = "forbid" // a rule does
	renew  protocol.Op = "renew"  // the journal loses its history
	away   protocol.Op = "away"   // the sender comes back after a long time
)

// remembered is how many changes a forgetful journal remembers.
const remembered = 40

// tally counts what happened in all histories, to show that the test is not empty.
type tally struct {
	events, takes, repeats, kills, restarts, excused, renewals, aways, backdated atomic.Int64
	moods                                                                        sync.Map
}

func TestRandomHistories(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 25
	}
	var sum tally
	dir := scratch(t)
	t.Run("seeds", func(t *testing.T) {
		for seed := range n {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { live(t, dir, uint64(seed), &sum) })
			})
		}
	})
	t.Logf("%d histories: %d events (%d with an older time), %d batches taken, %d kills with %d URLs sent again, %d restarts, %d renewals, %d times away too long, %d events excused",
		n, sum.events.Load(), sum.backdated.Load(), sum.takes.Load(), sum.kills.Load(), sum.repeats.Load(), sum.restarts.Load(), sum.renewals.Load(), sum.aways.Load(), sum.excused.Load())
	for _, mood := range moods {
		if _, ok := sum.moods.Load(mood); !ok {
			t.Errorf("no engine ever gave the answer %q", mood)
		}
	}
	if sum.repeats.Load() == 0 || sum.kills.Load() == 0 || sum.renewals.Load() == 0 || sum.aways.Load() == 0 || sum.backdated.Load() == 0 || sum.excused.Load()*4 > sum.events.Load() {
		t.Error("the histories test too little")
	}
}

const historyDebounce = 10 * time.Minute

func live(t *testing.T, dir string, seed uint64, sum *tally) {
	h := &history{rnd: rand.New(rand.NewPCG(seed, 7))}
	h.world = &world{t: t, file: fmt.Sprintf("%s/%d", dir, seed), hosts: nil}
	h.world.hosts, h.world.secret = make(map[string]roundTripper), make(map[string]bool)
	h.cron, h.renews, h.forgets, h.dated = seed%5 == 4, seed%7 == 6, seed%7 == 5, seed%2 == 0
	if h.forgets {
		h.opts.MaxChanges = remembered
	}
	h.open()
	defer func() { h.journal.Close() }()
	h.must(h.journal.EndBaseline())
	for i := range 1 + h.rnd.IntN(2) {
		h.engines = append(h.engines, h.newEngine(fmt.Sprintf("engine%d.example", i), seed, sum))
	}
	h.start()
	synctest.Wait()
	h.pause(time.Minute)
	for range 10 + h.rnd.IntN(30) {
		h.step(sum)
		if h.renews && h.rnd.IntN(15) == 0 {
			h.renew(sum)
		}
		if h.forgets && h.rnd.IntN(15) == 0 {
			h.goAway(sum)
		}
		h.pause(time.Duration(h.rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, 20 * time.Minute, 5 * time.Hour}[h.rnd.IntN(4)]))))
	}
	// At the end everything works, for a week.
	for _, e := range h.engines {
		e.mu.Lock()
		e.mood = nil
		e.mu.Unlock()
	}
	if h.cron {
		for range 7 * 4 {
			h.pause(6 * time.Hour)
		}
	} else {
		h.pause(7 * 24 * time.Hour)
	}
	h.end()
	for _, e := range h.engines {
		h.judge(e, sum)
	}
	sum.kills.Add(int64(len(h.kills)))
	sum.events.Add(int64(len(h.events)))
	sum.backdated.Add(int64(h.olds))
	if t.Failed() {
		for _, ev := range h.events {
			t.Logf("%s: change %d, %s %s, significant %v, listed %v, by rule %v", stamp(ev.at), ev.told, ev.op, ev.url, ev.significant, ev.listed, ev.byRule)
		}
		for _, e := range h.engines {
			for _, b := range e.got {
				t.Logf("%s: %s, taken %v, after change %d: %s", stamp(b.at), b.mood, b.taken, b.told, short(b.urls))
			}
		}
		for _, k := range h.kills {
			t.Logf("%s: killed", stamp(k))
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("02 15:04:05.000") }

func (h *history) newEngine(host string, seed uint64, sum *tally) *searchEngine {
	e := newEngine(h.world, host)
	rnd := rand.New(rand.NewPCG(seed, uint64(len(h.engines))))
	for i := range 3 {
		if rnd.IntN(4) == 0 {
			e.never[fmt.Sprintf("%sp%d", base, i)] = true
		}
	}
	trouble := rnd.Float64() * 0.7
	e.mood = func() string {
		mood := "200"
		if rnd.Float64() < trouble {
			mood = moods[rnd.IntN(len(moods))]
		}
		sum.moods.Store(mood, true)
		if (mood == "200" || mood == "202") && rnd.IntN(12) == 0 {
			return "kill"
		}
		return mood
	}
	e.kill = h.kill
	return e
}

// kill ends the process at this instant: none of its later writes reach the journal.
func (h *history) kill() {
	h.mu.Lock()
	h.kills = append(h.kills, time.Now())
	h.mu.Unlock()
	h.killed.Store(true)
	h.cancel()
	h.journal.Close()
}

func (h *history) start() {
	s := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: h.journal, Base: base, Public: h.public, HTTP: h.client(), Debounce: historyDebounce,
		MaxBatch: []int{0, 1, 3, 5}[h.rnd.IntN(4)], AutoRotate: h.rnd.IntN(2) == 0}}
	for i := range h.engines {
		s.Options.Engines = append(s.Options.Engines, fmt.Sprintf("https://engine%d.example/indexnow", i))
	}
	h.host("www.example.org", serving{s})
	h.sender = s
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	h.ended.Go(func() {
		if !h.cron {
			if err := s.Run(ctx); err != nil && !h.killed.Load() {
				h.t.Errorf("Run: %v", err)
			}
			return
		}
		for ctx.Err() == nil {
			if _, err := s.Turn(ctx); err != nil && ctx.Err() == nil {
				h.t.Errorf("Turn: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Minute):
			}
		}
	})
}

// end stops the sender orderly.
func (h *history) end() {
	h.cancel()
	h.ended.Wait()
}

// restart stops the sender unless it was killed, and starts another one.
func (h *history) restart() {
	h.end()
	h.journal.Close()
	if h.killed.Swap(false) {
		for _, e := range h.engines {
			e.mu.Lock()
			e.ends = append(e.ends, len(e.got)-1)
			e.mu.Unlock()
		}
	}
	h.open()
	h.start()
}

// pause lets time pass; a killed sender is restarted meanwhile.
func (h *history) pause(d time.Duration) {
	for end := time.Now().Add(d); ; {
		time.Sleep(min(time.Until(end), time.Hour))
		synctest.Wait()
		if h.killed.Load() {
			h.restart()
			synctest.Wait()
		}
		if !time.Now().Before(end) && !h.killed.Load() {
			return
		}
	}
}

// step makes one random thing happen to the site or to the sender.
func (h *history) step(sum *tally) {
	name := fmt.Sprintf("p%d", h.rnd.IntN(8))
	_, there, err := h.journal.Get(base + name)
	h.must(err)
	switch h.rnd.IntN(20) {
	case 0:
		h.end()
		h.restart()
		sum.restarts.Add(1)
	case 1:
		h.kill()
	case 2, 3: // a rule forbids a page; the next scan withdraws it
		h.setPublic(name, false)
		h.mu.Lock()
		h.events = append(h.events, event{told: h.told, at: time.Now(), url: base + name, op: forbid, listed: true})
		h.mu.Unlock()
		h.pause(time.Duration(h.rnd.Int64N(int64(10 * time.Minute))))
		if there {
			h.tell(remove(name), true)
		}
	case 4: // or allows an existing page
		h.setPublic(name, true)
		if !there {
			h.tell(create(name), false)
		}
	case 5: // a build changes many pages
		var steps []journal.Step
		for i := range 8 {
			name := fmt.Sprintf("p%d", i)
			_, there, err := h.journal.Get(base + name)
			h.must(err)
			if h.public(base + name) {
				if there {
					steps = append(steps, update(name, h.rnd.Float64()))
				} else {
					steps = append(steps, create(name))
				}
			}
		}
		for _, s := range steps {
			h.tell(s, false)
		}
	default:
		h.edit(name, there)
	}
}

// edit changes one page.
func (h *history) edit(name string, there bool) {
	switch {
	case !there && !h.public(base+name):
	case !there:
		s := create(name)
		if h.rnd.IntN(5) == 0 {
			s.Entry.Item.Canonical = base + "other"
		}
		h.tell(s, false)
	case h.rnd.IntN(5) == 0:
		h.tell(remove(name), false)
	case h.rnd.IntN(5) == 0:
		to := fmt.Sprintf("p%d", h.rnd.IntN(8))
		if _, taken, err := h.journal.Get(base + to); err == nil && !taken && h.public(base+to) {
			h.tell(move(name, to), false)
		}
	default:
		h.tell(update(name, []float64{-1, 0, 0.001, 0.009, 0.01, 0.5, 1}[h.rnd.IntN(7)]), false)
	}
}

// renew starts a new epoch, either as it is, or from the published items, where the first scan then finds the
// differences without numbering them.
func (h *history) renew(sum *tally) {
	if h.killed.Load() {
		h.restart()
	}
	var items func(yield func(protocol.Item, error) bool)
	look := h.rnd.IntN(2) == 0
	if look {
		v := must.Get(h.journal.View())
		var list []protocol.Item
		for e, err := range v.Entries() {
			h.must(err)
			list = append(list, e.Item)
		}
		v.Close()
		items = func(yield func(protocol.Item, error) bool) {
			for _, it := range list {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
	h.durably(func() error { return h.journal.Renew(context.Background(), items) })
	if look {
		h.edits(h.rnd.IntN(8))
		h.durably(func() error { return h.journal.EndBaseline() })
	}
	h.note(event{op: renew})
	sum.renewals.Add(1)
}

// goAway stops the sender for longer than the journal remembers.
func (h *history) goAway(sum *tally) {
	h.end()
	for from := h.told; h.told < from+remembered+5; {
		h.edits(5)
		time.Sleep(time.Duration(h.rnd.Int64N(int64(time.Hour))))
	}
	h.note(event{op: away})
	h.restart()
	sum.aways.Add(1)
}

func (h *history) edits(n int) {
	for range n {
		if h.killed.Load() {
			h.restart()
		}
		name := fmt.Sprintf("p%d", h.rnd.IntN(8))
		_, there, err := h.journal.Get(base + name)
		if h.killed.Load() {
			continue
		}
		h.must(err)
		h.edit(name, there)
	}
}

// note records one of the oracle's own events.
func (h *history) note(ev event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
	ev.told, ev.at = h.told, time.Now()
	h.events = append(h.events, ev)
}

// durably writes to the journal, and retries if the process is killed meanwhile.
func (h *history) durably(write func() error) {
	for {
		if h.killed.Load() {
			h.restart()
		}
		err := write()
		if err == nil {
			return
		}
		if !h.killed.Load() {
			h.t.Fatal(err)
		}
	}
}

// tell appends a step, and records what the oracle must know of it.
func (h *history) tell(s journal.Step, byRule bool) {
	if h.dated && s.Op != protocol.Delete && h.rnd.IntN(2) == 0 {
		h.olds++
		s.Entry.Item.Modified = time.Now().Add(-time.Duration(h.rnd.Int64N(int64(1000 * time.Hour)))).UTC().Truncate(time.Millisecond)
	}
	h.durably(func() error {
		_, err := h.journal.Append(context.Background(), []journal.Step{s})
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
	share, known := s.Significance.Share()
	it := s.Entry.Item
	ev := event{told: h.told, at: time.Now(), url: it.URL, op: s.Op, listed: it.Canonical == "", byRule: byRule,
		significant: s.Op != protocol.Update || !known || share >= 0.01}
	h.events = append(h.events, ev)
	if s.Op == protocol.Move {
		ev.url, ev.op, ev.listed = s.From, protocol.Delete, true
		h.events = append(h.events, ev)
	}
}

// judge compares the batches that an engine got with those it should have got.
func (h *history) judge(e *searchEngine, sum *tally) {
	got := e.batches()
	taken := slices.DeleteFunc(slices.Clone(got), func(b batch) bool { return !b.taken })
	sum.takes.Add(int64(len(taken)))

	// No significant change is unsent.
	for i, ev := range h.events {
		if !ev.significant || !ev.listed {
			continue
		}
		sent := slices.ContainsFunc(taken, func(b batch) bool { return b.told >= ev.told && slices.Contains(b.urls, ev.url) })
		switch {
		case sent:
		case h.excused(i, got, taken, e.ends):
			sum.excused.Add(1)
		default:
			h.t.Errorf("%s: change %d of %s, %s, was never sent to an engine", stamp(ev.at), ev.told, ev.url, ev.op)
		}
	}

	// No URL is sent twice within its debounce, except in one batch for each kill: the last that the engine
	// got before it.
	for i, b := range taken {
		for _, u := range b.urls {
			p := i - 1
			for p >= 0 && !slices.Contains(taken[p].urls, u) {
				p--
			}
			if p < 0 {
				h.reason(u, 0, b)
				continue
			}
			was := taken[p]
			killed := slices.Contains(e.ends, was.n)
			switch tooSoon := b.at.Sub(was.at) < historyDebounce; {
			case tooSoon && !killed:
				h.t.Errorf("%s was sent at %s, and again at %s: too soon", u, stamp(was.at), stamp(b.at))
			case tooSoon:
				sum.repeats.Add(1)
			case !killed && was.sure:
				h.reason(u, was.told, b)
			}
		}
	}
}

// reason checks that a URL was sent because of a later change than the given one.
func (h *history) reason(url string, after int, b batch) {
	if !slices.ContainsFunc(h.events, func(ev event) bool {
		switch {
		case ev.told > b.told:
			return false
		case ev.op == renew, ev.op == away: // all URLs are sent once, when the sender notices
			return ev.told >= after
		}
		return ev.told > after && ev.url == url && ev.listed && ev.significant
	}) {
		h.t.Errorf("%s was sent at %s, but nothing significant changed after change %d", url, stamp(b.at), after)
	}
}

// excused reports whether an unsent event was rightly not sent.
func (h *history) excused(i int, got, taken []batch, ends []int) bool {
	ev := h.events[i]
	alone := 0 // how often the engine rejected it alone since it last accepted it
	for _, b := range got {
		switch {
		case b.taken && slices.Contains(b.urls, ev.url):
			alone = 0
		case (b.mood == "400" || b.mood == "422") && len(b.urls) == 1 && b.urls[0] == ev.url:
			if alone++; alone >= 3 && b.told >= ev.told {
				return true // it was dropped; a kill may have lost one of the answers
			}
		}
	}
	forbidden, gone := false, 0 // the number of the change that deleted it
	for _, later := range h.events[i:] {
		switch {
		case gone > 0 && later.op == renew:
			return true // the journal lost its deletions
		case gone > 0 && later.op == away && later.told-gone > remembered:
			return true // the journal forgot it
		case later.url == ev.url && later.op == protocol.Delete && gone == 0:
			gone = later.told
		case later.url != ev.url:
		case !later.listed:
			return true // another page is its canonical one now
		case later.op == forbid:
			forbidden = true
		}
	}
	if !forbidden && !ev.byRule {
		return false
	}
	// It is sent anyway, unless the URL was created since it was last sent: an engine that never learned of
	// it need not forget it.
	for k := i; k >= 0; k-- {
		if c := h.events[k]; c.url == ev.url && (c.op == protocol.Create || c.op == protocol.Move) {
			return !slices.ContainsFunc(taken, func(b batch) bool {
				return b.told >= c.told && b.told < ev.told && slices.Contains(b.urls, ev.url) && !slices.Contains(ends, b.n)
			})
		}
	}
	return false
}
