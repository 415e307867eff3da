// Package record encodes the records of a collection's state. Every record ends in a CRC-32 of its key and its
// preceding bytes: bbolt has no checksum of its pages. Numbers are varints, times are milliseconds since 1970 with
// 0 for unknown, strings follow their length.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// castagnoli is the polynomial with a CPU instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Milli returns a time as stored: 0 for the zero time, and at least 1 for any other.
func Milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, t.UnixMilli())
}

// Time returns a stored time.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// PageKey returns the key of a page: a collection has fewer than 2^32.
func PageKey(id frontier.PageID) [4]byte {
	return [4]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

// SiteKey returns the key of a site.
func SiteKey(id frontier.SiteID) []byte { return binary.BigEndian.AppendUint32(nil, uint32(id)) }

// KeyPage returns the page of a key.
func KeyPage(k []byte) frontier.PageID { return frontier.PageID(binary.BigEndian.Uint32(k)) }

// AppendString appends the length of s, and s.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendTime appends a time to the millisecond.
func AppendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(b, uint64(Milli(t)))
}

// appendDuration appends a duration to the microsecond.
func appendDuration(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(0, d.Microseconds())))
}

// AppendFloat appends the bits of f.
func AppendFloat(b []byte, f float32) []byte {
	return binary.BigEndian.AppendUint32(b, math.Float32bits(f))
}

// Seal ends a record that begins at b[from].
func Seal(b []byte, key []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[from:]))
}

// Unseal returns a record without its checksum.
func Unseal(key, b []byte) ([]byte, bool) {
	n := len(b) - crc32.Size
	if n < 0 || crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return nil, false
	}
	return b[:n], true
}

// errRecord is the error for a record that this program did not write.
var errRecord = errors.New("malformed record")

// Damaged returns the error for a malformed record.
func Damaged(bucket []byte, key []byte) error {
	return fmt.Errorf("state is %w: %s %x: %w", boltfile.ErrDamaged, bucket, key, errRecord)
}

// Flag returns f if is.
func Flag(is bool, f uint64) uint64 {
	if is {
		return f
	}
	return 0
}

// A Decoder reads the parts of a record. It is for one goroutine.
type Decoder struct {
	B   []byte // what has not been read
	Bad bool   // set after the first fault
}

// Fail makes the record a malformed one.
func (d *Decoder) Fail() {
	d.Bad, d.B = true, nil
}

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	if len(d.B) > 0 && d.B[0] < 0x80 {
		v := d.B[0]
		d.B = d.B[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Int reads a signed number.
func (d *Decoder) Int() int64 {
	v := d.Uint()
	return int64(v>>1) ^ -int64(v&1)
}

// Count reads a number that fits into an int.
func (d *Decoder) Count() int { return int(min(d.Uint(), math.MaxInt32)) }

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.Fail()
		return 0
	}
	v := d.B[0]
	d.B = d.B[1:]
	return v
}

func (d *Decoder) take(n uint64) []byte {
	if n > uint64(len(d.B)) {
		d.Fail()
		return nil
	}
	v := d.B[:n]
	d.B = d.B[n:]
	return v
}

// Bytes reads a string, in the memory of the record.
func (d *Decoder) Bytes() []byte { return d.take(d.Uint()) }

// Text reads a string.
func (d *Decoder) Text() string { return string(d.Bytes()) }

// Time reads a time.
func (d *Decoder) Time() time.Time { return Time(int64(d.Uint())) }

// duration reads a duration.
func (d *Decoder) duration() time.Duration {
	return time.Duration(min(d.Uint(), math.MaxInt64/1000)) * time.Microsecond
}

// Float reads a float.
func (d *Decoder) Float() float32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return math.Float32frombits(binary.BigEndian.Uint32(b))
}

// digest reads a digest into to.
func (d *Decoder) digest(to *protocol.Digest) { copy(to[:], d.take(uint64(len(to)))) }
