package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A plan that is wrong by a factor is corrected: spending meets the budget, however wrong the price is.
func TestBucketKeepsTheBudget(t *testing.T) {
	for _, wrong := range []float64{0.5, 1, 2, 4} {
		b := fresh.Bucket{Rate: 1000, Balance: 1500}
		spent := 0.
		const step = 1. / 96
		for i := range 96 * 60 {
			b.Earn(step)
			cost := wrong * b.Rate * step / math.Sqrt(b.Factor()) // as the planner's curve has it
			if b.Wait(cost) > 0 {
				continue
			}
			if b.Spend(cost); i >= 96*30 {
				spent += cost
			}
		}
		if !about(spent, 30*1000, 0.01) {
			t.Errorf("a plan wrong by %v: %v spent of 30000", wrong, spent)
		}
		if wrong == 1 && !about(b.Balance, 1500, 0.02) {
			t.Errorf("a correct plan is adjusted by the factor %v", b.Factor())
		}
	}
}

// It returns how long to wait, and after that wait the amount is available.
func TestBucketWaits(t *testing.T) {
	b := fresh.Bucket{Rate: 10, Burst: 5}
	if got := b.Wait(2); got != 0.2 {
		t.Errorf("wait of %v days for 2 at a rate of 10 a day", got)
	}
	b.Earn(0.2)
	if got := b.Wait(2); got != 0 || b.Balance != 2 {
		t.Errorf("balance %v, wait %v", b.Balance, got)
	}
	b.Spend(7) // a body was longer than expected
	if got := b.Wait(1); !about(got, 0.6, 1e-12) {
		t.Errorf("overdrawn by %v, wait %v", -b.Balance, got)
	}
	if b.Earn(100); b.Balance != 5 || b.Wait(50) != 0 {
		t.Errorf("balance %v, wait %v for more than the burst", b.Balance, b.Wait(50))
	}
	if none := (fresh.Bucket{}); !math.IsInf(none.Wait(1), 1) {
		t.Errorf("wait %v at rate 0", none.Wait(1))
	}
}

func TestBucketTakesAnyInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 58))
	any := func() float64 { return hostile[rng.IntN(len(hostile))] }
	for range 100_000 {
		b := fresh.Bucket{Rate: any(), Burst: any(), Balance: any()}
		for range 3 {
			b.Earn(any())
			b.Spend(any())
			if f := b.Factor(); !(f > 0 && f < 100) {
				t.Fatalf("%+v: factor %v", b, f)
			}
			if w := b.Wait(any()); !(w >= 0) {
				t.Fatalf("%+v: waits %v", b, w)
			}
		}
	}
}
