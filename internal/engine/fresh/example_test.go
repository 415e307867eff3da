package fresh_test

import (
	"fmt"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// Three pages, and two visits a day. The page that changes a hundred times as often as the others does
// not get more visits: it is worth no more of them than one that is eight times as important.
func ExamplePlanning() {
	page := func(importance float64, changes int) *fresh.Page {
		p := &fresh.Page{Importance: importance}
		p.Visits, p.First, p.Last = 1, epoch, epoch
		p.Belief.Counted(changes, 100) // in a hundred days
		return p
	}
	pages := []*fresh.Page{page(0.8, 20), page(0.1, 20), page(0.1, 2000)}

	pass := fresh.Planning{Budget: 2}
	site := pass.Site(fresh.SiteTerms{})
	for _, p := range pages {
		site.Add(p, p.Last)
	}
	plan := pass.Plan()
	fmt.Printf("expected freshness %.0f %%\n", 100*plan.Freshness)

	policy := fresh.Priced{Price: plan.Price}
	for _, p := range pages {
		fmt.Println("every", policy.Next(p, epoch).Sub(epoch).Round(time.Hour))
	}
	// Output:
	// expected freshness 79 %
	// every 29h0m0s
	// every 89h0m0s
	// every 27h0m0s
}
