// Package sim runs the crawler's own policies on simulated webs: pages that change at known times, sites that
// tell of it well, badly or not at all, and a budget. It measures how fresh the copies were, next to the best
// freshness possible.
//
// A [World] is the web; a [Run] is a policy, a budget and a stretch of time in it. [Simulate] goes from event
// to event, never in steps of a clock, and has one queue, the frontier's, ordered by the time at which each
// visit becomes worth its price. The same Run gives the same [Result] on every machine. Bounds such as
// [PollBound] are computed from the true rates alone, without the engine.
//
// A run consists of the living world, which is the truth; the view, which is the crawler's knowledge; a rule,
// which chooses pages; the agenda, with the times of the next actions; the budget; and the ledger, which
// scores. The engine joins them. It is one goroutine without locks, and many may run at once.
//
// Times are days from the start of a run; rates are changes a day. Importance is a weight, and all weights of
// a world sum to 1: freshness is the share of importance whose copy is right, and age the mean time for which
// a copy has been wrong, in days, 0 for a right one.
package sim
