package protocol

import (
	"math"
	"time"
)

// An Op says what happened to a URL.
type Op string

// The operations. A reader treats an unknown one as Update: the URL is worth
// fetching.
const (
	Create Op = "create" // the URL is offered for the first time, or again
	Update Op = "update" // its bytes changed
	Delete Op = "delete" // it is no longer offered
	Move   Op = "move"   // the bytes of From are offered here now, and From is gone
)

// A Change is one step of one URL. Once a journal has numbered it, every
// delivery of it has the same value.
type Change struct {
	Seq uint64    // place in the epoch, from 1; 0 while not numbered
	At  time.Time // when the journal recorded it, UTC
	Op  Op

	// Item is the URL after the step. After Delete only its URL is set.
	Item Item

	// From is the URL that the bytes had before a Move, else empty.
	From string

	// Prev is the digest before the step, where it is known.
	Prev Digest

	// Before is the page as it was before an Update, without its Text, as the site's
	// journal knows it; nil where that is unknown, and for any other Op. It is not sent: the
	// site uses it to detect that a page no longer matches a reader's filter. Properties beside
	// the bytes, such as the importance, may have changed since they were last sent.
	Before *Item

	// Significance is how much of the page's main text an Update, or a Move
	// onto a page, changed.
	Significance Significance
}

// Departure returns a Move as the Delete of its old URL, for a reader that may
// not learn the new one.
func (c Change) Departure() Change {
	return Change{Seq: c.Seq, At: c.At, Op: Delete, Item: Item{URL: c.From, Length: -1}, Prev: c.Prev}
}

// Public returns the change as it may be published now, and false if it may not be; isPublic reports whether
// a URL is public. A Delete always may: readers that know the page must learn of it. A Move to or from a URL
// that is not public is the Delete or the Create of the other one.
func (c Change) Public(isPublic func(url string) bool) (Change, bool) {
	switch {
	case c.Op == Delete:
	case c.Op == Move && !isPublic(c.Item.URL):
		c.Op, c.Item, c.From, c.Significance = Delete, Item{URL: c.From, Length: -1}, "", 0
	case c.Op == Move && !isPublic(c.From):
		c.Op, c.From, c.Prev, c.Significance = Create, "", Digest{}, 0
	case c.Op != Move && !isPublic(c.Item.URL):
		return c, false
	}
	return c, true
}

// Left returns an Update as a Delete, for a reader whose filter no longer matches the page.
func (c Change) Left() Change {
	return Change{Seq: c.Seq, At: c.At, Op: Delete, Item: Item{URL: c.Item.URL, Length: -1}, Prev: c.Prev}
}

// A Significance is a share from 0 to 1 in thousandths, stored plus one: the
// zero value means unknown, 1 means that nothing of the main text changed, and
// 1001 that all of it did. See [SignificanceOf].
type Significance uint16

// SignificanceOf returns the share, clamped to 0 to 1, as a Significance.
// A share above 0 never becomes 0; NaN is unknown.
func SignificanceOf(share float64) Significance {
	if math.IsNaN(share) {
		return 0
	}
	return 1 + Significance(math.Ceil(1000*min(max(share, 0), 1)))
}

// Share returns the share from 0 to 1, and false if it is unknown.
func (s Significance) Share() (share float64, known bool) {
	if s == 0 {
		return 0, false
	}
	return float64(min(s, 1001)-1) / 1000, true
}

// A Tombstone says that a URL is gone. A Manifest lists one for each Delete, and
// for the old URL of each Move, as long as the site remembers the change.
type Tombstone struct {
	URL  string
	At   time.Time // when it was announced as gone
	Seq  uint64    // the change that announced it
	Prev Digest    // the last digest, where it is known
	To   string    // after a Move, the new URL of its bytes; else empty
}

// Tombstone returns the tombstone that a manifest lists for the change, and
// false if there is none.
func (c Change) Tombstone() (Tombstone, bool) {
	t := Tombstone{At: c.At, Seq: c.Seq, Prev: c.Prev}
	switch c.Op {
	case Delete:
		t.URL = c.Item.URL
	case Move:
		t.URL, t.To = c.From, c.Item.URL
	default:
		return Tombstone{}, false
	}
	return t, true
}
