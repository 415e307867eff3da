package accesslog

import (
	"strings"
	"time"
)

// timeLen is the length of a time such as 17/May/2015:10:05:03 +0000.
const timeLen = 26

// A clock parses the times of a log. Most are equal to the one before, or in the same minute, and cost next
// to nothing.
type clock struct {
	last   [timeLen]byte // the last time parsed
	unix   int64
	offset int
}

// read parses day/Mon/year:hour:minute:second zone.
func (c *clock) read(b []byte) (unix int64, offset int, ok bool) {
	const minute = 18 // length of the part before the seconds
	if len(b) != timeLen {
		return 0, 0, false
	}
	if c.last[0] != 0 && string(b[:minute]) == string(c.last[:minute]) && string(b[20:]) == string(c.last[20:]) {
		s, ok := two(b[minute:])
		if !ok || s > 60 {
			return 0, 0, false
		}
		was, _ := two(c.last[minute:])
		return c.unix + int64(s-was), c.offset, true
	}
	day, ok1 := two(b)
	year1, ok2 := two(b[7:])
	year2, ok3 := two(b[9:])
	seconds, ok4 := secondsOf(b[12:])
	offset, ok5 := readZone(b[21:])
	midnight, ok6 := midnightOf(year1*100+year2, monthOf(b[3:6]), day)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[20] != ' ' {
		return 0, 0, false
	}
	c.unix, c.offset = midnight+int64(seconds-offset), offset
	copy(c.last[:], b)
	return c.unix, c.offset, true
}

func two(b []byte) (int, bool) {
	x, y := b[0]-'0', b[1]-'0'
	return int(x)*10 + int(y), x <= 9 && y <= 9
}

// monthOf returns the number of a month; 0 if it is none.
func monthOf(b []byte) int {
	if i := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", string(b)); i%3 == 0 {
		return i/3 + 1
	}
	return 0
}

// midnightOf returns when a day began in UTC, in seconds since 1970, and whether the day exists.
func midnightOf(year, month, day int) (unix int64, ok bool) {
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t.Unix(), year >= 1970 && 1 <= month && month <= 12 && t.Day() == day
}

// secondsOf parses hh:mm:ss as seconds since midnight. It may be a leap second.
func secondsOf(b []byte) (seconds int, ok bool) {
	h, ok1 := two(b)
	m, ok2 := two(b[3:])
	s, ok3 := two(b[6:])
	return h*3600 + m*60 + s, ok1 && ok2 && ok3 && b[2] == ':' && b[5] == ':' && h < 24 && m < 60 && s <= 60
}

// readISO parses 2015-05-17T10:05:03.25+00:00 with a "T" or a space, with or without a fraction, and with
// "Z", +hh:mm, +hhmm or nothing (UTC) at the end.
func readISO(b []byte) (unix int64, offset int, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[10] != 'T' && b[10] != ' ' {
		return 0, 0, false
	}
	year1, ok1 := two(b)
	year2, ok2 := two(b[2:])
	month, ok3 := two(b[5:])
	day, ok4 := two(b[8:])
	seconds, ok5 := secondsOf(b[11:])
	midnight, ok6 := midnightOf(year1*100+year2, month, day)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) {
		return 0, 0, false
	}
	rest := b[19:]
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		for rest = rest[1:]; len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9'; rest = rest[1:] {
		}
	}
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if offset, ok = readZone(rest); !ok {
		return 0, 0, false
	}
	return midnight + int64(seconds-offset), offset, true
}

func readZone(b []byte) (offset int, ok bool) {
	if len(b) == 0 || string(b) == "Z" || string(b) == "UTC" {
		return 0, true
	}
	if len(b) == 6 && b[3] == ':' {
		b = []byte{b[0], b[1], b[2], b[4], b[5]}
	}
	if len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	h, ok1 := two(b[1:])
	m, ok2 := two(b[3:])
	offset = h*3600 + m*60
	if b[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2 && h < 24 && m < 60
}

// readNumber parses a time as a number: seconds since 1970, with or without a fraction, or milli-, micro- or
// nanoseconds, told apart by their size.
func readNumber(b []byte) (unix int64, ok bool) {
	n, digits := int64(0), 0
	for ; digits < len(b) && '0' <= b[digits] && b[digits] <= '9'; digits++ {
		if digits == 19 {
			return 0, false
		}
		n = n*10 + int64(b[digits]-'0')
	}
	if digits == 0 || n < 0 {
		return 0, false
	}
	if rest := b[digits:]; len(rest) > 0 {
		if rest[0] != '.' && rest[0]|0x20 != 'e' {
			return 0, false
		}
		if exponent, ok := exponentOf(rest); !ok {
			return 0, false
		} else if exponent != 0 {
			return readExponent(b)
		}
	}
	for n >= 1e11 { // later than the year 5000
		n /= 1000
	}
	return n, true
}
