package sim

// look is when to look at a page again whose visit pays at a time, if all stays as it is. The price
// may fall until then, and to find all places anew whenever it does would take long. So a page that
// has got a new place is looked at when it would pay at half the price, and then
// after half of each wait that is left, until little is.
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
	// What does not pay at any age is looked at as often as plans are made, and what was told of once a day:
	// many pages may be told of at one time, and then it is the price that says how soon each is visited.
	most := max(1, e.now/12)
	if p.Notices > 0 {
		most = 1
	}
	return min(at, soon, e.now+most)
}

// looks reports whether a page that is due may be due too soon, since it was placed by look.
func (e *engine) looks() bool { _, ok := e.rule.(*learning); return ok }
