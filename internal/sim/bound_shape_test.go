package sim

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// The tables of noisy pages say what the sums say that they stand for.
func TestNoisyTablesMatchSums(t *testing.T) {
	known := shapes{}
	for _, site := range []Site{
		{Recall: .99, Precision: .98}, {Recall: .9, Precision: .5}, {Recall: .95, Precision: .5}, {Recall: .9, Precision: .1},
		{Recall: .5}, {Precision: .8}, {Recall: .5, Flood: 1}, {Recall: .9, Flood: .01},
	} {
		for _, rate := range []float64{.02, .1, 3} {
			p := newPolled(&Page{Weight: 1, Rate: rate}, fresh.Objective{Fresh: 1}, Costs{Header: 1})
			n := known.newNoisy(p, &site).(*noisy)
			s := newSpeech(rate, site.recall(), site.falsely(rate))
			for _, value := range []float64{.002, .05, .3, .7, .95} {
				price := value / rate
				low, high := 0., 25/s.alpha
				for range 100 {
					mid := (low + high) / 2
					if _, _, v := s.threshold(mid); v*rate >= value {
						high = mid
					} else {
						low = mid
					}
				}
				w, psi, _ := s.threshold(high)
				got := n.at(price)
				// What counts is what is left at the price: the level itself matters little.
				if want := w/psi - price/psi; math.Abs(got.fresh-price*got.spend-want) > 1e-3 {
					t.Errorf("%+v, rate %v, price %v: %.5f less %.5f, want %.5f less %.5f", site, rate, price, got.fresh, price*got.spend, w/psi, price/psi)
				}
			}
		}
	}
	if p := newPolled(&Page{Weight: 1, Rate: 1e-3}, fresh.Objective{Fresh: 1}, Costs{Header: 1}); known.newNoisy(p, &Site{Recall: .5, Flood: 1}) != part(p) {
		t.Error("a page of which there are 1000 false notices for each change is not polled")
	}
}
