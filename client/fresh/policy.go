// Package fresh says when a page is worth another visit: what is believed of
// its changes, what a visit would gain, and when. It is pure mathematics: no
// clock, no network, no state.
package fresh

import "time"

// A History is what visits have shown of one page.
type History struct {
	First, Last time.Time     // visits; zero: none yet
	Visits      int           // successful ones
	Changes     int           // visits after the first that found other content
	Unchanged   time.Duration // T of (2.2): total time known to be without a change
	Modified    time.Time     // newest time of change that anybody credible has stated; zero: unknown
	Told        bool          // a manifest or a push says that it changed after Last
	Confirmed   time.Time     // newest time at which anybody credible has said that it is as it was at Last; zero: nobody has
}

// A Policy decides about revisits.
type Policy interface {
	Name() string

	// Profit is what a visit now would gain, given the page's intrinsic
	// quality (0..1): (3.3), V06.
	Profit(h History, quality float64, now time.Time) float64

	// Next is the earliest time at which a visit is worth its cost; the zero
	// time means at once.
	Next(h History, quality float64, now time.Time) time.Time
}
