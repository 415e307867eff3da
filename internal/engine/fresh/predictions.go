package fresh

import "time"

// Predictions count how often a site's predictions of the next change of its pages were right: Expires, or max-age (C37). Old ones
// weigh less. Most such headers only say how long a cache may answer without asking, so none counts before visits have shown what the
// site's are worth.
type Predictions struct {
	Right float32 `json:"right"`
	Wrong float32 `json:"wrong"`
}

// judgedNear is how many times earlier or later than predicted a visit may be to prove a prediction right. A visit long before can hardly
// find a change, and one long after can hardly miss it, whatever was predicted. To find the contrary proves it wrong at any time.
const judgedNear = 3

// Visited judges the prediction for a page by a visit, given the history before it: it was wrong if the page had changed and was not to
// change by then, or the other way round.
func (p *Predictions) Visited(before *History, at time.Time, changed bool) {
	lasts, since := span(before.Last, before.Heard.Expires), span(before.Last, at)
	switch {
	case before.Visits <= 0 || lasts == 0 || since == 0:
		return
	case changed != (since >= lasts):
		p.Wrong++
	case since >= lasts/judgedNear && since/judgedNear <= lasts:
		p.Right++
	}
	forget(manyJudged, &p.Right, &p.Wrong)
}

// hinted returns the belief about a page with the prediction that came with its only visit: it counts as one change in that time, less
// if the site is often wrong, and not at all if it is no better than a coin. A second visit shows more than any prediction.
func (p Predictions) hinted(h *History) *Belief {
	right, wrong, lasts := count(p.Right), count(p.Wrong), days(span(h.Last, h.Heard.Expires))
	worth := (right - wrong) / (right + wrong + 2)
	if worth <= 0 || lasts == 0 || h.Visits != 1 {
		return &h.Belief
	}
	b := h.Belief
	b.Unchanged(worth * lasts)
	b.Dated += float32(worth)
	return &b
}
