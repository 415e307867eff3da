package ping

import (
	"time"
)

// SetRoom bounds the URLs remembered per engine, for tests.
func (s *IndexNow) SetRoom(urls int) { s.Options.room = urls }

// For tests of how strangers' input is parsed.

func Clip(s string, n int) string { return clip(s, n) }

// RereadOwed parses the note of a URL and encodes it again.
func RereadOwed(b []byte, now time.Time) (again []byte, due bool) {
	o := parsePendingURL(b, now)
	return o.note(), !o.due.IsZero()
}

var EngineNames = engineNames

func (x *IndexNow) NewKey() (string, error) {
	if err := x.init(); err != nil {
		return "", err
	}
	return x.key.renew()
}

const MaxContent = maxContent
