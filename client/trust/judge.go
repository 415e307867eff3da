package trust

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Claim is what a notice says of one page.
type Claim struct {
	At       time.Time       // when it came
	Modified time.Time       // as it says; zero: it does not
	Digest   protocol.Digest // that the page has now; zero: not said
	Gone     bool            // the page is no longer there
}

// A Seen is what the visit that followed showed.
type Seen struct {
	Asked  time.Time // when
	Status int       // 0: no answer, or not a whole one

	Digest   protocol.Digest // of the body; that of the copy for a 304
	Modified time.Time       // Last-Modified, if it is credible

	// Changed: it is other content than the copy. Whoever knows says so by the
	// content as parsed, or its main text: a page with a clock in its footer
	// proves nobody right.
	Changed bool

	Soft404   bool // it looks like what the site answers for what does not exist
	Duplicate bool // of another page of the site

	// The copy that was held before. Zero Last: none, the page was new to us.
	Last        time.Time // visit before
	LastChanged bool      // that visit brought other content, or was the first

	// Again says that the page is about to be asked again since it is not
	// what was told: there may be a cache in between.
	Again bool

	// Later says that another notice of the page has come since Asked.
	Later bool
}

// grace is how long a notice may be under way: a change that a visit has found
// by itself may still be announced so much later, and is no lie.
const grace = 10 * time.Minute

// Judge says what a notice turned out to be. An answer that is none of the
// page's own (a failure, a refusal, a limit) proves nothing. So does what was
// under way while we looked. A digest that the page does not have is a lie; one
// that it has is not, whatever else.
func Judge(c Claim, s Seen) Outcome {
	gone := s.Status == 404 || s.Status == 410 || s.Status == 200 && s.Soft404
	moved := s.Status >= 300 && s.Status < 400 && s.Status != 304
	known := !s.Last.IsZero()
	switch {
	case c.Gone && gone:
		return Right
	case c.Gone && (s.Status == 200 || s.Status == 304):
		return unless(s.Again || s.Later, Wrong)
	case c.Gone:
		return Void
	case gone && known: // IndexNow and others do not say what has happened
		return Right
	case gone: // a page that never was
		return unless(s.Later, Wrong)
	case moved && known:
		return unless(!s.Changed, Right)
	case s.Status != 200 && s.Status != 304:
		return Void
	case !c.Digest.IsZero() && c.Digest == s.Digest:
		return Right
	case s.Again || s.Later:
		return Void
	case !c.Digest.IsZero() && s.Changed && s.Modified.After(c.At):
		return Void // it has changed again, and that notice is on its way
	case !c.Digest.IsZero():
		return Wrong
	case !known:
		return unless(s.Duplicate, Right)
	case s.Changed:
		return Right
	case !c.Modified.IsZero() && c.Modified.Before(s.Last):
		return Void // true perhaps, and told too late
	case s.LastChanged && c.At.Before(s.Last.Add(grace)):
		return Void // the visit before has found it already
	}
	return Wrong
}

func unless(void bool, o Outcome) Outcome {
	if void {
		return Void
	}
	return o
}
