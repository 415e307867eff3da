package ping_test

import (
	"context"
	"fmt"
	"strings"
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

const engineURL = "https://engine.example/indexnow"

// sender returns a sender of the world, with its key served by the site.
func (w *world) sender() *ping.IndexNow {
	s := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: w.journal, Base: base, Engines: []string{engineURL}, Public: w.public, HTTP: w.client(), Log: w.log}}
	w.host("www.example.org", serving{s})
	return s
}

// run runs s until stop is called.
func run(t testing.TB, s interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var owned sync.WaitGroup
	owned.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func() { cancel(); owned.Wait() }
}

// story runs a story with a running sender, in virtual time.
func story(t *testing.T, f func(w *world, e *searchEngine, s *ping.IndexNow), change ...func(*ping.IndexNow)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(create("a.html"), create("b.html"), create("c.html"))
		e := newEngine(w, "engine.example")
		s := w.sender()
		for _, c := range change {
			c(s)
		}
		stop := run(t, s)
		defer stop()
		synctest.Wait()
		f(w, e, s)
	})
}

// pass lets time pass, and everything due meanwhile happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func engineStatus(t testing.TB, s *ping.IndexNow) ping.EngineStatus {
	t.Helper()
	st := must.Get(s.Status())
	return st.Engines[0]
}

func TestSignificantChangesAreSent(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		pass(time.Minute)
		e.wantTaken() // existing pages are not news
		w.change(update("a.html", 0.5), update("b.html", 0.001), update("c.html", 0), create("d.html"))
		pass(time.Minute)
		e.wantTaken("a.html d.html")
		w.change(update("b.html", -1), remove("c.html"), move("d.html", "sub/d.html"))
		pass(time.Minute)
		e.wantTaken("b.html c.html sub/d.html") // d.html was sent a moment ago
		pass(10 * time.Minute)
		e.wantTaken("d.html")
		st := engineStatus(t, s)
		check(t, "accepted", st.Accepted, 6)
		check(t, "pending", st.Pending, 0)
		check(t, "behind", st.Behind, 0)
		check(t, "key", st.Key, ping.KeyAccepted)
		check(t, "last", st.Last.Status, 200)
	})
}

func TestEveryChangeIsSentIfConfigured(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		w.change(update("b.html", 0.001), update("c.html", 0))
		pass(time.Minute)
		e.wantTaken("b.html c.html")
	}, func(s *ping.IndexNow) { s.Options.MinSignificance = -1 })
}

func TestChangesWithinDebounceAreSentOnce(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		for range 60 { // one edit every 30 s
			w.change(update("a.html", 1))
			pass(30 * time.Second)
		}
		check(t, "sendings in half an hour", len(e.taken()), 3)
		pass(10 * time.Minute)
		check(t, "sendings in the end", len(e.taken()), 4)
		for i, b := range e.batches() {
			if i > 0 && b.at.Sub(e.batches()[i-1].at) < 10*time.Minute {
				t.Errorf("sent %v and %v", e.batches()[i-1].at, b.at)
			}
		}
		pass(time.Hour)
		check(t, "notes of what was sent", w.notes("/url/"), 0)
	})
}

// notes counts the notes whose key contains part.
func (w *world) notes(part string) (n int) {
	w.must(w.journal.EachNote("indexnow/", func(k string, _ []byte) error {
		if strings.Contains(k, part) {
			n++
		}
		return nil
	}))
	return n
}

func TestForbiddenPagesAreNotSent(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		w.setPublic("a.html", false)
		w.change(update("a.html", 1), update("b.html", 1))
		pass(time.Minute)
		e.wantTaken("b.html")
		// The publisher's scan withdraws it: engines know the page and must fetch it to learn that it is
		// forbidden.
		w.change(remove("a.html"))
		pass(20 * time.Minute)
		e.wantTaken("a.html")
		// A page that existed only for a moment, before any engine was notified, is never sent.
		w.change(create("oops.html"))
		w.setPublic("oops.html", false)
		pass(time.Minute)
		w.change(remove("oops.html"))
		pass(time.Hour)
		e.wantTaken()
		// Unless an engine may have got it after all.
		w.change(create("perhaps.html"))
		e.will("cut taken")
		pass(time.Minute)
		e.wantTaken("perhaps.html")
		w.setPublic("perhaps.html", false)
		w.change(remove("perhaps.html"))
		pass(time.Hour)
		e.wantTaken("perhaps.html")
		// A page that is created and deleted without a rule is sent.
		w.change(create("short.html"), remove("short.html"))
		pass(time.Minute)
		e.wantTaken("short.html")
		// A rule that is removed before any scan has only caused a delay.
		w.setPublic("c.html", false)
		w.change(update("c.html", 1))
		pass(time.Minute)
		e.wantTaken()
		w.setPublic("c.html", true)
		pass(20 * time.Minute)
		e.wantTaken("c.html")
		// A change that stays withheld is forgotten.
		w.setPublic("b.html", false)
		w.change(update("b.html", 1))
		pass(48 * time.Hour)
		e.wantTaken()
		check(t, "pending", engineStatus(t, s).Pending, 0)
	})
}

// While the site's rules are unknown everything seems forbidden: nothing is sent then, and nothing is
// dropped.
func TestNothingIsSentBeforeRulesAreKnown(t *testing.T) {
	var known atomic.Bool
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		w.change(create("d.html"), update("a.html", 1), create("e.html"), remove("e.html"))
		pass(48 * time.Hour)
		e.wantTaken()
		r := must.Get(s.Status())
		check(t, "pending", r.Engines[0].Pending, 3)
		known.Store(true)
		pass(time.Minute)
		e.wantTaken("a.html d.html e.html")
	}, func(s *ping.IndexNow) {
		s.Options.Ready, s.Options.Public = known.Load, func(string) bool { return known.Load() }
	})
}

func TestPagesWithAnotherCanonicalAreNotSent(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		copyOf := func(name, canonical string) journal.Step {
			st := create(name)
			st.Entry.Item.Canonical = canonical
			return st
		}
		w.change(copyOf("print/a.html", base+"a.html"), copyOf("own.html", base+"own.html"))
		pass(time.Minute)
		e.wantTaken("own.html")
		// It becomes forbidden while its notification is pending.
		e.will("429")
		w.change(create("late.html"))
		pass(30 * time.Second)
		late := copyOf("late.html", base+"a.html")
		late.Op = protocol.Update
		w.change(late)
		pass(time.Hour)
		e.wantTaken()
		check(t, "pending", engineStatus(t, s).Pending, 0)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		var steps []journal.Step
		for i := range 25 {
			steps = append(steps, create(fmt.Sprintf("p%02d.html", i)))
		}
		w.change(steps...)
		pass(time.Minute)
		var sizes []int
		for _, b := range e.batches() {
			sizes = append(sizes, len(b.urls))
		}
		check(t, "sizes", fmt.Sprint(sizes), "[10 10 5]")
	}, func(s *ping.IndexNow) { s.Options.MaxBatch = 10 })
}

func TestBatchIsBoundedInURLsAndBytes(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		var steps []journal.Step
		for i := range 10_001 {
			steps = append(steps, create(fmt.Sprintf("p%05d.html", i)))
			if len(steps) == protocol.MaxBatch {
				w.change(steps...)
				steps = nil
			}
		}
		w.change(steps...)
		pass(time.Minute)
		var sizes []int
		for _, b := range e.batches() {
			sizes = append(sizes, len(b.urls))
		}
		check(t, "sizes", fmt.Sprint(sizes), "[10000 1]")
		e.wantTaken(e.taken()...)
		for i := range 700 {
			w.change(create(fmt.Sprintf("%d-%s", i, strings.Repeat("x", 8000))))
		}
		pass(time.Minute)
		n := 0
		for _, b := range e.batches() {
			n += len(b.urls)
			if size := len(strings.Join(b.urls, "")); size > 5<<20 {
				t.Errorf("batch of %d bytes", size)
			}
		}
		check(t, "long URLs", n, 700)
	})
}

func TestIndexNowTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		turn := func() ping.Result { // each with a process of its own
			t.Helper()
			w.must(w.journal.Close())
			w.open()
			return must.Get(w.sender().Turn(t.Context()))
		}
		w.change(create("old.html"))
		check(t, "first turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{}))
		w.change(create("a.html"))
		check(t, "second turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Changes: 1, Batches: 1, Sent: 1}))
		w.change(update("a.html", 1), create("b.html"))
		check(t, "third turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Changes: 2, Batches: 1, Sent: 1, Pending: 1}))
		check(t, "fourth turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Pending: 1}))
		time.Sleep(10 * time.Minute)
		check(t, "fifth turn", fmt.Sprint(turn()), fmt.Sprint(ping.Result{Batches: 1, Sent: 1}))
		e.wantTaken("a.html", "b.html", "a.html")
		e.will("503")
		w.change(create("c.html"))
		r := turn()
		if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "503") || r.Pending != 1 {
			t.Errorf("%+v", r)
		}
		r = turn() // at once: the engine's backoff is respected
		check(t, "asked", len(e.batches()), 1)
		check(t, "failed", len(r.Failed), 1)
		time.Sleep(2 * time.Minute)
		turn()
		e.wantTaken("c.html")
	})
}

func TestSendAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 12 {
			var steps []journal.Step
			for k := range 1000 {
				steps = append(steps, create(fmt.Sprintf("d%d/p%04d.html", i, k)))
			}
			w.change(steps...)
		}
		w.change(remove("d0/p0000.html"))
		e := newEngine(w, "engine.example")
		s := w.sender()
		s.Options.SendAll = true
		r := must.Get(s.Turn(t.Context()))
		check(t, "sent", r.Sent, 11_999)
		check(t, "batches", len(e.taken()), 2)
		if strings.Contains(strings.Join(e.taken(), " "), "d0/p0000") {
			t.Error("a page deleted before the start was sent")
		}
		r = must.Get(s.Turn(t.Context()))
		check(t, "sent", r.Sent, 0)
	})
}

func TestIndexNowRejectsWrongConfiguration(t *testing.T) {
	w := newWorld(t)
	good := func() *ping.IndexNow {
		return &ping.IndexNow{Options: ping.IndexNowOptions{Journal: w.journal, Base: base, Engines: []string{"bing"}}}
	}
	for name, spoil := range map[string]func(*ping.IndexNow){
		"journal": func(s *ping.IndexNow) { s.Options.Journal = nil },
		"base":    func(s *ping.IndexNow) { s.Options.Base = "https://www.example.org" },
		"engine":  func(s *ping.IndexNow) { s.Options.Engines = []string{"altavista"} },
		"no eng":  func(s *ping.IndexNow) { s.Options.Engines = nil },
		"key":     func(s *ping.IndexNow) { s.Options.Key = "short" },
		"key 2":   func(s *ping.IndexNow) { s.Options.Key = "has/slashes-and.dots" },
	} {
		s := good()
		spoil(s)
		if _, err := s.Turn(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := good()
	s.Options.Engines = append(ping.EngineNames(), "https://www.bing.com/indexnow", "https://own.example/in")
	st := must.Get(s.Status())
	check(t, "engines", len(st.Engines), len(ping.EngineNames())+1)
}
