package protocol

import (
	"cmp"
	"fmt"
	"time"
)

// A Date is a W3CDTF date: an interval that begins at Time and is Span long.
// "2004-10-01" is a whole day; a date with seconds has a Span of zero (E04).
type Date struct {
	Time time.Time // UTC
	Span time.Duration
}

// ParseDate reads a W3CDTF date of any granularity: year, month, day, minute,
// second, or fraction of a second. The zone is honoured; a date without a
// time of day is read as UTC. Fractions are cut to the millisecond.
//
// Valid dates lie after the first instant of the year 1, which stands for
// "unknown" in Go and elsewhere, and before the year 10000.
func ParseDate(s string) (Date, error) {
	d, ok := parseDate(s)
	if !ok {
		return Date{}, fmt.Errorf("parse date %.80q: not W3CDTF", s)
	}
	return d, nil
}

// parseDate is ParseDate for callers that have bytes or make their own error.
// It returns the zero Date and false for text that is no date.
func parseDate[S string | []byte](s S) (Date, bool) {
	p := dateScanner[S]{rest: s}
	if d, ok := p.scan(); ok {
		return d, true
	}
	return Date{}, false
}

// A dateScanner parses a date. It is written by hand because a manifest has
// two dates per item, and because time.Parse accepts more than W3CDTF allows.
type dateScanner[S string | []byte] struct {
	rest S
	bad  bool
}

func (p *dateScanner[S]) scan() (Date, bool) {
	year, month, day := p.digits(4), 1, 1
	if p.end() {
		return p.date(year, 1, 1, 1, 0, 0)
	}
	p.expect('-')
	month = p.digits(2)
	if p.end() {
		return p.date(year, month, 1, 0, 1, 0)
	}
	p.expect('-')
	day = p.digits(2)
	if p.end() {
		return p.date(year, month, day, 0, 0, 24*time.Hour)
	}
	p.expect('T')
	hour := p.digits(2)
	p.expect(':')
	minute, second, milli, span := p.digits(2), 0, 0, time.Minute
	if p.accept(':') {
		second, span = p.digits(2), 0
		if p.accept('.') {
			milli = p.fraction()
		}
	}
	zone := p.zone()
	if !p.end() || hour > 23 || minute > 59 || second > 59 {
		return Date{}, false
	}
	d, ok := p.date(year, month, day, 0, 0, span)
	d.Time = d.Time.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute +
		time.Duration(second)*time.Second + time.Duration(milli)*time.Millisecond - zone)
	return d, ok && isRepresentable(d.Time)
}

// isRepresentable reports whether a time can be written as W3CDTF and is not the one that means unknown.
func isRepresentable(t time.Time) bool {
	y := t.Year()
	return y >= 1 && y <= 9999 && !t.IsZero()
}

// end reports whether the input is used up or invalid.
func (p *dateScanner[S]) end() bool { return p.bad || len(p.rest) == 0 }

func (p *dateScanner[S]) accept(c byte) bool {
	if p.end() || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *dateScanner[S]) expect(c byte) { p.bad = !p.accept(c) }

func (p *dateScanner[S]) digits(n int) (v int) {
	if p.bad || len(p.rest) < n {
		p.bad = true
		return 0
	}
	for i := range n {
		c := p.rest[i] - '0'
		if c > 9 {
			p.bad = true
			return 0
		}
		v = 10*v + int(c)
	}
	p.rest = p.rest[n:]
	return v
}

// fraction reads one to thirty digits and returns the first three.
func (p *dateScanner[S]) fraction() (milli int) {
	n, unit := 0, 100
	for ; n < len(p.rest) && n <= 30 && p.rest[n]-'0' <= 9; n++ {
		milli += unit * int(p.rest[n]-'0')
		unit /= 10
	}
	if n == 0 || n > 30 {
		p.bad = true
		return 0
	}
	p.rest = p.rest[n:]
	return milli
}

func (p *dateScanner[S]) zone() time.Duration {
	if p.accept('Z') {
		return 0
	}
	sign := time.Duration(1)
	if !p.accept('+') {
		p.expect('-')
		sign = -1
	}
	hour := p.digits(2)
	p.expect(':')
	minute := p.digits(2)
	p.bad = p.bad || hour > 23 || minute > 59
	return sign * (time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// date returns the date if its day exists. spanYears and spanMonths, if set, give the span in calendar units.
func (p *dateScanner[S]) date(year, month, day, spanYears, spanMonths int, span time.Duration) (Date, bool) {
	if p.bad || month < 1 || month > 12 || day < 1 {
		return Date{}, false
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Day() != day {
		return Date{}, false
	}
	if spanYears+spanMonths > 0 {
		span = t.AddDate(spanYears, spanMonths, 0).Sub(t)
	}
	// To a date with a span below a day the caller still adds the time of day and the zone.
	return Date{t, span}, span < 24*time.Hour || isRepresentable(t)
}

// String writes the date at the granularity of its Span, so that ParseDate returns
// it unchanged. A Span that is no W3CDTF granularity is lost. A time that
// W3CDTF cannot express gives the empty string.
func (d Date) String() string { return string(d.Append(nil)) }

// Append appends what [Date.String] returns.
func (d Date) Append(b []byte) []byte {
	t := d.Time.UTC()
	if d.Span <= 0 || !isRepresentable(t) {
		return appendDate(b, t)
	}
	h, m, s := t.Clock()
	switch midnight := h == 0 && m == 0 && s == 0 && t.Nanosecond() == 0; {
	case d.Span == time.Minute && s == 0 && t.Nanosecond() == 0:
		b = appendDate(b, t)
		return append(b[:len(b)-len(":00Z")], 'Z')
	case midnight && d.Span == 24*time.Hour:
		return appendDate(b, t)[:len(b)+len("2006-01-02")]
	case midnight && t.Day() == 1 && d.Span == t.AddDate(0, 1, 0).Sub(t):
		return appendDate(b, t)[:len(b)+len("2006-01")]
	case midnight && t.YearDay() == 1 && d.Span == t.AddDate(1, 0, 0).Sub(t):
		return appendDate(b, t)[:len(b)+len("2006")]
	}
	return appendDate(b, t)
}

// FormatDate writes a time in UTC as W3CDTF, to the second, or to the
// millisecond if that is not zero. The zero time, and one outside the years
// 1 to 9999, give the empty string.
func FormatDate(t time.Time) string { return string(appendDate(nil, t)) }

// appendDate appends what [FormatDate] returns.
func appendDate(b []byte, t time.Time) []byte {
	t = t.UTC()
	ms := t.Nanosecond() / 1e6
	if !isRepresentable(t.Truncate(time.Millisecond)) {
		return b
	}
	b = t.AppendFormat(b, time.RFC3339) // cuts to the second; the standard library has a fast path for this layout
	if ms == 0 {
		return b
	}
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// DateLimits are the limits within which [SaneModified] uses a modification time
// (P13). The zero value has the defaults.
type DateLimits struct {
	Earliest time.Time     // an earlier time is ignored; zero means 1993-01-01 (G35)
	Ahead    time.Duration // a time up to this much in the future becomes now, a later one is ignored; zero means 24 hours (G36), negative none
}

// SaneModified checks a modification time from a manifest, a pushed change or an
// HTTP header. It returns the time to use, which is now for a time that is a little
// in the future, and false for one outside the limits.
func SaneModified(t, now time.Time, l DateLimits) (time.Time, bool) {
	if l.Earliest.IsZero() {
		l.Earliest = time.Date(1993, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	switch {
	case t.Before(l.Earliest), t.After(now.Add(max(cmp.Or(l.Ahead, 24*time.Hour), 0))):
		return time.Time{}, false
	case t.After(now):
		return now, true
	}
	return t, true
}
