package ping

import (
	"time"
)

// SetRoom bounds the URLs remembered per engine, for tests.
func (s *IndexNow) SetRoom(urls int) { s.room = urls }

// For tests of how strangers' input is parsed.

func Clip(s string, n int) string { return clip(s, n) }

// RereadOwed parses the note of a URL and encodes it again.
func RereadOwed(b []byte, now time.Time) (again []byte, due bool) {
	o := parsePendingURL(b, now)
	return o.note(), !o.due.IsZero()
}

var EngineNames = engineNames

func (x *IndexNow) NewKey() (string, error) { return x.newKey() }

const MaxContent = maxContent
