package fresh

import "time"

// A History is what visits have shown of one page, and what others have said
// of it since.
type History struct {
	First, Last time.Time     // visits; zero: none yet
	Visits      int           // successful ones
	Changes     int           // visits after the first that found other content
	Unchanged   time.Duration // T of (2.2): total time known to be without a change
	Modified    time.Time     // newest time of change that anybody credible has stated; zero: unknown
	Told        bool          // a manifest or a push says that it changed after Last
	Confirmed   time.Time     // until when somebody credible has said that it is what was found at Last, for as much as that is worth; zero: nobody has

	Belief  Belief    // in how often it changes
	Notices int       // of a change, since it was last known to be right
	Noticed time.Time // the first of these; zero: there are none
	Heard   time.Time // when anything was last said of it, or could have been and was not: see [History.Silence]

	// What the notices have added to Belief, until a visit shows what they were worth.
	Said, SaidQuiet, SaidSeen float32
}

// A Page is what a policy is told of one page.
type Page struct {
	History
	Importance float64 // of a fresh copy of it beside others, 0..1: mu
	Length     int64   // of its body, in bytes; 0: unknown
	Site       *Site   // what is believed of its site; nil: nothing
	Listed     bool    // its site's manifest names it: what that does not say is about this page, too
}

// A Site is what is believed of a site as a whole. Many pages share one, so it
// is replaced and never changed.
type Site struct {
	Prior  Prior   // of how often its pages change
	Signal Signal  // how well it tells of changes
	Tells  bool    // it is listened to now: its silence means something
	Extra  float64 // what a request to it costs above the price, since it takes only so many

	Manifest Manifest // that is read now and then, where it does not tell by itself
}

// A Policy decides about revisits. It is used by many goroutines, and keeps none of what it is given.
type Policy interface {
	Name() string

	// Profit is what a visit now would gain: (3.3), V06.
	Profit(p *Page, now time.Time) float64

	// Next is the earliest time at which a visit is worth its cost; the zero
	// time means at once.
	Next(p *Page, now time.Time) time.Time
}
