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
	Text     protocol.Digest // of its main text; zero: not said
	Length   int64           // in bytes; 0: not said
	Gone     bool            // the page is no longer there
}

// A Seen is what the visit that followed showed.
type Seen struct {
	Asked  time.Time // when
	Status int       // 0: no answer, or not a whole one

	Digest   protocol.Digest // of the body; that of the copy for a 304
	Text     protocol.Digest // of its main text; zero: not known
	Length   int64           // of the body in bytes, as far as it was read
	Cut      bool            // the body is longer than that
	Modified time.Time       // Last-Modified, if it is credible

	// Unstable: the body differs at each request, of this page or of its site in general, so that its
	// digest says nothing. Restless: so does the main text, or it is not known whether it does.
	Unstable, Restless bool
	TextProved         bool // digests of main texts that the site told have been right before

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
// that it has is not, whatever else. But it judges only a body that is whole and stable: an unstable
// one is judged by its main text, or not at all; and one that was cut by its length alone, which
// the site must not have told to be less.
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
	case !c.Digest.IsZero() && s.Unstable:
		return unless(s.Later, byText(c, s))
	case s.Again || s.Later:
		return Void
	case !c.Digest.IsZero() && s.Cut:
		return unless(c.Length <= 0 || c.Length > s.Length, Wrong)
	case !c.Digest.IsZero() && (s.Changed || s.LastChanged) && !s.Modified.Before(c.At.Truncate(time.Second)):
		return Void // it has changed again, by what it says to the second, and that notice is on its way
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

// byText judges a notice of a page whose body differs at each request. A text that has not changed proves
// a lie only if the site said that it has, and is known to mean by a main text what we do.
func byText(c Claim, s Seen) Outcome {
	switch {
	case s.Restless || s.Cut || s.Text.IsZero():
		return Void
	case c.Text == s.Text, s.Changed:
		return Right
	case !c.Text.IsZero() && s.TextProved:
		return Wrong
	}
	return Void
}

func unless(void bool, o Outcome) Outcome {
	if void {
		return Void
	}
	return o
}
