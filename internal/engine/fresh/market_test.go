package fresh_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/must"
)

// A market is what some planners have told.
type market []fresh.Demand

func (m market) others(i int) *fresh.Demand {
	sum := new(fresh.Demand)
	for k := range m {
		if k != i {
			sum.Add(&m[k])
		}
	}
	return sum
}

// Planners that divide the pages, and tell each other what they would spend, come to the price and the spending of one planner that has all pages, though the
// pages of some are worth much more. What they tell travels as JSON.
func TestOnePriceOfManyPlanners(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for _, parts := range []int{1, 3, 10} {
		t.Run(fmt.Sprint(parts), func(t *testing.T) {
			const pages, perPage = 3000, .1
			type owned struct {
				fresh.Page
				part int
			}
			var web []owned
			for i := range pages {
				part := rng.IntN(parts)
				h := fresh.History{}.Visit(epoch, false, epoch)
				every := math.Exp(rng.NormFloat64()) * math.Pow(3, float64(part%4)) // days
				for at, next := 5., every; at <= 60; at += 5 {
					h = h.Visit(epoch.Add(time.Duration(at*float64(day))), next <= at, epoch)
					for next <= at {
						next += every * rng.ExpFloat64()
					}
				}
				web = append(web, owned{fresh.Page{History: h, Importance: 1 + float64(i%5)}, part})
			}
			plan := func(part int, others *fresh.Demand) fresh.Plan {
				n := 0
				for i := range web {
					if part < 0 || web[i].part == part {
						n++
					}
				}
				p := &fresh.Planning{Priced: fresh.Priced{Objective: fresh.Objective{Fresh: 1}}, Budget: perPage * float64(n), Pages: n, Others: others}
				s := p.Site(fresh.SiteTerms{})
				for i := range web {
					if part < 0 || web[i].part == part {
						s.Add(&web[i].Page, epoch.Add(61*day))
					}
				}
				return p.Plan()
			}
			want := plan(-1, nil)
			told, plans := make(market, parts), make([]fresh.Plan, parts)
			for range 2 { // at first none knows of another
				for i := range plans {
					plans[i] = plan(i, told.others(i))
					text := must.Get(json.Marshal(plans[i].Demand))
					if len(text) > 8<<10 {
						t.Errorf("what a planner tells has %d bytes", len(text))
					}
					must.OK(t, json.Unmarshal(text, &told[i]))
				}
			}
			spend, budget, least, most := 0., 0., math.Inf(1), 0.
			for i := range plans {
				plans[i] = plan(i, told.others(i))
				spend, budget = spend+plans[i].Spend, budget+plans[i].Budget
				share := plans[i].Spend / told[i].Budget
				least, most = min(least, share), max(most, share)
				if !about(plans[i].Price, want.Price, .01) {
					t.Errorf("price %g of planner %d, want %g", plans[i].Price, i, want.Price)
				}
			}
			if total := perPage * pages; !about(spend, total, .01) || !about(budget, total, .01) || !about(want.Spend, total, .01) {
				t.Errorf("%g spent of %g shared out, one planner spends %g", spend, budget, want.Spend)
			}
			if parts > 1 && most < 1.3*least {
				t.Errorf("the planners spend %.2f to %.2f of what they bring: this tests nothing", least, most)
			}
		})
	}
}

// Whatever a demand says, the sum stays one that can be planned with.
func TestDemandOfStrangers(t *testing.T) {
	sum := new(fresh.Demand)
	for _, text := range []string{`{"budget":-1}`, `{"budget":1,"base":-2}`, `{"budget":1,"bins":[-1]}`, `{"budget":1e300}`, `{"left":{"Burst":-1}}`, `{"left":{"Balance":-1e300}}`, `{"budget":1,"bins":[3e38,3e38]}`} {
		d := new(fresh.Demand)
		must.OK(t, json.Unmarshal([]byte(text), d))
		sum.Add(d)
	}
	if *sum != (fresh.Demand{}) {
		t.Errorf("budget %g, base %g", sum.Budget, sum.Base)
	}
}
