package archive

import (
	"math"
	"time"
)

// A schedule says when archives are made, and counts them. Maker.mu guards it.
type schedule struct {
	every time.Duration // see Maker.Every
	now   func() time.Time

	ask     chan struct{} // has a value when an archive is due
	asked   bool          // ask has a value, or Run has just received it
	running bool
	making  bool
	unmade  bool      // the last attempt failed
	began   time.Time // the start of the last attempt
	stats   Stats
}

// isBusy reports whether an archive is being made, or is about to be.
func (s *schedule) isBusy() bool { return s.making || s.asked }

// sinceBegun returns the time since the start of the last attempt.
func (s *schedule) sinceBegun() time.Duration {
	if d := s.now().Sub(s.began); !s.began.IsZero() && d >= 0 {
		return d
	}
	return math.MaxInt64
}

// goneFactor is the least wait between two archives, in multiples of the time that
// it took to make the last one.
const goneFactor = 20

// rest returns how long to wait before the next archive, so that making them takes a
// twentieth of the time. After a failure the interval is at least every.
func (s *schedule) rest() time.Duration {
	rest := goneFactor * s.stats.Took
	if s.unmade {
		rest = max(rest, s.every)
	}
	return max(0, rest-s.sinceBegun())
}
