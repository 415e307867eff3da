package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// Every record is a format version, fields, and a CRC-32 of its key and its preceding bytes: bbolt has no
// checksum of its pages. Numbers are varints, times are milliseconds since 1970, strings and stamps follow
// their length. Each optional field has a flag for its presence.
//
// A record of an entry or a change that needs a second byte of flags is of version 2, and has it after the
// first; any other is of version 1, as all were before there was a second byte. So a record has one
// encoding, and unknown fields take no space. The state of a page before an update follows the other fields
// of the change, as flags of its own and an item: without its digest, which is the change's Prev, and
// without its main-text digest.
const (
	plainRecord = 1
	wideRecord  = 2
)

// flags say which fields a record has. The second byte of a record has the
// upper half.
type flags uint16

const (
	hasModified flags = 1 << iota
	hasSpan
	hasLength
	hasDigest
	hasTitle
	hasHeld // of an entry
	hasFrom // of a change
	hasPrev // of a change
	hasText
	hasLanguage
	hasCanonical
	hasImportance
	hasSketch       // of an entry
	hasNewest       // of an entry
	hasOther        // of an entry
	hasSignificance // of a change

	hasBefore = hasHeld // of a change

	entryFlags  = hasSketch | hasNewest | hasOther
	changeFlags = hasFrom | hasPrev | hasSignificance
	beforeFlags = hasModified | hasSpan | hasLength | hasTitle | hasLanguage | hasCanonical | hasImportance
)

// knownTypes are media types that take one byte. The order is part of the format.
var knownTypes = [...]string{
	"", "text/html", "application/xhtml+xml", "application/pdf", "text/plain", "text/css",
	"text/javascript", "application/json", "application/xml", "text/xml", "image/png", "image/jpeg",
	"image/gif", "image/svg+xml", "image/webp", "image/avif", "text/markdown", "application/rdf+xml",
}

// otherType precedes a media type that is not in knownTypes.
const otherType = 255

// ops are the kinds of changes. The order is part of the format.
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

// toMilli returns t as the journal stores it.
func toMilli(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// toSecond returns t as the journal stores a time in whole seconds.
func toSecond(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Unix(), 0).UTC()
}

// kept returns an item as the journal stores it.
func kept(it protocol.Item) protocol.Item {
	it.Modified = toMilli(it.Modified)
	it.Length = max(it.Length, -1)
	return it
}

// kept returns an entry as the journal stores it.
func (e Entry) kept() Entry {
	e.Item = kept(e.Item)
	e.Held, e.Newest, e.Other = toMilli(e.Held), toSecond(e.Newest), toSecond(e.Other)
	return e
}

func flag[F ~uint8 | ~uint16](is bool, f F) F {
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

// appendStart begins a record: its version and its flags.
func appendStart(b []byte, f flags) []byte {
	if f>>8 == 0 {
		return append(b, plainRecord, byte(f))
	}
	return append(b, wideRecord, byte(f), byte(f>>8))
}

func itemFlags(it *protocol.Item) flags {
	return flag(!it.Modified.IsZero(), hasModified) | flag(it.Span != 0, hasSpan) | flag(it.Length >= 0, hasLength) |
		flag(!it.Digest.IsZero(), hasDigest) | flag(it.Title != "", hasTitle) | flag(!it.Text.IsZero(), hasText) |
		flag(it.Language != "", hasLanguage) | flag(it.Canonical != "", hasCanonical) | flag(it.Importance != 0, hasImportance)
}

// appendItem writes all of an item but its URL.
func appendItem(b []byte, it *protocol.Item) []byte {
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
	if !it.Text.IsZero() {
		b = append(b, it.Text[:]...)
	}
	if it.Language != "" {
		b = appendString(b, it.Language)
	}
	if it.Canonical != "" {
		b = appendString(b, it.Canonical)
	}
	if it.Importance != 0 {
		b = append(b, byte(it.Importance))
	}
	return b
}

func appendEntry(b, key []byte, e Entry) []byte {
	b = appendStart(b, itemFlags(&e.Item)|flag(!e.Held.IsZero(), hasHeld)|flag(len(e.Sketch) > 0, hasSketch)|
		flag(!e.Newest.IsZero(), hasNewest)|flag(!e.Other.IsZero(), hasOther))
	b = appendItem(b, &e.Item)
	if !e.Held.IsZero() {
		b = binary.AppendVarint(b, e.Held.UnixMilli())
	}
	if len(e.Sketch) > 0 {
		b = appendString(b, e.Sketch)
	}
	for _, t := range []time.Time{e.Newest, e.Other} {
		if !t.IsZero() {
			b = binary.AppendVarint(b, t.Unix())
		}
	}
	return seal(key, append(b, e.Stamp...)) // a stamp is the rest of the record
}

// AppendChange appends a change as a journal stores it, which is all of it but its number.
func AppendChange(b []byte, c protocol.Change) []byte {
	code, _ := opCode(c.Op)
	b = appendStart(b, itemFlags(&c.Item)|flag(c.From != "", hasFrom)|flag(!c.Prev.IsZero(), hasPrev)|
		flag(c.Significance != 0, hasSignificance)|flag(c.Before != nil, hasBefore))
	b = binary.AppendVarint(append(b, code), c.At.UnixMilli())
	b = appendString(b, c.Item.URL)
	b = appendItem(b, &c.Item)
	if c.From != "" {
		b = appendString(b, c.From)
	}
	if !c.Prev.IsZero() {
		b = append(b, c.Prev[:]...)
	}
	if c.Significance != 0 {
		b = binary.AppendUvarint(b, uint64(c.Significance))
	}
	if c.Before != nil {
		was := *c.Before
		was.Digest, was.Text = protocol.Digest{}, protocol.Digest{}
		b = appendItem(binary.AppendUvarint(b, uint64(itemFlags(&was))), &was)
	}
	return seal(seqKey(c.Seq), b)
}

// A record is the unread rest of a record. After the first malformed field it is bad, and all values read
// from it mean nothing.
type record struct {
	b   []byte
	bad bool
}

// unseal returns a record without its checksum, and false if that is wrong.
func unseal(key, b []byte) ([]byte, bool) {
	if len(b) < crc32.Size {
		return nil, false
	}
	body := b[:len(b)-crc32.Size]
	sum := crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, body)
	return body, binary.BigEndian.Uint32(b[len(body):]) == sum
}

// open checks version and checksum of a record.
func open(key, b []byte) (record, flags) {
	return parseVersion(unseal(key, b))
}

// parseVersion returns the fields after the version of a record; body and ok are from unseal.
func parseVersion(body []byte, ok bool) (record, flags) {
	switch {
	case !ok || len(body) < 2:
	case body[0] == plainRecord:
		return record{b: body[2:]}, flags(body[1])
	case body[0] == wideRecord && len(body) > 2 && body[2] != 0:
		return record{b: body[3:]}, flags(body[1]) | flags(body[2])<<8
	}
	return record{bad: true}, 0
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
	if len(r.b) > 0 && r.b[0] < 0x80 { // as most are
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // truncated, too big, or longer than needed
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
	r.bad = r.bad || t.IsZero() // a zero time is only a flag
	return t
}

func (r *record) seconds() time.Time {
	t := time.Unix(r.varint(), 0).UTC()
	r.bad = r.bad || t.IsZero()
	return t
}

func (r *record) string() string { return string(r.take(r.uvarint())) }

func (r *record) digest() (d protocol.Digest) {
	copy(d[:], r.take(uint64(len(d))))
	r.bad = r.bad || d.IsZero()
	return d
}

// text reads a string that is written only if it is not empty.
func (r *record) text() string {
	s := r.string()
	r.bad = r.bad || s == ""
	return s
}

func (r *record) mediaType() string {
	switch code := int(r.byte()); {
	case code < len(knownTypes):
		return knownTypes[code]
	case code == otherType:
		other := r.text()
		for _, t := range knownTypes {
			r.bad = r.bad || t == other
		}
		return other
	}
	r.bad = true
	return ""
}

// item reads all of an item but its URL.
func (r *record) item(has flags) protocol.Item {
	it := protocol.Item{Length: -1, Type: r.mediaType()}
	if has&hasModified != 0 {
		it.Modified = r.time()
	}
	if has&hasSpan != 0 {
		it.Span = time.Duration(r.varint())
		r.bad = r.bad || it.Span == 0
	}
	if has&hasLength != 0 {
		n := r.uvarint()
		r.bad = r.bad || n > math.MaxInt64
		it.Length = int64(n)
	}
	if has&hasDigest != 0 {
		it.Digest = r.digest()
	}
	if has&hasTitle != 0 {
		it.Title = r.text()
	}
	if has&hasText != 0 {
		it.Text = r.digest()
	}
	if has&hasLanguage != 0 {
		it.Language = r.text()
	}
	if has&hasCanonical != 0 {
		it.Canonical = r.text()
	}
	if has&hasImportance != 0 {
		it.Importance = protocol.Importance(r.byte())
		r.bad = r.bad || it.Importance == 0
	}
	return it
}

// parseEntry parses the output of appendEntry. It retains neither key nor b.
func parseEntry(key, b []byte) (Entry, error) {
	r, has := open(key, b)
	return r.entry(urlOf(key), has)
}

// entry reads an entry, all that open leaves of its record.
func (r *record) entry(url string, has flags) (Entry, error) {
	e := Entry{Item: r.item(has)}
	e.Item.URL = url
	if has&hasHeld != 0 {
		e.Held = r.time()
	}
	if has&hasSketch != 0 {
		e.Sketch = append([]byte(nil), r.take(r.uvarint())...)
		r.bad = r.bad || len(e.Sketch) == 0
	}
	if has&hasNewest != 0 {
		e.Newest = r.seconds()
	}
	if has&hasOther != 0 {
		e.Other = r.seconds()
	}
	if len(r.b) > 0 {
		e.Stamp = append([]byte(nil), r.b...)
	}
	if r.bad || has&changeFlags != 0 || e.Item.URL == "" {
		return Entry{}, fmt.Errorf("item %.200q is %w", e.Item.URL, ErrDamaged)
	}
	return e, nil
}

// ParseChange parses the output of AppendChange for the change of a number. It does not retain b. An error wraps ErrDamaged.
func ParseChange(seq uint64, b []byte) (protocol.Change, error) {
	r, has := open(seqKey(seq), b)
	c := protocol.Change{Seq: seq}
	code := r.byte()
	if code == 0 || int(code) >= len(ops) {
		r.bad, code = true, 0
	}
	c.Op = ops[code]
	c.At = time.UnixMilli(r.varint()).UTC()
	url := r.text()
	c.Item = r.item(has)
	c.Item.URL = url
	if has&hasFrom != 0 {
		c.From = r.text()
	}
	if has&hasPrev != 0 {
		c.Prev = r.digest()
	}
	if has&hasSignificance != 0 {
		n := r.uvarint()
		r.bad = r.bad || n == 0 || n > math.MaxUint16
		c.Significance = protocol.Significance(n)
	}
	if has&hasBefore != 0 {
		was := r.uvarint()
		r.bad = r.bad || was&^uint64(beforeFlags) != 0 || c.Op != protocol.Update
		it := r.item(flags(was) & beforeFlags)
		it.URL, it.Digest = url, c.Prev
		c.Before = &it
	}
	if r.bad || len(r.b) > 0 || c.Seq == 0 || has&entryFlags != 0 || (c.Op == protocol.Move) != (c.From != "") {
		return protocol.Change{}, fmt.Errorf("change %d is %w", c.Seq, ErrDamaged)
	}
	return c, nil
}
