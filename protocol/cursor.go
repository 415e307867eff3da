package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// A Cursor is a place in a site's journal: the reader has processed everything up
// to and including change number Seq of the epoch. It is never a time and never
// opaque, and it means the same at every door of the site.
//
// Sequence numbers count from 1 within an epoch. The zero Cursor lies before
// everything, the site's first description included; Seq 0 of an epoch lies
// after the description with which that epoch began.
type Cursor struct {
	Epoch string
	Seq   uint64
}

// zeroCursor is the zero Cursor as text. No epoch is called "0".
const zeroCursor = "0:0"

// maxEpoch bounds the name of an epoch, in bytes.
const maxEpoch = 64

// IsZero reports whether the cursor lies before everything.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// String writes the cursor as EPOCH:SEQ; the zero Cursor is "0:0".
func (c Cursor) String() string {
	if c.IsZero() {
		return zeroCursor
	}
	return c.Epoch + ":" + strconv.FormatUint(c.Seq, 10)
}

// ParseCursor parses the output of [Cursor.String]. An epoch is 1 to 64 letters,
// digits, '-' or '_', and not "0"; the number is decimal, without sign or
// leading zeros, so that every cursor has one spelling.
func ParseCursor(s string) (Cursor, error) {
	if s == zeroCursor {
		return Cursor{}, nil
	}
	epoch, num, ok := strings.Cut(s, ":")
	if !ok || !validEpoch(epoch) {
		return Cursor{}, fmt.Errorf("parse cursor %.100q: want EPOCH:SEQ", s)
	}
	seq, err := strconv.ParseUint(num, 10, 64)
	if err != nil || num != strconv.FormatUint(seq, 10) {
		return Cursor{}, fmt.Errorf("parse cursor %.100q: want a decimal number after the colon", s)
	}
	return Cursor{epoch, seq}, nil
}

func validEpoch(s string) bool {
	if len(s) == 0 || len(s) > maxEpoch || s == "0" {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// MarshalText writes the cursor for JSON, as String does.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (c *Cursor) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCursor(string(b))
	return err
}
