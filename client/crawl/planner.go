package crawl

import (
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A planner decides when pages and manifests are fetched again. run chooses one of three: revisits, whose budget sets a price;
// estimates, where the policy has no price; and unplanned, for a copy of one site.
type planner interface {
	visitPlan
	pollPlan

	// announced learns from a step of a source, which left so many pages pending. The work's lock is held.
	announced(st *site, step *client.Step, by collection.Signal, pending int)

	// visited learns from a visit, and charges it to the budget. It reports whether the site's manifest may still show the
	// change that the visit found. The work's lock is held.
	visited(st *site, v *collection.Visit, d *collection.Visited, of *judgement.Verdict) (unsure bool)

	// price returns the price of a request, in gain; 0 if it is not known, or there is none.
	price() float64

	// report adds the planner's figures to a status. The work's lock is held.
	report(s *Status)
}

// unplanned is the planner of a copy: its site says when to fetch a page, so that nothing is estimated. It has no plan and no price, and
// neither have the estimates.
type unplanned struct{ every time.Duration } // between two polls of the manifest

func (unplanned) ready() bool                            { return true }
func (unplanned) prices() bool                           { return false }
func (unplanned) price() float64                         { return 0 }
func (unplanned) early(*collection.Page, time.Time) bool { return false }
func (unplanned) begins(*site, *collection.Page)         {}
func (unplanned) returned(frontier.PageID)               {}
func (unplanned) publishes(*site)                        {}
func (unplanned) report(*Status)                         {}

func (unplanned) announced(*site, *client.Step, collection.Signal, int) {}

func (unplanned) visited(*site, *collection.Visit, *collection.Visited, *judgement.Verdict) bool {
	return false
}

func (u unplanned) nextPoll(st *site, last time.Time) time.Duration {
	st.polled = last
	return u.every
}
