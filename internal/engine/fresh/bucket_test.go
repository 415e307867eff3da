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
			all, _ := b.Factors()
			cost := wrong * b.Rate * step / math.Sqrt(all) // as the planner's curve has it
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
			t.Errorf("a correct plan is adjusted at a balance of %v", b.Balance)
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

// What a quiet time leaves is kept for announced changes, and what cannot be kept for them any more is spent on all visits.
func TestBucketSaves(t *testing.T) {
	b := fresh.Bucket{Rate: 100, Balance: 150, Savings: 10_000}
	last, least := math.Inf(1), math.Inf(1)
	for range 200 {
		b.Earn(1)
		all, announced := b.Factors()
		if all > last || announced > least || announced > all || b.Balance < 10_000 && (all < 1/math.E || announced < math.Exp(-2)) {
			t.Fatalf("at a balance of %v visits cost %v, announced ones %v; %v and %v with less", b.Balance, all, announced, last, least)
		}
		last, least = all, announced
	}
	if b.Balance != 10_300 || !about(last, math.Exp(-3), 1e-9) || least != last {
		t.Errorf("after half a year the balance is %v; visits cost %v, announced ones %v", b.Balance, last, least)
	}
	b.Spend(10_000)
	if all, announced := b.Factors(); b.Wait(300) != 0 || all != announced || all < .8 {
		t.Errorf("after a burst the balance is %v; visits cost %v, announced ones %v", b.Balance, all, announced)
	}
	b.Balance, b.Savings = 10_300, 0 // the source is not believed any more
	b.Earn(1)
	if all, _ := b.Factors(); b.Balance != 10_300 || !about(all, math.Exp(-4), 1e-9) {
		t.Errorf("with nothing to save for, the balance is %v and visits cost %v", b.Balance, all)
	}
}

// Crawlers that pool their buckets hourly, one after the other, have the same price soon, whoever has saved what is there, and together, but for 3 % of what is moved, as much as before.
func TestBucketsArePooled(t *testing.T) {
	buckets := []*fresh.Bucket{{Burst: 300, Savings: 10_000, Balance: 5_000}, {Burst: 600, Balance: -500}, {Burst: 100, Balance: 50}}
	told := make([]fresh.Demand, len(buckets))
	tell := func(i int) {
		told[i].Left = *buckets[i]
		if told[i].Left.Savings = 0; i == 0 {
			told[i].Left.Savings = 10_000
		}
	}
	for i := range buckets {
		tell(i)
	}
	for range 3 * 24 {
		for i, b := range buckets {
			var others fresh.Demand
			for k := range told {
				if k != i {
					others.Add(&told[k])
				}
			}
			tell(i)
			b.Savings = told[i].Left.Savings
			b.Pool(&others.Left, 1./24)
		}
	}
	sum := 0.
	for i, b := range buckets {
		sum += b.Balance
		if !about(b.Savings/b.Burst, 10, 1e-9) || !about(b.Balance/b.Burst, 4.55, .03) {
			t.Errorf("bucket %d: %+v", i, *b)
		}
	}
	if !about(sum, 4_550, .03) {
		t.Errorf("together they have %v", sum)
	}
}

func TestBucketTakesAnyInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 58))
	any := func() float64 { return hostile[rng.IntN(len(hostile))] }
	for range 100_000 {
		b := fresh.Bucket{Rate: any(), Burst: any(), Savings: any(), Balance: any()}
		for range 3 {
			b.Earn(any())
			b.Spend(any())
			if all, announced := b.Factors(); !(announced > 0 && announced <= all && all < 100) {
				t.Fatalf("%+v: factors %v, %v", b, all, announced)
			}
			if w := b.Wait(any()); !(w >= 0) {
				t.Fatalf("%+v: waits %v", b, w)
			}
			var others fresh.Demand
			others.Add(&fresh.Demand{Left: fresh.Bucket{Burst: any(), Savings: any(), Balance: any()}})
			b.Pool(&others.Left, any())
		}
	}
}
