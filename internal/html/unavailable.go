package html

import (
	"bytes"
	"strings"
	"time"
)

const unavailableAfter = "unavailable_after"

// longestDate is the longest date that is read, in bytes.
const longestDate = 64

// UnavailableAfter returns the time after which a page must not be listed, from the directives of <meta
// name="robots"> or X-Robots-Tag: "unavailable_after: DATE". It is the zero time if there is none that can be
// parsed. A date is one of RFC 822, 850, 1123 or ISO 8601.
func UnavailableAfter(list []byte) time.Time {
	i := bytes.Index(bytes.ToLower(list), []byte(unavailableAfter))
	if i < 0 {
		return time.Time{}
	}
	rest := strings.TrimSpace(string(list[i+len(unavailableAfter):]))
	if rest = strings.TrimSpace(strings.TrimPrefix(rest, ":")); len(rest) > longestDate {
		rest = rest[:longestDate]
	}
	// A date may have a comma after its weekday, and another directive may follow it.
	for end := 0; end < len(rest); end++ {
		if next := strings.IndexByte(rest[end:], ','); next >= 0 {
			end += next
		} else {
			end = len(rest)
		}
		if t, ok := date(strings.TrimSpace(rest[:end])); ok {
			return t
		}
	}
	return time.Time{}
}

var dateLayouts = [...]string{
	time.RFC1123, time.RFC1123Z, time.RFC850, time.RFC3339,
	"2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05", "2 Jan 2006",
	"2-Jan-2006 15:04:05 MST", "2-Jan-2006 15:04:05", "2-Jan-2006", "Monday, 2 Jan 2006 15:04:05 MST",
	"2 Jan 06 15:04:05 MST", "2 Jan 06 15:04 MST", "Mon, 2 Jan 2006 15:04:05 MST", "Mon, 2-Jan-2006 15:04:05 MST",
	"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02",
}

// zones are the time zones of RFC 822, which time.Parse does not know everywhere, in hours east.
var zones = map[string]int{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}

func date(s string) (time.Time, bool) {
	for _, layout := range dateLayouts {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if zone, offset := t.Zone(); offset == 0 {
			t = t.Add(-time.Duration(zones[zone]) * time.Hour)
		}
		return t.UTC(), true
	}
	return time.Time{}, false
}

// soonest returns the earlier of two such times.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Expired reports whether the time after which a page must not be listed has come.
func Expired(after, now time.Time) bool { return !after.IsZero() && !now.Before(after) }
