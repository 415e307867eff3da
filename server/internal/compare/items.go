package compare

import (
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// ItemOf returns the item of an offer that is new to the journal, after reading. Late says that the page was not
// there at the last scan: so it is no older than that, and if nothing states when it changed, that is now.
func ItemOf(o inventory.Offer, now time.Time, late bool) protocol.Item {
	m, span := claim(o, now)
	if m.IsZero() && late && !o.Digest.IsZero() {
		m = now.UTC().Truncate(time.Millisecond)
	}
	return protocol.Item{URL: o.URL, Title: o.Title, Modified: m, Span: span, Length: o.Length, Type: o.Type, Digest: o.Digest,
		Text: o.Text, Language: o.Language, Canonical: o.Canonical}
}

// claim returns when an offer claims to have changed, if the claim is usable.
func claim(o inventory.Offer, now time.Time) (time.Time, time.Duration) {
	m, ok := protocol.SaneModified(o.Modified, now, protocol.DateLimits{})
	switch {
	case !ok:
		return time.Time{}, 0
	case m.Before(o.Modified):
		return m.UTC().Truncate(time.Millisecond), 0 // it was in the future
	}
	return m.UTC().Truncate(time.Millisecond), o.Span
}

// ItemAfter returns the item of a known page after an offer of it was read, and whether followers are told.
func ItemAfter(was protocol.Item, r inventory.Offer, now time.Time) (it protocol.Item, tell bool) {
	it = ItemOf(r, now, false)
	it.Importance = was.Importance
	switch {
	case r.Digest.IsZero():
		return afterClaim(was, it)
	case was.Digest.IsZero():
		// The bytes may have been the same all along: their date stays valid.
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
	// A page's features belong to its bytes: if they are extracted differently, as by a newer Parley or with
	// other masks, that alone is no change for followers. Nor is a length that was unknown.
	it.Modified, it.Span, it.Length = was.Modified, was.Span, was.Length
	if it.Type == "" {
		it.Type = was.Type
	}
	return it, it.Type != was.Type
}

// afterClaim is ItemAfter for an offer without a digest: its claims are all there is. A date that is not
// later than the known one is no change, and the digest and other facts about the bytes are kept.
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
	return it, !it.Equal(was) // nothing else could show that it changed
}

// movedOn returns the modified time of changed bytes: the claimed one if it is after the previous one and not
// in the future, else now; in any case later than the previous one.
func movedOn(claimed, prev, now time.Time) time.Time {
	if claimed.After(prev) && !claimed.After(now) {
		return claimed
	}
	if now = now.UTC().Truncate(time.Millisecond); now.After(prev) {
		return now
	}
	return prev.Add(time.Millisecond)
}

// Significance returns how much of a page's main text an update changed.
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

// leastShare is the smallest share stated for a main text that changed at all: less would look like none.
const leastShare = 0.001
