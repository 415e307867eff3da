package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// Every record ends in a CRC-32 of its key and its preceding bytes: bbolt has no checksum of its pages.
// Numbers are varints, times are milliseconds since 1970 with 0 for unknown, strings follow their length.

// castagnoli is the polynomial with a CPU instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// signals in the order of their codes, lowest first. The order is part of the format.
var signals = [...]Signal{"", ByLink, ByAge, BySitemap, ByFeed, ByManifest, ByChanges, ByStream, ByIndexNow, ByPerson}

// code returns a signal's index in signals. An unknown signal counts as a link.
func (s Signal) code() byte {
	for i, t := range signals {
		if s == t {
			return byte(i)
		}
	}
	return 1
}

func signalOf(code byte) Signal { return signals[min(int(code), len(signals)-1)] }

// never is the At of a page that is not in the queue, in milliseconds.
const never = 1<<62 - 1

// toMilli returns a time as stored: 0 for the zero time, and at least 1 for any other.
func toMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, t.UnixMilli())
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// pageKey is 4 bytes long: there are at most maxPages pages.
func pageKey(id frontier.PageID) [4]byte {
	return [4]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

func siteKey(id frontier.SiteID) []byte { return binary.BigEndian.AppendUint32(nil, uint32(id)) }

func keyPage(k []byte) frontier.PageID { return frontier.PageID(binary.BigEndian.Uint32(k)) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(b, uint64(toMilli(t)))
}

func appendDuration(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(0, d.Microseconds())))
}

func appendFloat(b []byte, f float32) []byte {
	return binary.BigEndian.AppendUint32(b, math.Float32bits(f))
}

// seal ends a record that begins at b[from].
func seal(b []byte, key []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[from:]))
}

// unseal returns a record without its checksum.
func unseal(key, b []byte) ([]byte, bool) {
	n := len(b) - crc32.Size
	if n < 0 || crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return nil, false
	}
	return b[:n], true
}

// errRecord is the error for a record that this program did not write.
var errRecord = errors.New("malformed record")

func damaged(bucket []byte, key []byte) error {
	return fmt.Errorf("state is %w: %s %x: %w", ErrDamaged, bucket, key, errRecord)
}

// A decoder reads the parts of a record; bad stays set after the first fault.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() {
	d.bad, d.b = true, nil
}

func (d *decoder) uint() uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) count() int { return int(min(d.uint(), math.MaxInt32)) }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte { return d.take(d.uint()) }

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) time() time.Time { return fromMilli(int64(d.uint())) }

func (d *decoder) duration() time.Duration {
	return time.Duration(min(d.uint(), math.MaxInt64/1000)) * time.Microsecond
}

func (d *decoder) float() float32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return math.Float32frombits(binary.BigEndian.Uint32(b))
}

func (d *decoder) digest(to *protocol.Digest) { copy(to[:], d.take(uint64(len(to)))) }

func (d *decoder) addr() netip.Addr {
	a, _ := netip.AddrFromSlice(d.bytes())
	return a
}
