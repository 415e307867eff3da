package client

import (
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// A schedule says when the manifest, or the archive in its place, is to be read again.
type schedule struct {
	src    *Source // Poll, Every, Hurry
	due    time.Time
	spared time.Time // because of a failure it is not read before then
	broken int       // failures in a row to read it to its end
}

// renew sets when it is due again.
func (s *schedule) renew() {
	wait := around(s.src.Poll)
	if s.src.Every != nil {
		wait = max(pause.AtMost(time.Second, s.src.Hurry), s.src.Every())
	}
	s.due = time.Now().Add(wait)
}

// read records how the reading of a manifest that began at begun has ended.
func (s *schedule) read(begun time.Time, err error) {
	took := time.Since(begun)
	wait := min(manifestTax*took, max(s.src.Poll, longestWait))
	if err == nil {
		s.broken = 0
	} else { // each failure in a row to read it to its end doubles the wait
		wait = max(wait, min(took<<min(s.broken, 16), longestBroken))
		s.broken++
	}
	s.spared = time.Now().Add(pause.AtMost(wait, s.src.Hurry))
}
