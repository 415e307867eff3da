package trust

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Claim is the content of a notice about one page.
type Claim struct {
	At       time.Time       // when the notice came
	Modified time.Time       // as stated; zero: not stated
	Digest   protocol.Digest // of the page as it is now; zero: not stated
	Text     protocol.Digest // of its main text; zero: not stated
	Length   int64           // in bytes; 0: not stated
	Gone     bool            // the page is no longer there
}

// A Seen is the result of the visit after the notice.
type Seen struct {
	Asked  time.Time // time of the request
	Status int       // 0: no response, or an incomplete one

	Digest   protocol.Digest // of the body; for a 304, of the copy
	Text     protocol.Digest // of its main text; zero: not known
	Length   int64           // of the body in bytes, as far as it was read
	Cut      bool            // the body is longer than that
	Modified time.Time       // Last-Modified, if it is credible

	// Unstable: the body differs at each request, of this page or of its site in general, so that its digest
	// proves nothing. Varying: so does the main text, or it is unknown whether it does.
	Unstable, Varying bool
	TextProved        bool // the site's digests of main texts have been right before

	// Changed: the content differs from the copy. Callers that can should compare the parsed content, or the
	// main text: a page with a clock in its footer confirms no notice.
	Changed bool

	Soft404   bool // it looks like the site's response to a URL that does not exist
	Duplicate bool // of another page of the site

	// The copy before this visit. Zero Last: none, the page was new to us.
	Last        time.Time // visit before
	LastChanged bool      // that visit brought other content, or was the first

	// Again says that the page is about to be fetched again since it does not match the notice: there may be
	// a cache in between.
	Again bool

	// Later says that another notice of the page has come since Asked.
	Later bool
}

// grace is how late a notice may be: a change that a visit has found by itself may still be announced so much
// later, and that is no lie.
const grace = 10 * time.Minute

// Judge returns the outcome of a notice. A response that is not the page's own (a failure, a refusal, a
// limit) proves nothing, nor does a change in flight during the visit. A digest that the page does not have
// is a lie; one that it has is right, whatever else. But a digest judges only a body that is whole and
// stable: an unstable one is judged by its main text, or not at all; and one that was cut by its length
// alone, which the site must not have stated to be less.
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
	case gone && known: // IndexNow and others do not say which kind of change it was
		return Right
	case gone: // a page that never existed
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
		return Void // it has changed again, by its date to the second, and that notice is still to come
	case !c.Digest.IsZero():
		return Wrong
	case !known:
		return unless(s.Duplicate, Right)
	case s.Changed:
		return Right
	case !c.Modified.IsZero() && c.Modified.Before(s.Last):
		return Void // perhaps true, but too late
	case s.LastChanged && c.At.Before(s.Last.Add(grace)):
		return Void // the visit before found it already
	}
	return Wrong
}

// byText judges a notice of a page whose body differs at each request. An unchanged text proves a lie only if
// the site stated a digest of it, and its digests of main texts are known to match ours.
func byText(c Claim, s Seen) Outcome {
	switch {
	case s.Varying || s.Cut || s.Text.IsZero():
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
