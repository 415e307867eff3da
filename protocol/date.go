package protocol

import (
	"fmt"
	"time"
)

// A Date is a W3CDTF date: an interval that begins at Time and is Span long.
// "2004-10-01" is a whole day; a date with seconds has a Span of zero (E04).
type Date struct {
	Time time.Time // UTC
	Span time.Duration
}

// dateForms are the W3CDTF granularities, coarsest first. A year and a month
// take their Span from the calendar.
var dateForms = []struct {
	layout string
	span   time.Duration
}{
	{"2006", -1},
	{"2006-01", -1},
	{"2006-01-02", 24 * time.Hour},
	{"2006-01-02T15:04Z07:00", time.Minute},
	{"2006-01-02T15:04:05Z07:00", 0},
}

// ParseDate reads a W3CDTF date of any granularity: year, month, day, minute,
// second, or fraction of a second. The zone is honoured; a date without a
// time of day is read as UTC. Fractions are cut to the millisecond.
func ParseDate(s string) (Date, error) {
	if len(s) <= 64 { // the longest form has 25 bytes and a fraction
		for _, f := range dateForms {
			t, err := time.Parse(f.layout, s)
			if err != nil {
				continue
			}
			t = t.UTC().Truncate(time.Millisecond)
			span := f.span
			switch f.layout {
			case "2006":
				span = t.AddDate(1, 0, 0).Sub(t)
			case "2006-01":
				span = t.AddDate(0, 1, 0).Sub(t)
			}
			return Date{t, span}, nil
		}
	}
	return Date{}, fmt.Errorf("parse date %.80q: not W3CDTF", s)
}

// FormatDate writes a time in UTC as W3CDTF, to the second, or to the
// millisecond where that says more. The zero time is the empty string.
func FormatDate(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(AppendDate(nil, t))
}

// AppendDate appends what [FormatDate] returns.
func AppendDate(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	t = t.UTC().Truncate(time.Millisecond)
	if t.Nanosecond() == 0 {
		return t.AppendFormat(b, "2006-01-02T15:04:05Z")
	}
	return t.AppendFormat(b, "2006-01-02T15:04:05.000Z")
}
