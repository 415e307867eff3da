package fresh

import "time"

// Visit returns the history after a successful visit: changed says whether
// other content was found than before, and modified is when the site says that
// this came to be, zero if it does not credibly say so. The first visit is no
// change. A visit before the last one counts as one at the same time.
func (h History) Visit(at time.Time, changed bool, modified time.Time) History {
	h.Told, h.Notices, h.Noticed = false, 0, time.Time{}
	if modified.After(at) {
		modified = at
	}
	if h.Visits <= 0 {
		h = History{First: at, Last: at, Visits: 1, Modified: modified}
		if !modified.IsZero() {
			h.Belief.ChangedAt(days(at.Sub(modified)))
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
	h.Last, h.Confirmed = at, time.Time{}
	return h
}

// observe adds to T what the interval since the copy was last known to be
// right tells (E11). Without a date nothing is known of one with a change.
func (h *History) observe(at time.Time, changed bool, modified time.Time) {
	from := h.confirmed()
	if modified.After(h.Modified) || changed {
		h.Modified = modified
	}
	switch {
	case !changed:
		h.Unchanged += span(from, at)
		h.Belief.Unchanged(days(span(from, at)))
	case !modified.IsZero() && modified.After(from):
		h.Unchanged += span(modified, at)
		h.Belief.ChangedAt(days(span(modified, at)))
	default:
		h.Belief.Changed(days(span(from, at)))
	}
}

// Confirm returns the history after somebody credible, such as a manifest made at
// a time, says that the page is what it was at the last visit: an observation
// without a change, which costs no visit (F16, E14).
func (h History) Confirm(at time.Time) History {
	if from := h.confirmed(); h.Visits > 0 && !h.Told && at.After(from) {
		h.Unchanged += at.Sub(from)
		h.Belief.Unchanged(days(at.Sub(from)))
		h.Confirmed = at
	}
	return h
}

func days(d time.Duration) float64 { return d.Hours() / 24 }
