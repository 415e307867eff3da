package order_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sim/order"
)

// Two releases of real docroots: what the Pagerank of the older one is worth for the order in which the newer one is crawled. Whatever new pages
// get, what an order loses beside an oracle is about the share of the Pagerank that new pages have, at most. $PARLEY_RELEASES has a folder for
// each docroot, with two folders that are named by version. With -v it prints all areas.
func TestHistoryOfTwoReleases(t *testing.T) {
	docroots, err := filepath.Glob(filepath.Join(os.Getenv("PARLEY_RELEASES"), "*"))
	if os.Getenv("PARLEY_RELEASES") == "" || err != nil || len(docroots) == 0 {
		t.Skip("PARLEY_RELEASES has no releases")
	}
	for _, docroot := range docroots {
		name := filepath.Base(docroot)
		t.Run(name, func(t *testing.T) {
			releases, err := filepath.Glob(filepath.Join(docroot, "*"))
			if err != nil || len(releases) < 2 {
				t.Fatalf("%s: want two releases (%v)", docroot, err)
			}
			slices.Sort(releases)
			older, _ := machine.Web(t, []string{name}, releases[:1])
			newer, _ := machine.Web(t, []string{name}, releases[1:2])
			w := order.NewWeb(newer)
			if w.History, err = w.FindHistory(older); err != nil {
				t.Fatal(err)
			}
			pages, rank := w.Old()
			var table strings.Builder
			fmt.Fprintf(&table, "%s, then %s: %d pages, of which %.1f %% are old, with %.1f %% of the Pagerank\n", filepath.Base(releases[0]), filepath.Base(releases[1]), len(w.Ranks), 100*pages, 100*rank)
			area := map[string]float64{}
			for _, o := range every() {
				s := w.Score(crawlOf(t, order.Run{Web: w, Order: o}))
				area[o] = s.Area
				fmt.Fprintf(&table, "%-31s area %.4f tau %.3f\n", o, s.Area, s.Tau)
			}
			t.Log(table.String())
			for o, x := range area {
				if least := area[order.Omniscient] - (1 - rank) - .01; strings.HasPrefix(o, "historical-") && x < least {
					t.Errorf("%s: area %.4f, want %.4f at least", o, x, least)
				}
			}
		})
	}
}
