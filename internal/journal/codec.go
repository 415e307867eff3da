package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// Every record is a format version, fields, and a CRC-32 of its key and all
// that stands before it: bbolt keeps no checksum of its pages. Numbers are
// varints, times milliseconds since 1970, strings and stamps follow their
// length. A flag says of each field that can be unknown whether it is there.
const formatVersion = 1

const (
	hasModified = 1 << iota
	hasSpan
	hasLength
	hasDigest
	hasTitle
	hasHeld // of an entry
	hasFrom // of a change
	hasPrev // of a change
)

// knownTypes are media types that take one byte. The order is the format.
var knownTypes = [...]string{
	"", "text/html", "application/xhtml+xml", "application/pdf", "text/plain", "text/css",
	"text/javascript", "application/json", "application/xml", "text/xml", "image/png", "image/jpeg",
	"image/gif", "image/svg+xml", "image/webp", "image/avif", "text/markdown", "application/rdf+xml",
}

// otherType stands before a media type that is not one of knownTypes.
const otherType = 255

// ops are the steps a change can be. The order is the format.
var ops = [...]protocol.Op{"", protocol.Create, protocol.Update, protocol.Delete, protocol.Move}

func opCode(op protocol.Op) (byte, bool) {
	for i, o := range ops {
		if o == op {
			return byte(i), true
		}
	}
	return 0, false
}

// itemKey orders items as protocol.Compare orders their URLs.
func itemKey(url string) []byte { return depthKey(protocol.Depth(url), url) }

func depthKey(depth int, url string) []byte {
	b := make([]byte, 2, 2+len(url))
	binary.BigEndian.PutUint16(b, uint16(min(depth, math.MaxUint16)))
	return append(b, url...)
}

// urlOf returns the URL in an item key.
func urlOf(key []byte) string {
	if len(key) < 2 {
		return ""
	}
	return string(key[2:])
}

// toMilli returns t as the journal keeps it.
func toMilli(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// kept returns an item as the journal keeps it.
func kept(it protocol.Item) protocol.Item {
	it.Modified = toMilli(it.Modified)
	it.Length = max(it.Length, -1)
	return it
}

func flag(is bool, f byte) byte {
	if is {
		return f
	}
	return 0
}

func appendString[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// seal ends a record that began at b[0].
func seal(key, b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, b))
}

func itemFlags(it protocol.Item) byte {
	return flag(!it.Modified.IsZero(), hasModified) | flag(it.Span != 0, hasSpan) | flag(it.Length >= 0, hasLength) |
		flag(!it.Digest.IsZero(), hasDigest) | flag(it.Title != "", hasTitle)
}

// appendItem writes all of an item but its URL.
func appendItem(b []byte, it protocol.Item) []byte {
	code := otherType
	for i, t := range knownTypes {
		if t == it.Type {
			code = i
			break
		}
	}
	b = append(b, byte(code))
	if code == otherType {
		b = appendString(b, it.Type)
	}
	if !it.Modified.IsZero() {
		b = binary.AppendVarint(b, it.Modified.UnixMilli())
	}
	if it.Span != 0 {
		b = binary.AppendVarint(b, int64(it.Span))
	}
	if it.Length >= 0 {
		b = binary.AppendUvarint(b, uint64(it.Length))
	}
	if !it.Digest.IsZero() {
		b = append(b, it.Digest[:]...)
	}
	if it.Title != "" {
		b = appendString(b, it.Title)
	}
	return b
}

func appendEntry(b, key []byte, e Entry) []byte {
	b = append(b, formatVersion, itemFlags(e.Item)|flag(!e.Held.IsZero(), hasHeld))
	b = appendItem(b, e.Item)
	if !e.Held.IsZero() {
		b = binary.AppendVarint(b, e.Held.UnixMilli())
	}
	return seal(key, append(b, e.Stamp...)) // a stamp is what is left
}

func appendChange(b []byte, c protocol.Change) []byte {
	code, _ := opCode(c.Op)
	b = append(b, formatVersion, itemFlags(c.Item)|flag(c.From != "", hasFrom)|flag(!c.Prev.IsZero(), hasPrev), code)
	b = binary.AppendVarint(b, c.At.UnixMilli())
	b = appendString(b, c.Item.URL)
	b = appendItem(b, c.Item)
	if c.From != "" {
		b = appendString(b, c.From)
	}
	if !c.Prev.IsZero() {
		b = append(b, c.Prev[:]...)
	}
	return seal(seqKey(c.Seq), b)
}

// A record is what is left of one that is being read. Once it was not what it
// should be it is bad, and all that is read of it means nothing.
type record struct {
	b   []byte
	bad bool
}

// open checks version and checksum of a record.
func open(key, b []byte) (r record, flags byte) {
	const least = 2 + crc32.Size
	if len(b) < least || b[0] != formatVersion {
		return record{bad: true}, 0
	}
	body := b[:len(b)-crc32.Size]
	sum := crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, body)
	return record{b: body[2:], bad: binary.BigEndian.Uint32(b[len(body):]) != sum}, body[1]
}

func (r *record) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *record) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *record) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // cut, too big, or longer than it need be
		r.bad = true
		return 0
	}
	r.take(uint64(n))
	return v
}

func (r *record) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *record) time() time.Time {
	t := time.UnixMilli(r.varint()).UTC()
	r.bad = r.bad || t.IsZero() // which is written as a flag
	return t
}

func (r *record) string() string { return string(r.take(r.uvarint())) }

func (r *record) digest() (d protocol.Digest) {
	copy(d[:], r.take(uint64(len(d))))
	r.bad = r.bad || d.IsZero()
	return d
}

// text reads a string that is only written if it is not empty.
func (r *record) text() string {
	s := r.string()
	r.bad = r.bad || s == ""
	return s
}

// item reads all of an item but its URL.
func (r *record) item(flags byte) protocol.Item {
	it := protocol.Item{Length: -1}
	switch code := int(r.byte()); {
	case code < len(knownTypes):
		it.Type = knownTypes[code]
	case code == otherType:
		it.Type = r.text()
		for _, t := range knownTypes {
			r.bad = r.bad || t == it.Type
		}
	default:
		r.bad = true
	}
	if flags&hasModified != 0 {
		it.Modified = r.time()
	}
	if flags&hasSpan != 0 {
		it.Span = time.Duration(r.varint())
		r.bad = r.bad || it.Span == 0
	}
	if flags&hasLength != 0 {
		n := r.uvarint()
		r.bad = r.bad || n > math.MaxInt64
		it.Length = int64(n)
	}
	if flags&hasDigest != 0 {
		it.Digest = r.digest()
	}
	if flags&hasTitle != 0 {
		it.Title = r.text()
	}
	return it
}

// parseEntry reads what appendEntry writes. It keeps nothing of key and b.
func parseEntry(key, b []byte) (Entry, error) {
	r, flags := open(key, b)
	e := Entry{Item: r.item(flags)}
	e.Item.URL = urlOf(key)
	if flags&hasHeld != 0 {
		e.Held = r.time()
	}
	if len(r.b) > 0 {
		e.Stamp = append([]byte(nil), r.b...)
	}
	if r.bad || flags&(hasFrom|hasPrev) != 0 || e.Item.URL == "" {
		return Entry{}, fmt.Errorf("item %.200q is %w", e.Item.URL, ErrDamaged)
	}
	return e, nil
}

// parseChange reads what appendChange writes. It keeps nothing of key and b.
func parseChange(key, b []byte) (protocol.Change, error) {
	r, flags := open(key, b)
	c := protocol.Change{Seq: seqOf(key)}
	code := r.byte()
	if code == 0 || int(code) >= len(ops) {
		r.bad, code = true, 0
	}
	c.Op = ops[code]
	c.At = time.UnixMilli(r.varint()).UTC()
	url := r.text()
	c.Item = r.item(flags)
	c.Item.URL = url
	if flags&hasFrom != 0 {
		c.From = r.text()
	}
	if flags&hasPrev != 0 {
		c.Prev = r.digest()
	}
	if r.bad || len(r.b) > 0 || c.Seq == 0 || flags&hasHeld != 0 || (c.Op == protocol.Move) != (c.From != "") {
		return protocol.Change{}, fmt.Errorf("change %d is %w", c.Seq, ErrDamaged)
	}
	return c, nil
}
