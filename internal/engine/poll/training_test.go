package poll_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/poll"
)

// A03 by hand: (2) with the old T, (3), (4), and the caps of A04.
func TestTrainingByHand(t *testing.T) {
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > .006*math.Max(1, want/10) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	// A new feed waits 0 to 3 executions, and its first answer is always news.
	for random := range 8 {
		if f := poll.NewTraining(random); f.M != 4 || f.T != 1 || f.ToE != random%4 {
			t.Errorf("new feed: %+v", f)
		}
	}
	f := poll.NewTraining(3).Checked(true)
	same("M after the first", f.M, 1.6)
	if f.T != 1 || f.ToE != 2 {
		t.Errorf("after the first: %+v", f)
	}
	if zero := (poll.Training{}).Checked(true); zero != f {
		t.Errorf("the zero value becomes %+v", zero)
	}

	// Nothing new, from M = T = 1 on: the eleventh poll comes after 176 executions at most, the twelfth is at the cap.
	f = poll.Training{M: 1, T: 1, ToE: 1}
	executions := 0
	for i, m := range []float64{1, 1.3, 1.9, 2.89, 4.45, 6.88, 10.64, 16.46, 25.48, 39.44, 61.04, 80, 80} {
		same("M unchanged", f.M, m)
		if f.ToE != int(math.Ceil(m)) {
			t.Errorf("ToE %d at M = %v", f.ToE, f.M)
		}
		if i < 11 {
			executions += f.ToE
		}
		for left := f.ToE; left > 0; left-- {
			var due bool
			if f, due = f.Tick(); due != (left == 1) {
				t.Fatalf("due %v with %d executions left", due, left)
			}
		}
		f = f.Checked(false)
	}
	if executions != 176 {
		t.Errorf("%d executions to the cap, want 176", executions)
	}

	// Something new every time.
	for _, m := range []float64{80, 16.8, 4.16, 1.632, 1.126, 1.025} {
		same("M changed", f.M, m)
		f = f.Checked(true)
	}
	for range 8 {
		f = f.Checked(true)
	}
	if f.ToE != 1 { // E32: not only after 24
		t.Errorf("a hot feed has ToE %d at M = %v", f.ToE, f.M)
	}
}

// Posts at a constant rate, 200 a day, and an execution every ten minutes. By the formulas as
// printed, counting down first gives a mean delay of 9.9 minutes at 75 polls a day, and
// polling first 13.6 at 55. Ours differs by the millionth of E32: it polls a hot feed
// a bit more often.
func TestTrainingSimulated(t *testing.T) {
	const days, rate = 60, 200.
	run := func(next func(at time.Duration, found bool) time.Duration) (delay, polls float64) {
		rng := rand.New(rand.NewPCG(1, 1))
		posts, post, found := 0, rng.ExpFloat64()/rate, true
		for at := time.Duration(0); ; {
			at = next(at, found)
			day := at.Hours() / 24
			if day > days {
				return delay / float64(posts), polls / days
			}
			found = false
			for ; post <= day; post += rng.ExpFloat64() / rate {
				delay += (day - post) * 24 * 60
				posts++
				found = true
			}
			polls++
		}
	}
	near := func(what string, got, want, off float64) {
		t.Helper()
		if math.Abs(got/want-1) > off {
			t.Errorf("%s: %.1f, want %v", what, got, want)
		}
	}
	for _, c := range []struct {
		literal      bool
		delay, polls float64
	}{{false, 9.9, 75}, {true, 13.6, 55}} {
		m, timer := 4., 1.
		printed, often := run(func(at time.Duration, found bool) time.Duration {
			if found {
				m, timer = .2*m+.8, 1
			} else {
				m, timer = m+.3*timer, timer+m
			}
			m = min(max(m, 1), 80)
			n := math.Ceil(m)
			if c.literal {
				n++
			}
			return at + time.Duration(n)*10*time.Minute
		})
		near("delay as printed", printed, c.delay, .03)
		near("polls as printed", often, c.polls, .03)

		rec := poll.Record{}
		delay, polls := run(func(at time.Duration, found bool) time.Duration {
			n := 0
			if found {
				n = 1
			}
			rec = rec.Poll(poll.Poll{At: monday.Add(at), New: n})
			return poll.Trained{Literal: c.literal}.Next(&poll.Source{Record: &rec}, 0, monday).Sub(monday)
		})
		near("delay", delay, .92*printed, .05)
		near("polls", polls, 1.1*often, .05)
	}
}

// Both phases: a source is trained for four weeks by its own clock, then polled by its rate (A05).
func TestAdvaRSSAfterFourWeeks(t *testing.T) {
	rec := poll.Record{}.Poll(poll.Poll{At: monday})
	now := monday
	for now.Before(monday.AddDate(0, 0, 35)) {
		trained := now.Sub(monday) < 28*24*time.Hour
		src := &poll.Source{Record: &rec}
		got := poll.AdvaRSS{}.Next(src, 0, now)
		want := poll.Trained{}.Next(src, 0, now)
		if !trained {
			want = poll.PostingRate{}.Next(src, 0, now)
		}
		if !got.Equal(want) {
			t.Fatalf("%v: next %v, want %v", now, got, want)
		}
		now = now.Add(2 * time.Hour)
		rec = rec.Poll(poll.Poll{At: now, New: now.Hour() / 12})
	}
}
