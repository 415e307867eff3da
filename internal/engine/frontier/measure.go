package frontier

// Learn follows measured times, in seconds: .8 of what was known, and .2 of what was measured (Q06). The requests over a connection
// follow in whole steps, at least one. Numbers that are not above 0 were not measured.
func (s *Speed) Learn(connect, response float64, perConnection int) {
	s.Connect, s.Response = moving(s.Connect, connect), moving(s.Response, response)
	if n := perConnection - s.PerConnection; perConnection > 0 && n != 0 {
		switch step := n / 5; {
		case s.PerConnection == 0:
			s.PerConnection = perConnection
		case step != 0:
			s.PerConnection += step
		case n > 0:
			s.PerConnection++
		default:
			s.PerConnection--
		}
	}
}

// moving returns the moving average, in the precision in which it is stored. Each product is rounded before the sum, on every processor.
func moving(old, measured float64) float64 {
	switch {
	case !known(measured):
		return old
	case !known(old):
		return float64(float32(measured))
	}
	return float64(float32(float64(.8*old) + float64(.2*measured)))
}
