package fresh

import "time"

// A History is what visits have shown of one page, and what its site and others have said of it since.
type History struct {
	First, Last time.Time     // times of visits; zero: none yet
	Visits      int           // successful ones
	Changes     int           // visits after the first that found other content
	Unchanged   time.Duration // T of (2.2): total time known to be without a change
	Modified    time.Time     // newest time of change that a credible source has stated; zero: unknown
	Belief      Belief        // about how often it changes
	Heard       Hearsay       // since the last visit
}

// Hearsay is what the site of a page and others have said of it at its last visit and since.
type Hearsay struct {
	Notified  bool      // a manifest or a push says that it has changed
	Expires   time.Time // when the response to the visit predicts the next change; zero: it does not
	Confirmed time.Time // until when credible sources say that the page is as found at the visit, discounted by their recall; zero: none does

	Notices int       // notices of a change, since the copy was last known to be right
	Noticed time.Time // time of the first of these; zero: there are none
	Until   time.Time // time of the latest notice, or until when a notice could have come and did not: see [History.Silence]

	// What the notices have added to the Belief, until a visit shows how good they were.
	Dated, Quiet, Seen float32
}

// A Page is a policy's input about one page.
type Page struct {
	History
	Importance float64 // of a fresh copy of it relative to other pages, 0..1: mu
	Length     int64   // of its body, in bytes; 0: unknown
	Site       *Site   // beliefs about its site; nil: none
	Listed     bool    // its site's manifest names it: the manifest's silence is about this page, too
	Directory  uint8   // see the function Directory: a site may announce the changes of some directories only
}

// A Site is what is believed of a site as a whole. Many pages share one, so it is replaced and never
// modified.
type Site struct {
	Prior  Prior   // of how often its pages change
	Signal Signal  // how well it tells of changes
	Tells  bool    // the crawler listens to it now: its silence means something
	Extra  float64 // what a request to it costs above the price, because the site limits requests

	Manifest Manifest // polled now and then, where the site sends no notices

	Predictions Predictions // of when its pages will change
	Audits      *Audits     // nil: none yet
	Tempo       *tempo      // nil: none yet

	doubts  *Audits   // what Audits become if the manifest does not name the changes that visits have found since it was read
	doubted time.Time // Manifest.Read at the first of these
}

// A Policy decides about revisits. It is used by many goroutines, and keeps none of its arguments.
type Policy interface {
	// Profit is the gain of a visit made now: (3.3), V06.
	Profit(p *Page, now time.Time) float64

	// Next is the earliest time at which a visit is worth its cost; the zero
	// time means at once.
	Next(p *Page, now time.Time) time.Time
}
