package fresh

// A Signal is what is believed of how well a site tells of its changes. The
// zero value has never told anything.
type Signal struct {
	Right, Wrong  float32 // notices, by what the visits after them showed: its precision
	Heard, Missed float32 // changes that visits found: told of before, and not: its recall
	Lag           float32 // days from a change to its notice, on average
	Sure          bool    // it numbers what it tells, and none is missing: its recall is exact
}

// Precision is the expected share of notices that are right.
func (s Signal) Precision() float64 {
	return (float64(s.Right) + .79) / (float64(s.Right) + float64(s.Wrong) + 1)
}

// Recall is the expected share of changes that are told.
func (s Signal) Recall() float64 {
	return (float64(s.Heard) + .5) / (float64(s.Heard) + float64(s.Missed) + 1)
}
