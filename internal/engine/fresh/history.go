package fresh

import (
	"math"
	"time"
)

// Visit returns the history after a successful visit: changed says whether the content differs from that of
// the visit before, and modified is the site's credible date of this content, zero if there is none. The
// first visit is no change. A visit before the last one counts as one at the same time.
func (h History) Visit(at time.Time, changed bool, modified time.Time) History {
	if modified.After(at) {
		modified = at
	}
	if h.Visits <= 0 {
		h = History{First: at, Last: at, Visits: 1, Modified: modified}
		if !modified.IsZero() {
			h.Belief.changedAt(days(at.Sub(modified)))
		}
		return h
	}
	if at.Before(h.Last) {
		at = h.Last
	}
	h.observe(at, changed, modified)
	h.Visits++
	if changed {
		h.Changes++
	}
	h.Last, h.Heard = at, Hearsay{}
	return h
}

// observe adds to T what the interval since the copy was last known to be right shows (E11). An interval with
// an undated change shows nothing.
func (h *History) observe(at time.Time, changed bool, modified time.Time) {
	from := h.confirmed()
	if modified.After(h.Modified) || changed {
		h.Modified = modified
	}
	switch {
	case !changed:
		h.Unchanged += span(from, at)
	case !modified.IsZero() && modified.After(from):
		h.Unchanged += span(modified, at)
	}
	told := h.unsay(changed)
	h.Belief.Unchanged(told * days(span(h.Heard.Until, at)))
	var b Belief
	switch {
	case !changed:
		b.Unchanged(days(span(from, at)))
	case !modified.IsZero() && modified.After(from):
		b.changedAt(days(span(modified, at)))
	default:
		b.Changed(days(span(from, at)))
	}
	h.Belief.add(float32(1-told), &b)
}

// unsay removes from the belief what notices have added, except for the part that a visit confirms, and
// returns the probability that they told of what the visit found: that part is learned already. Otherwise the
// belief about a site's pages could be no better than the site's word.
func (h *History) unsay(changed bool) (told float64) {
	said := h.Heard
	if said.Notices <= 0 {
		return 0
	}
	n, more := float64(said.Notices), float32(-1)
	for _, f := range []*float32{&said.Dated, &said.Quiet, &said.Seen} {
		*f = float32(bounded(float64(*f), 1e6))
	}
	precision := float64(amountOf(float64(said.Dated+said.Seen) / n))
	if right := 1 - math.Pow(1-precision, n); changed && right > 0 {
		const untold = .2 // how likely an untold change is, relative to a told one
		told = right / (right + untold*(1-right))
		more = float32(told/right) - 1 // correction of the expected number of right notices, since one was right
	}
	h.Belief.Dated = max(0, h.Belief.Dated+more*said.Dated)
	h.Belief.Quiet = max(0, h.Belief.Quiet-float32(1-told)*said.Quiet)
	if said.Seen > 0 { // in intervals that are not stored one by one
		var b Belief
		b.Changed(days(span(h.confirmed(), said.Until)) / n)
		missing := float32(0)
		for i, n := range b.Seen {
			seen := h.Belief.Seen[i] + more*said.Seen*n
			h.Belief.Seen[i] = max(0, seen)
			missing -= min(0, seen)
		}
		h.Belief.unsee(missing, &b)
	}
	return told
}

// WithoutNotices returns the history after the notices since the copy was last known to be right have turned out to
// be worthless, without a visit: the page counts as not changed, and the belief loses what they added. A date
// after the last visit came from them; the date before that one is lost.
func (h History) WithoutNotices() History {
	h.unsay(false)
	h.Heard = Hearsay{Expires: h.Heard.Expires, Confirmed: h.Heard.Confirmed}
	if h.Modified.After(h.Last) {
		h.Modified = time.Time{}
	}
	return h
}

// Confirm returns the history after a credible source, such as a manifest made at a time, says that the page
// is as it was at the last visit: an observation without a change, which costs no visit (F16, E14).
func (h History) Confirm(at time.Time) History { return h.Silence(at, 1) }

// Silence returns the history after a source that tells of a share of all changes has told of none until a
// time: that share of the time since it was last heard counts as observed by a visit, and the rest as
// unobserved.
func (h History) Silence(until time.Time, share float64) History {
	from := h.heard()
	if h.Visits <= 0 || h.Heard.Notified || h.Heard.Notices > 0 || !until.After(from) {
		return h
	}
	quiet := until.Sub(from)
	if share = bounded(share, 1); share < 1 {
		quiet = time.Duration(share * float64(quiet))
		h.Heard.Until = until
	}
	h.Unchanged += quiet
	h.Belief.Unchanged(days(quiet))
	h.Heard.Confirmed = h.confirmed().Add(quiet)
	return h
}

// heard is the time until which the page's notices, or their absence, are known.
func (h History) heard() time.Time {
	if from := h.confirmed(); from.After(h.Heard.Until) {
		return from
	}
	return h.Heard.Until
}

// Notice returns the history after a source said that the page has changed, at modified if that is not zero.
// Precision is the share of its notices that are right, and recall the share of all changes that it reports
// one by one: 0 for a source that is polled now and then for what differs by now. Both are between 0 and 1.
//
// Notices alone teach the rate of a page that is not worth a visit. A notice counts with its precision, so
// that those of a liar count nothing.
func (h History) Notice(at, modified time.Time, precision, recall float64) History {
	if h.Visits <= 0 {
		return h
	}
	from, said := h.heard(), &h.Heard
	if said.Notices <= 0 {
		said.Dated, said.Quiet, said.Seen = 0, 0, 0
	}
	p, r := amountOf(precision), amountOf(recall)
	before := h.Belief
	since := days(span(from, at))
	switch {
	case r > 0: // the silence until now counts, too
		h.Belief.Unchanged(since * float64(r))
		h.Belief.Dated += p
	case !modified.IsZero() && modified.After(from) && !modified.After(at):
		h.Belief.Unchanged(days(span(modified, at)) * float64(p))
		h.Belief.Dated += p
	default:
		var b Belief
		b.Changed(since)
		h.Belief.add(p, &b)
		said.Seen += p
	}
	said.Dated += h.Belief.Dated - before.Dated
	said.Quiet += h.Belief.Quiet - before.Quiet
	if said.Notices++; said.Notices == 1 {
		said.Noticed = at
	}
	if at.After(said.Until) {
		said.Until = at
	}
	return h
}

// amountOf limits a share to 0..1; NaN becomes 0.
func amountOf(x float64) float32 {
	if !(x > 0) {
		return 0
	}
	return float32(min(x, 1))
}

func days(d time.Duration) float64 { return d.Hours() / 24 }
