// Package fresh decides when a page is worth another visit: its estimated rate of change, the expected gain
// of a visit, and its time. It is pure mathematics: no clock, no network, no state.
//
// All rates are in changes a day, and all ages and intervals that are numbers are in days. For any input, no
// result is NaN and no time is out of range.
//
// # One price
//
// A crawler can visit as much in a day as its budget allows, and should make the visits that gain most for
// their cost. So there is a price above which every visit is made and below which none is, the same for all
// pages, for manifests and for notices. The parts build on one another:
//
//   - A [Belief] has all observations of one page: visits, dates, notices. With the [Prior] of its
//     site it makes a [Posterior], the probability of each of 40 rates of change.
//   - An [Objective] is the cost of an outdated copy. From it and a Posterior follows the gain of a
//     visit after so many days, the index W.
//   - A [Signal] is how well a site tells of its changes: with it, W accounts for notices and for
//     silence.
//   - [Priced] is the policy: to visit a page as soon as importance x W is worth the price.
//   - A [Planning] finds the price in one pass over all pages, and how often each site's manifest is
//     polled. A [Bucket] corrects the price by the actual spending.
//   - A pool learns the Prior of the next page from all pages.
//
// Only the Bucket is a feedback loop: the plan is computed from the beliefs, and is the optimum if they are
// true (see the bounds of package sim).
//
// [Thesis] is Castillo's own policy, by profit, and the baseline.
package fresh
