// Package fresh says when a page is worth another visit: what is believed of
// its changes, what a visit would gain, and when. It is pure mathematics: no
// clock, no network, no state.
//
// All rates are in changes a day, and all ages and intervals that are numbers
// are in days. Whatever numbers come in, no NaN and no time out of range goes out.
//
// # One price
//
// A crawler can visit as much in a day as its budget allows. What it should visit is whatever gains
// most for what it costs, and so there is a price above which everything is
// visited and below which nothing is: the same for all pages, and for manifests and
// notices, too. The parts follow one another:
//
//   - A [Belief] has all that was observed of one page: visits, dates, notices. With the [Prior] of
//     its site it makes a [Posterior], the probability of each of 40 rates of change.
//   - An [Objective] says what an outdated copy costs. From it and a Posterior follows
//     the gain of a visit after so many days, the index W.
//   - A [Signal] is how well a site tells of its changes: with it, W counts what was
//     heard, or would have been.
//   - [Priced] is the policy: to visit a page as soon as importance x W is worth the price.
//   - A [Planner] finds the price in one pass over all pages, and for a site with a manifest how often that is
//     polled. A [Bucket] corrects it by what was really spent.
//   - A pool learns from all pages what the next one will be like: the Prior.
//
// Nothing of this is a feedback loop but the Bucket: the plan is computed from what is
// believed, and is the optimum if that is true (see the bounds of package sim).
//
// [Thesis] is Castillo's own policy, by profit, and the baseline.
package fresh
