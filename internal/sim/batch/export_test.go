package batch

// This file exports internals to the tests.

// Servers draws the latency factors, speeds and limits of servers.
func (n *Network) Servers(count int) (slow, speed []float64, limit []int) {
	for i := range count {
		s := n.server(uint32(i))
		slow, speed, limit = append(slow, s.slow), append(speed, s.speed), append(limit, s.limit)
	}
	return slow, speed, limit
}

// Takes returns how long a request for a page takes, with connecting, if nobody else uses the link.
func (n *Network) Takes(server, page uint32, bytes float64) float64 {
	s := n.server(server)
	q := n.request(&s, page, bytes)
	return q.connect + q.response + q.transfer + bytes/n.Link
}

// Shared returns when transfers end that begin at these times, in ascending order, over a link.
func Shared(rate float64, begin, bytes []float64) []float64 {
	l := link{rate: rate}
	end := make([]float64, len(begin))
	finish := func() {
		now, done := l.finish()
		done()
		for i := range end {
			if end[i] < 0 {
				end[i] = now
			}
		}
	}
	for i, at := range begin {
		for len(l.running) > 0 && l.next() <= at {
			finish()
		}
		l.start(at, bytes[i], i, func() { end[i] = -1 })
	}
	for len(l.running) > 0 {
		finish()
	}
	return end
}

// Stanford is stanford.
var Stanford = stanford
