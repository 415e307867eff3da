// Package sim lets the crawler's own policies loose on webs that exist only in
// numbers: pages that change at known times, sites that tell of it well, badly or
// not at all, and a budget. It says how fresh the copies were, and beside that how
// fresh they could have been at most.
//
// A [World] is what changes; a [Run] is a policy, a budget and a stretch of time in it.
// [Simulate] goes from event to event, never in steps of a clock, and keeps one queue, the
// frontier's, by the time at which each visit becomes worth its price. The same Run
// gives the same [Result] on every machine. Bounds such as [PollBound] are computed
// from the true rates alone and know nothing of the engine.
//
// Times are days from the start of a run; rates are changes a day. Importance is a
// weight, and all weights of a world together are 1, so that freshness is the share
// of importance of which the copy is right, and age the mean time for which a copy has
// been wrong, in days, 0 for a right one.
package sim
