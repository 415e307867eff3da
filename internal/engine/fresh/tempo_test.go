package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A bakery is a silent site of 40 pages, one of which is visited every five hours.
type bakery struct {
	site    fresh.Site
	pages   [40]fresh.Page
	changed [40]bool
	now     time.Time
	next    int
}

func newBakery() *bakery {
	b := &bakery{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range b.pages {
		b.pages[i] = fresh.Page{History: fresh.History{}.Visit(b.now, false, time.Time{}), Importance: 1, Site: &b.site}
	}
	return b
}

// open lets days pass, in each of which change changes pages.
func (b *bakery) open(days int, change func(changed *[40]bool)) {
	for range days {
		change(&b.changed)
		b.visit(24 / 5)
	}
}

func (b *bakery) visit(pages int) {
	for range pages {
		i := b.next % len(b.pages)
		b.next++
		b.now = b.now.Add(5 * time.Hour)
		p := &b.pages[i]
		fresh.LearnTempo(&b.site, p, b.now, b.changed[i], len(b.pages))
		p.History = p.Visit(b.now, b.changed[i], time.Time{})
		b.changed[i] = false
	}
}

// aged is the mean age of the copies, in the days in which as many changes are expected on average, relative to real days.
func (b *bakery) aged() float64 {
	aged, real := 0., 0.
	for i := range b.pages {
		aged += b.pages[i].Age(b.now)
		real += b.now.Sub(b.pages[i].Last).Hours() / 24
	}
	return aged / real
}

// TestOnePageTellsOfOthers: where a site publishes all its changes at once, a few visits that find none leave all copies young, and a few
// that find some make all due.
func TestOnePageTellsOfOthers(t *testing.T) {
	b, rng := newBakery(), rand.New(rand.NewPCG(1, 2))
	publish := func(changed *[40]bool) {
		for i := range changed {
			changed[i] = changed[i] || rng.Float64() < .8
		}
	}
	never := func(*[40]bool) {}
	for range 12 {
		b.open(1, publish)
		b.open(9+rng.IntN(12), never)
	}
	quiet := b.aged()
	if quiet > .7 {
		t.Errorf("after quiet weeks a day counts as %.2f, want .7 or less", quiet)
	}
	for range 40 {
		b.open(9, never)
		if aged := b.aged(); aged < .37 {
			t.Fatalf("after months without changes a day counts as %.2f: a full purse would not be spent", aged)
		}
	}
	quiet = b.aged()
	policy := fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Price: 2}
	last := &b.pages[(b.next+len(b.pages)-8)%len(b.pages)] // it is not among those that are visited next
	due := policy.Next(last, b.now)
	publish(&b.changed)
	b.visit(4)
	if aged := b.aged(); aged < 1.5*quiet {
		t.Errorf("when changes are found a day counts as %.2f, want half as much again as %.2f", aged, quiet)
	}
	if sooner := policy.Next(last, b.now); !sooner.Before(due) {
		t.Errorf("another page is due %v, not before %v", sooner, due)
	}
	b.site.Tells = true
	if aged := b.aged(); aged != 1 {
		t.Errorf("of a site that announces its changes a day counts as %v", aged)
	}
}

// TestPagesOnTheirOwnHaveTheirOwnAge: where pages have nothing to do with each other, nothing is made of what visits to others find.
func TestPagesOnTheirOwnHaveTheirOwnAge(t *testing.T) {
	unlike := 0
	for seed := range uint64(20) {
		b, rng := newBakery(), rand.New(rand.NewPCG(seed, 3))
		b.open(300, func(changed *[40]bool) {
			for i := range changed {
				changed[i] = changed[i] || rng.Float64() < .02*float64(i%10)
			}
		})
		if math.Abs(b.aged()-1) > .01 {
			unlike++
		}
	}
	if unlike > 2 {
		t.Errorf("%d of 20 sites are taken to change as a whole", unlike)
	}
}
