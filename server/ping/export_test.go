package ping

import (
	"time"
)

// SetRoom bounds what an engine remembers, for tests.
func (s *IndexNow) SetRoom(urls int) { s.room = urls }

// What follows lets tests see what strangers' words become.

func Clip(s string, n int) string { return clip(s, n) }

// RereadOwed reads a note of a URL and writes it again.
func RereadOwed(b []byte, now time.Time) (again []byte, due bool) {
	o := parseOwed(b, now)
	return o.note(), !o.due.IsZero()
}

var EngineNames = engineNames

func (x *IndexNow) NewKey() (string, error) { return x.newKey() }

const MaxContent = maxContent
