package rank_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
)

// All eight inputs of Castillo 7.2.1 can be chosen, beside accesses and a history; each alone says something of a page, between 0 and 1. What is not computed
// yet counts for a half.
func TestInputsOfQuality(t *testing.T) {
	p, s := &collection.Page{ID: 7, Site: 2, Depth: 3, Dynamic: true, Rank: 3, Importance: .75}, &collection.Site{Ready: 24_999}
	for weights, want := range map[string]float64{
		"pagerank=1": .75, "hub=1": .5, "authority=2": .5, "weighted=1": .5, "siterank=1": .5, "depth=1": .25, "static=1": 0, "queue=1": 1, "access=1": .75, "history=1": 0,
		"depth=1,queue=3":                         .8125,
		"hub=1,authority=1,weighted=1,siterank=1": .5,
	} {
		q, err := rank.ParseQuality(weights)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Of(p, s); math.Abs(got-want) > 1e-5 {
			t.Errorf("%s: %v, want %v", weights, got, want)
		}
	}
	for _, wrong := range []string{"hubs=1", "hub", "hub=-1", "hub=NaN", "hub=Inf", "hub=0"} {
		if _, err := rank.ParseQuality(wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
