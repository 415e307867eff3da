package sim

// A feedScore adds up how late a run finds the items of its feeds, from a day on.
type feedScore struct {
	from                  float64
	slots                 int
	most, total           int // pending, in the feed with most and in all: sums over the slots
	polls, fruitful, lost int
	delay                 float64 // item-days
}

// slot counts a slot, with the items that are pending before its polls.
func (s *feedScore) slot(day float64, most, total int) {
	if day > s.from {
		s.slots++
		s.most += most
		s.total += total
	}
}

// poll counts a poll of a feed, which finds all pending items except for those that are lost.
func (s *feedScore) poll(f *feedState, day float64, lost int) {
	if day > s.from {
		s.polls++
		if len(f.pending()) > 0 {
			s.fruitful++
		}
		s.lost += lost
	}
	s.found(f, day)
}

// found adds the delay of a feed's pending items, as far as it falls into the scored time.
func (s *feedScore) found(f *feedState, day float64) {
	if day <= s.from {
		return
	}
	for _, t := range f.pending() {
		s.delay += (day - max(t, s.from)) * f.weight()
	}
}

// result is the part of the result that follows from the score.
func (s *feedScore) result(feeds []feedState) *FeedResult {
	r, items := &FeedResult{}, 0.
	for i := range feeds {
		f := &feeds[i]
		for _, t := range f.Items[:f.published] {
			if t > s.from {
				r.Items++
				items += f.weight()
			}
		}
	}
	if items > 0 {
		r.Delay = s.delay * 24 * 60 / items
	}
	n := float64(s.slots)
	r.Pending, r.Total, r.Polls = float64(s.most)/n, float64(s.total)/n, float64(s.polls)/n
	r.Lost = float64(s.lost) / max(1, float64(r.Items))
	r.Fruitful = float64(s.fruitful) / max(1, float64(s.polls))
	return r
}
