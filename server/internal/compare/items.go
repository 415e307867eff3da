package compare

import (
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// ItemOf is the item that an offer, read, describes for the first time. Late
// says that it was not there before: then it cannot be older than the last
// look, and where nobody says when it changed, that is now.
func ItemOf(o inventory.Offer, now time.Time, late bool) protocol.Item {
	m, span := claim(o, now)
	if m.IsZero() && late && !o.Digest.IsZero() {
		m = now.UTC().Truncate(time.Millisecond)
	}
	return protocol.Item{URL: o.URL, Title: o.Title, Modified: m, Span: span, Length: o.Length, Type: o.Type, Digest: o.Digest,
		Text: o.Text, Language: o.Language, Canonical: o.Canonical}
}

// claim is when an offer claims to have changed, as far as that is of use.
func claim(o inventory.Offer, now time.Time) (time.Time, time.Duration) {
	m, ok := protocol.SaneModified(o.Modified, now)
	switch {
	case !ok:
		return time.Time{}, 0
	case m.Before(o.Modified):
		return m.UTC().Truncate(time.Millisecond), 0 // it was to come
	}
	return m.UTC().Truncate(time.Millisecond), o.Span
}

// ItemAfter is the item of a present page once an offer of it was read, and
// whether that is to be told.
func ItemAfter(was protocol.Item, r inventory.Offer, now time.Time) (it protocol.Item, tell bool) {
	it = ItemOf(r, now, false)
	it.Importance = was.Importance
	switch {
	case r.Digest.IsZero():
		return afterClaim(was, it)
	case was.Digest.IsZero():
		// The bytes may have been these all the time: their date is as good as it was.
		if it.Modified.Before(was.Modified) {
			it.Modified, it.Span = was.Modified, was.Span
		}
		return it, true
	case it.Digest != was.Digest:
		if m := movedOn(it.Modified, was.Modified, now); !m.Equal(it.Modified) {
			it.Modified, it.Span = m, 0
		}
		return it, true
	}
	// What a page says of itself belongs to the bytes: where it is read
	// otherwise than it was, as by a newer Parley or with other masks, that
	// alone is nothing to tell everybody. Nor is a length that nobody knew.
	it.Modified, it.Span, it.Length = was.Modified, was.Span, was.Length
	if it.Type == "" {
		it.Type = was.Type
	}
	return it, it.Type != was.Type
}

// afterClaim is after for an offer that knows nothing of the bytes: what it
// claims is all there is. A date that is not later than the one known is no
// news, and what is known of the bytes stays known.
func afterClaim(was, it protocol.Item) (protocol.Item, bool) {
	if it.Title == "" {
		it.Title = was.Title
	}
	if it.Type == "" {
		it.Type = was.Type
	}
	if it.Modified.After(was.Modified) {
		return it, true
	}
	dated := !was.Modified.IsZero()
	it.Modified, it.Span, it.Digest, it.Text = was.Modified, was.Span, was.Digest, was.Text
	if it.Length < 0 {
		it.Length = was.Length
	}
	if dated {
		return it, it.Length != was.Length || it.Type != was.Type
	}
	return it, !it.Equal(was) // nothing else could tell that it changed
}

// movedOn is the honest modified of bytes that have changed: what they claim
// where that lies after the previous one, else now; in any case later.
func movedOn(claimed, prev, now time.Time) time.Time {
	if claimed.After(prev) && !claimed.After(now) {
		return claimed
	}
	if now = now.UTC().Truncate(time.Millisecond); now.After(prev) {
		return now
	}
	return prev.Add(time.Millisecond)
}

// significance is how much of a page's main text an update changed.
func Significance(was, now journal.Entry) protocol.Significance {
	a, b := was.Item.Text, now.Item.Text
	if a.IsZero() || b.IsZero() {
		return 0
	}
	if a == b {
		return protocol.SignificanceOf(0)
	}
	share, known := maintext.Share(was.Sketch, now.Sketch)
	if !known {
		return 0
	}
	return protocol.SignificanceOf(max(share, leastShare))
}

// leastShare is the share of a main text that changed at all: less could not
// be told from nothing.
const leastShare = 0.001
