package ping_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

func TestFailedBatchesAreRetried(t *testing.T) {
	for _, c := range []struct {
		mood        string
		least, most time.Duration // from the first try to the second
		key         ping.KeyState
		trouble     string
	}{
		{"429", time.Minute, 76 * time.Second, "", "429"},
		{"429 seconds", 2 * time.Hour, 2*time.Hour + time.Second, "", "429"},
		{"429 date", 2*time.Hour - time.Second, 2*time.Hour + time.Second, "", "429"},
		{"503", time.Minute, 76 * time.Second, "", "503"},
		{"503 seconds", 2 * time.Hour, 2*time.Hour + time.Second, "", "503"},
		{"500", 10 * time.Minute, 11 * time.Minute, "", "500"}, // the engine may have accepted the batch
		{"hang", 10*time.Minute + 30*time.Second, 11 * time.Minute, "", "timed out"},
		{"cut", 10 * time.Minute, 11 * time.Minute, "", "unexpected EOF"},
		{"redirect", time.Minute, 76 * time.Second, "", "elsewhere.example"},
		{"404", time.Minute, 76 * time.Second, "", "404"},
		{"403", 24 * time.Hour, 24*time.Hour + time.Second, ping.KeyBurned, "make a new key"},
	} {
		t.Run(c.mood, func(t *testing.T) {
			story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
				e.will(c.mood)
				w.change(update("a.html", 1))
				begin := time.Now()
				pass(time.Minute)
				st := engineStatus(t, s)
				check(t, "pending", st.Pending, 1)
				check(t, "failures", st.Failures, 1)
				check(t, "key", st.Key, c.key)
				if !strings.Contains(st.Trouble, c.trouble) || st.RetryAt.IsZero() {
					t.Errorf("trouble %q, again at %v", st.Trouble, st.RetryAt)
				}
				if b, err := json.Marshal(st); err != nil || !strings.Contains(string(b), `"trouble"`) {
					t.Errorf("%s %v", b, err)
				}
				pass(25 * time.Hour)
				got := e.batches()
				if len(got) != 2 {
					t.Fatalf("answers: %s", e.answered())
				}
				if d := got[1].at.Sub(got[0].at); d < c.least || d > c.most {
					t.Errorf("retried after %v, want %v to %v", d, c.least, c.most)
				}
				if d := got[0].at.Sub(begin); d > 5*time.Second {
					t.Errorf("first tried after %v", d)
				}
				e.wantTaken("a.html")
				st = engineStatus(t, s)
				check(t, "trouble", st.Trouble, "")
				check(t, "pending", st.Pending, 0)
				check(t, "results", len(st.Results), 2)
				check(t, "accepted", st.Accepted, 1)
			})
		})
	}
}

func TestRefusedConnectionIsRetriedBeforeDebounce(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.will("refuse to connect", "refuse to connect")
		w.change(update("a.html", 1))
		pass(5 * time.Minute)
		e.wantTaken("a.html")
	})
}

func TestBackOffGrowsToHours(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.be(func() string { return "503" })
		w.change(update("a.html", 1))
		pass(100 * time.Hour)
		got := e.batches()
		if n := len(got); n < 15 || n > 30 {
			t.Errorf("%d requests in 100 hours", n)
		}
		for i := 2; i < len(got)-1; i++ {
			was, is := got[i].at.Sub(got[i-1].at), got[i+1].at.Sub(got[i].at)
			if is > 7*time.Hour+31*time.Minute || is < was && is < 6*time.Hour {
				t.Errorf("waits of %v and then %v", was, is)
			}
		}
		check(t, "results", len(engineStatus(t, s).Results), 20)
	})
}

// The last success is known even if more batches have failed since than are listed.
func TestLastSuccessIsRemembered(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		w.change(update("a.html", 1))
		pass(time.Minute)
		at := engineStatus(t, s).AcceptedAt
		e.be(func() string { return "503" })
		w.change(update("b.html", 1))
		pass(200 * time.Hour)
		st := engineStatus(t, s)
		for _, o := range st.Results {
			if o.Status != 503 {
				t.Errorf("listed: %+v", o)
			}
		}
		if len(st.Results) != 20 || at.IsZero() || !st.AcceptedAt.Equal(at) {
			t.Errorf("after %d failures the last success was at %s, not %s", len(st.Results), st.AcceptedAt, at)
		}
	})
}

// If an answer is lost, the engine may have the batch: it is not sent again before the debounce is over.
func TestLostAnswersKeepTheDebounce(t *testing.T) {
	for _, mood := range []string{"hang taken", "cut taken", "500 taken"} {
		story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
			e.will(mood)
			w.change(update("a.html", 1))
			pass(time.Hour)
			got := e.batches()
			if len(got) != 2 || got[1].at.Sub(got[0].at) < 10*time.Minute {
				t.Errorf("%s: %v", mood, got)
			}
		})
	}
}

func TestAnswersOfEnginesAreBounded(t *testing.T) {
	for _, mood := range []string{"html", "huge", "slow body"} {
		story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
			e.will(mood)
			w.change(update("a.html", 1))
			pass(time.Hour)
			e.wantTaken("a.html") // 200 is 200
			if note := engineStatus(t, s).Last.Note; mood == "html" && !strings.Contains(note, "HTML") {
				t.Errorf("note %q", note)
			}
		})
	}
}

func TestRefusedURLIsFoundAndDropped(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.never[base+"p13.html"] = true
		var steps []journal.Step
		for i := range 40 {
			steps = append(steps, create(fmt.Sprintf("p%02d.html", i)))
		}
		w.change(steps...)
		pass(time.Minute)
		sent := strings.Fields(strings.Join(e.taken(), " "))
		check(t, "sent at once", len(sent), 39)
		if n := len(e.batches()); n > 20 {
			t.Errorf("%d requests to find one URL of 40", n)
		}
		pass(24 * time.Hour)
		alone := 0
		for _, b := range e.batches() {
			if len(b.urls) == 1 && b.urls[0] == base+"p13.html" {
				alone++
			}
		}
		check(t, "tries of the bad one", alone, 3)
		st := engineStatus(t, s)
		check(t, "pending", st.Pending, 0)
		check(t, "trouble", st.Trouble, "")
		check(t, "dropped", fmt.Sprintln(st.Last.Dropped, st.Last.URL), "true "+base+"p13.html\n")
		// The URL is not blocked: it is sent again at its next change.
		delete(e.never, base+"p13.html")
		e.wantTaken(e.taken()...)
		w.change(update("p13.html", 1))
		pass(time.Minute)
		e.wantTaken("p13.html")
	})
}

func TestEngineThatRefusesEverythingIsPaused(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.be(func() string { return "422" })
		var steps []journal.Step
		for i := range 100 {
			steps = append(steps, create(fmt.Sprintf("p%02d.html", i)))
		}
		w.change(steps...)
		pass(24 * time.Hour)
		if n := len(e.batches()); n > 25 {
			t.Errorf("%d requests in a day", n)
		}
		st := engineStatus(t, s)
		if !strings.Contains(st.Trouble, "every URL is refused") {
			t.Errorf("trouble %q", st.Trouble)
		}
		if st.Pending < 97 {
			t.Errorf("only %d URLs are still pending", st.Pending)
		}
		owed := st.Pending
		e.be(nil)
		pass(24 * time.Hour)
		check(t, "sent", len(strings.Fields(strings.Join(e.taken(), " "))), owed)
		check(t, "trouble", engineStatus(t, s).Trouble, "")
	})
}

// If the journal was restored from a backup, or forgot too much, every page is sent, regardless of its mtime,
// and so are known deletions.
func TestGapSendsEveryPage(t *testing.T) {
	for _, gap := range []string{"epoch", "forgotten"} {
		t.Run(gap, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.opts.MaxChanges = 4
				w.must(w.journal.Close())
				w.open()
				w.change(create("old.html"), create("gone.html"), create("a.html"))
				time.Sleep(time.Second)
				e := newEngine(w, "engine.example")
				turn := func() {
					t.Helper()
					must.Get(w.sender().Turn(t.Context()))
				}
				turn()
				w.change(update("a.html", 1))
				turn()
				e.wantTaken("a.html")
				time.Sleep(time.Hour)
				want := "a.html b.html c.html old.html"
				ancient := func(s journal.Step) journal.Step {
					s.Entry.Item.Modified = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
					return s
				}
				w.change(ancient(update("a.html", 0.001))) // the share that changed is no longer known
				w.change(remove("gone.html"))
				if gap == "epoch" {
					w.change(ancient(create("b.html")), ancient(create("c.html")))
					w.must(w.journal.Renew(t.Context(), nil))
				} else {
					for range 3 {
						w.change(ancient(create("b.html")), create("c.html"), remove("c.html"), ancient(create("c.html")))
					}
					w.change(remove("old.html"))
				}
				turn()
				e.wantTaken(want)
				time.Sleep(time.Hour)
				w.change(create("d.html"))
				turn()
				e.wantTaken("d.html")
			})
		})
	}
}

// A new epoch starts with the published pages, and the first scan finds the differences without announcing
// them. A page that is created and withdrawn by a rule after that is never sent: its changes are read before
// the pages are walked.
func TestGapSendsNoForbiddenPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(create("a.html"), create("b.html"))
		e := newEngine(w, "engine.example")
		turn := func() {
			t.Helper()
			must.Get(w.sender().Turn(t.Context()))
		}
		turn()
		was := []protocol.Item{page("a.html"), page("b.html")}
		w.must(w.journal.Renew(t.Context(), func(yield func(protocol.Item, error) bool) {
			_ = yield(was[0], nil) && yield(was[1], nil)
		}))
		w.change(update("b.html", 0), create("c.html"), remove("a.html"))
		turn()
		e.wantTaken() // a new epoch awaits its first scan
		w.must(w.journal.EndBaseline())
		w.change(create("oops.html"), create("stays.html"))
		w.setPublic("oops.html", false)
		turn()
		e.wantTaken("b.html c.html stays.html")
		w.change(remove("oops.html"))
		time.Sleep(time.Hour)
		turn()
		e.wantTaken()
	})
}

// An engine that accepts nothing fills its outbox, not the memory, and delays no other engine.
func TestSlowEngineDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow, quick := newEngine(w, "slow.example"), newEngine(w, "quick.example")
		slow.be(func() string { return "hang" })
		s := w.sender()
		s.Options.Engines = []string{"https://slow.example/indexnow", "https://quick.example/indexnow"}
		s.SetRoom(50)
		stop := run(t, s)
		defer stop()
		synctest.Wait()
		for i := range 40 {
			w.change(create(fmt.Sprintf("a%02d.html", i)), create(fmt.Sprintf("b%02d.html", i)))
			pass(time.Minute)
		}
		check(t, "URLs at the quick one", len(strings.Fields(strings.Join(quick.taken(), " "))), 80)
		st := must.Get(s.Status())
		if p := st.Engines[0].Pending; p < 50 || p > 52 {
			t.Errorf("the slow engine has %d pending URLs", p)
		}
		check(t, "changes that wait in the journal", int(st.Engines[0].Behind)+st.Engines[0].Pending, 80)
		slow.be(nil)
		pass(24 * time.Hour)
		check(t, "URLs at the slow one", len(strings.Fields(strings.Join(slow.taken(), " "))), 80)
	})
}

func TestShutdownWaitsForAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(create("a.html"))
		e := newEngine(w, "engine.example")
		s := w.sender()
		stop := run(t, s)
		synctest.Wait()
		var asked sync.WaitGroup
		asked.Add(1)
		e.be(func() string {
			asked.Done()
			return "on the way"
		})
		w.change(update("a.html", 1))
		asked.Wait()
		stop()
		check(t, "accepted", engineStatus(t, s).Accepted, 1)
		e.wantTaken("a.html")
		// A request without an answer is dropped soon, and this is remembered.
		e.be(func() string { return "hang taken" })
		pass(time.Hour)
		w.change(update("a.html", 1))
		s = w.sender()
		stop = run(t, s)
		pass(2 * time.Second)
		before := time.Now()
		stop()
		if d := time.Since(before); d > 6*time.Second {
			t.Errorf("shutdown took %v", d)
		}
		e.be(nil)
		s = w.sender()
		stop = run(t, s)
		defer stop()
		pass(9 * time.Minute)
		check(t, "asked within the debounce", len(e.taken()), 1)
		pass(2 * time.Minute)
		e.wantTaken("a.html", "a.html")
	})
}
