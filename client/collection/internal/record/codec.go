package record

import (
	"encoding/binary"
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A Codec writes the parts of a record, or reads them: one description of a record serves for both. Each of its
// methods either writes the value of a variable, or reads the value into the variable. It is for one goroutine.
type Codec struct {
	Out    []byte  // what was written
	In     Decoder // what is to be read
	Reads  bool
	Shares bool   // the strings that are read share one piece of memory
	Skips  bool   // the clipped and fitting texts are not read
	Parts  uint64 // flags of the optional parts

	all  []byte
	text string // all, as a string
}

// Read begins to read a record, and reports whether its checksum is right.
func (x *Codec) Read(key, raw []byte) bool {
	body, ok := Unseal(key, raw)
	x.Reads, x.all, x.In = true, body, Decoder{B: body}
	return ok
}

// Whole reports whether the record was read to its end, without a fault.
func (x *Codec) Whole() bool { return !x.In.Bad && len(x.In.B) == 0 }

// Part writes whether there is an optional part, or reads it.
func (x *Codec) Part(f uint64, is bool) bool {
	if x.Reads {
		return x.Parts&f != 0
	}
	x.Parts |= Flag(is, f)
	return is
}

// Bit is a part of one bit.
func (x *Codec) Bit(f uint64, v *bool) {
	if is := x.Part(f, *v); x.Reads {
		*v = is
	}
}

// More reports whether parts follow that earlier versions did not write.
func (x *Codec) More(is bool) bool {
	if x.Reads {
		return len(x.In.B) > 0
	}
	return is
}

func (x *Codec) Uint(v *uint64) {
	if x.Reads {
		*v = x.In.Uint()
	} else {
		x.Out = binary.AppendUvarint(x.Out, *v)
	}
}

func (x *Codec) Int(v *int64) {
	if x.Reads {
		*v = x.In.Int()
	} else {
		x.Out = binary.AppendVarint(x.Out, *v)
	}
}

// Number is an int of either sign.
func (x *Codec) Number(v *int) {
	n := int64(*v)
	if x.Int(&n); x.Reads {
		*v = int(n)
	}
}

// Size is a number that is not negative.
func (x *Codec) Size(v *int64) {
	n := uint64(max(0, *v))
	if x.Uint(&n); x.Reads {
		*v = int64(min(n, math.MaxInt64))
	}
}

// Count is an int that is not negative.
func (x *Codec) Count(v *int) {
	if x.Reads {
		*v = x.In.Count()
	} else {
		x.Out = binary.AppendUvarint(x.Out, uint64(max(0, *v)))
	}
}

func (x *Codec) Page(v *frontier.PageID) { x.Uint((*uint64)(v)) }

func (x *Codec) Byte(v *byte) {
	if x.Reads {
		*v = x.In.Byte()
	} else {
		x.Out = append(x.Out, *v)
	}
}

func (x *Codec) Bool(v *bool) {
	b := byte(Flag(*v, 1))
	if x.Byte(&b); x.Reads {
		*v = b != 0
	}
}

func (x *Codec) Time(v *time.Time) {
	if x.Reads {
		*v = x.In.Time()
	} else {
		x.Out = AppendTime(x.Out, *v)
	}
}

func (x *Codec) Duration(v *time.Duration) {
	if x.Reads {
		*v = x.In.duration()
	} else {
		x.Out = appendDuration(x.Out, *v)
	}
}

func (x *Codec) Float(v *float32) {
	if x.Reads {
		*v = x.In.Float()
	} else {
		x.Out = AppendFloat(x.Out, *v)
	}
}

// Float64 is Float for a float64, which is stored as a float32.
func (x *Codec) Float64(v *float64) {
	f := float32(*v)
	if x.Float(&f); x.Reads {
		*v = float64(f)
	}
}

func (x *Codec) Digest(v *protocol.Digest) {
	if x.Reads {
		x.In.digest(v)
	} else {
		x.Out = append(x.Out, v[:]...)
	}
}

func (x *Codec) Bytes(v *[]byte) {
	if x.Reads {
		*v = append([]byte(nil), x.In.Bytes()...)
	} else {
		x.Out = AppendString(x.Out, string(*v))
	}
}

func (x *Codec) Addr(v *netip.Addr) {
	b := v.AsSlice()
	if x.Bytes(&b); x.Reads {
		*v, _ = netip.AddrFromSlice(b)
	}
}

func (x *Codec) Text(v *string) {
	switch {
	case !x.Reads:
		x.Out = AppendString(x.Out, *v)
	case !x.Shares:
		*v = x.In.Text()
	default:
		s := x.In.Bytes()
		if *v = ""; len(s) > 0 {
			if x.text == "" {
				x.text = string(x.all)
			}
			end := len(x.all) - len(x.In.B)
			*v = x.text[end-len(s) : end]
		}
	}
}

// Clipped is a text for people, of which at most n bytes are written.
func (x *Codec) Clipped(v *string, n int) {
	if x.Reads {
		x.Fitting(v, n)
	} else {
		x.Out = AppendString(x.Out, Clip(*v, n))
	}
}

// Fitting is a text that is not written if it is longer than n bytes: a part of it would mean nothing.
func (x *Codec) Fitting(v *string, n int) {
	switch {
	case x.Reads && x.Skips:
		x.In.Bytes()
		return
	case !x.Reads && len(*v) > n:
		v = new(string)
	}
	x.Text(v)
}

// Clip shortens text for people to at most n bytes, at a rune's end.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return strings.Clone(s)
}
