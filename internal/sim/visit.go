package sim

// look returns when to recompute the due time of a page whose visit pays at time at, if nothing changes. The
// price may fall until then, and placing all pages anew whenever it does would take long. So a newly placed
// page is looked at when it would pay at half the price, and then after half of each remaining wait, until
// little is left.
func (e *engine) look(i int, at float64, again bool) float64 {
	r, ok := e.rule.(*learning)
	p := &e.pages[i]
	if !ok || at-e.now < .15*(at-daysAt(p.Last)) {
		return at
	}
	soon := e.now + (at-e.now)/2
	if !again {
		price := r.priced.Price
		r.priced.Price = price / 2
		soon = max(daysAt(r.priced.Next(&p.Page, clock(e.now))), e.now+(at-e.now)/4)
		r.priced.Price = price
	}
	// A page that does not pay at any age is looked at as often as plans are made, and one with notices once
	// a day: many pages may get notices at once, and then the price decides how soon each is visited.
	most := max(1, e.now/12)
	if p.Heard.Notices > 0 {
		most = 1
	}
	return min(at, soon, e.now+most)
}

// looks reports whether due pages may be too soon, since look placed them.
func (e *engine) looks() bool { _, ok := e.rule.(*learning); return ok }
