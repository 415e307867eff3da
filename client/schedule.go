package client

import (
	"time"

	"github.com/parleyweb/parley/internal/pause"
)

// A schedule says when the manifest, or the archive in its place, is to be read again.
type schedule struct {
	src    *Source   // Poll, Every, Hurry
	last   time.Time // when it was read
	due    time.Time
	placed time.Time // when due was set
	spared time.Time // because of a failure it is not read before then
	broken int       // failures in a row to read it to its end

	progress time.Time // when a part of it was last stored, which is not read again
}

// renew sets when it is due again, after it was read.
func (s *schedule) renew() {
	s.last = time.Now()
	s.due = s.last.Add(around(s.src.Poll))
	s.place()
}

// place sets when it is due, if the caller decides.
func (s *schedule) place() {
	if s.placed = time.Now(); s.src.Every != nil && !s.last.IsZero() {
		s.due = s.last.Add(max(pause.AtMost(time.Second, s.src.Hurry), s.src.Every(s.last)))
	}
}

// read records how the reading of a manifest that began at begun has ended.
func (s *schedule) read(begun time.Time, err error) {
	if s.progress.After(begun) {
		begun = s.progress
	}
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

// gained records that a part of the manifest was stored.
func (s *schedule) gained() { s.progress, s.broken = time.Now(), 0 }

// postpone spares the manifest until the next poll.
func (s *schedule) postpone() {
	s.renew()
	s.spared = s.due
}
