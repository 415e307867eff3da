package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// An Entry is a source's description of one page. All fields but URL may be unset.
type Entry struct {
	// URL is absolute, or relative to the base URL of the site. It need not
	// be canonical.
	URL string

	// Modified is when the page last changed, and Span the precision of that: see [protocol.Item]. The zero
	// time means unknown.
	Modified time.Time
	Span     time.Duration

	Length int64  // bytes; zero or less means unknown
	Type   string // media type, with parameters or without

	Title, Language, Canonical string

	Digest protocol.Digest // of the bytes as served

	Line int // line of the source, from 1; zero if it has no lines

	// Bad is why the entry is unusable, such as "line too long". Then all fields but Line, and perhaps URL,
	// are unset.
	Bad string
}

// Upper bounds of an entry's texts, in bytes.
const (
	maxTitle = 1 << 10
	maxWord  = 128 // of a type or a language
)

// Which fields an entry has, as bits of the first byte of its record.
const (
	hasModified = 1 << iota
	hasSpan
	hasLength
	hasType
	hasTitle
	hasLanguage
	hasCanonical
	hasDigest
)

// appendRecord encodes an entry without its URL. Equal entries have equal records, and no record is a prefix
// of another.
func appendRecord(b []byte, e *Entry) []byte {
	at := len(b)
	b = append(b, 0)
	if !e.Modified.IsZero() {
		b[at] |= hasModified
		b = binary.AppendVarint(b, e.Modified.UnixMilli())
		if e.Span > 0 {
			b[at] |= hasSpan
			b = binary.AppendUvarint(b, uint64(e.Span/time.Second))
		}
	}
	if e.Length > 0 {
		b[at] |= hasLength
		b = binary.AppendUvarint(b, uint64(e.Length))
	}
	for i, s := range [...]string{e.Type, e.Title, e.Language, e.Canonical} {
		if s != "" {
			b[at] |= hasType << i
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	if !e.Digest.IsZero() {
		b[at] |= hasDigest
		b = append(b, e.Digest[:]...)
	}
	return b
}

// cutRecord decodes a record of appendRecord at the beginning of s, and returns its length. Strings are parts
// of s.
func cutRecord(s string) (e Entry, size int) {
	b := s[1:]
	uvarint := func() uint64 {
		var v uint64
		for shift := 0; ; shift += 7 {
			c := b[0]
			b = b[1:]
			v |= uint64(c&0x7f) << shift
			if c < 0x80 {
				return v
			}
		}
	}
	has := s[0]
	if has&hasModified != 0 {
		v := uvarint()
		e.Modified = time.UnixMilli(int64(v>>1) ^ -int64(v&1)).UTC()
		if has&hasSpan != 0 {
			e.Span = time.Duration(uvarint()) * time.Second
		}
	}
	e.Length = -1
	if has&hasLength != 0 {
		e.Length = int64(uvarint())
	}
	for i, p := range [...]*string{&e.Type, &e.Title, &e.Language, &e.Canonical} {
		if has&(hasType<<i) != 0 {
			n := uvarint()
			*p, b = b[:n], b[n:]
		}
	}
	if has&hasDigest != 0 {
		copy(e.Digest[:], b)
		b = b[len(e.Digest):]
	}
	return e, len(s) - len(b)
}

// claimSize is how many bytes of a record's hash are kept.
const claimSize = 16

// A claim is the hash of an entry without its URL.
type claim [claimSize]byte

func claimOf(record string) claim {
	sum := sha256.Sum256([]byte(record))
	return claim(sum[:claimSize])
}

// stampMark begins the stamp of a page that was published as a source describes it.
const stampMark = "parley/catalog:"

func (c claim) stamp() []byte { return append([]byte(stampMark), c[:]...) }

// clean normalizes an entry's fields for publication, and clears invalid ones.
func (e *Entry) clean(base string) {
	e.Title = oneLine(e.Title, maxTitle)
	if e.Language = strings.TrimSpace(e.Language); len(e.Language) > maxWord || strings.Trim(e.Language, languageBytes) != "" {
		e.Language = ""
	}
	e.Type = mediaType(e.Type)
	if e.Canonical != "" {
		e.Canonical, _ = protocol.CanonicalURL(base, e.Canonical)
	}
	if ms := e.Modified.UnixMilli(); ms < minMilli || ms > maxMilli {
		e.Modified, e.Span = time.Time{}, 0
	}
}

// languageBytes are the bytes of BCP 47 tags.
const languageBytes = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Times outside of these years are mistakes.
var (
	minMilli = time.Date(1993, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxMilli = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// oneLine collapses a text to one line of at most size bytes.
func oneLine(s string, size int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))), " ")
	if len(s) > size {
		s = strings.TrimSpace(strings.ToValidUTF8(s[:size], ""))
	}
	return s
}

// mediaType returns a media type in lower case and without parameters, or the empty string.
func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	s = strings.ToLower(strings.TrimSpace(s))
	major, minor, ok := strings.Cut(s, "/")
	if !ok || major == "" || minor == "" || len(s) > maxWord ||
		strings.Trim(major, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
		strings.Trim(minor, "abcdefghijklmnopqrstuvwxyz0123456789-+._") != "" {
		return ""
	}
	return s
}

// A time without a zone may be up to eastmost earlier than in UTC, within a span of zones.
const (
	eastmost = 14 * time.Hour
	zones    = 26 * time.Hour
)

// parseTime reads the forms in which programs write times: W3CDTF, also with a space, with or without a zone;
// the two forms of HTTP and mail; Unix seconds or milliseconds.
func parseTime(s string) (t time.Time, span time.Duration, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return t, 0, false
	}
	// "2004" is a year and not a number of seconds: so this form is tried first.
	if d, err := protocol.ParseDate(s); err == nil {
		return d.Time, d.Span, true
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n > 1e11 {
			return time.UnixMilli(n).UTC(), 0, true
		}
		return time.Unix(n, 0).UTC(), time.Second, n > 0
	}
	for _, layout := range [...]string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05-0700",
		"2006-01-02 15:04:05 MST", time.RFC1123, time.RFC1123Z} {
		if t, err := time.Parse(layout, s); err == nil {
			if name, offset := t.Zone(); offset == 0 && name != "UTC" && name != "GMT" && name != "" {
				continue // an unknown zone name
			}
			return t.UTC(), 0, true
		}
	}
	for _, layout := range [...]string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.Add(-eastmost), zones, true
		}
	}
	return t, 0, false
}

// parseDigest reads a SHA-256 as RFC 9530 writes it, or as 64 hexadecimal digits.
func parseDigest(s string) (d protocol.Digest) {
	s = strings.TrimSpace(s)
	if len(s) == 2*len(d) {
		if b, err := hex.DecodeString(s); err == nil {
			return protocol.Digest(b)
		}
	}
	d, _ = protocol.ParseDigest(s)
	return d
}

// offer converts an entry to the Publisher's form.
func (e *Entry) offer(url, place string, now time.Time) inventory.Offer {
	o := inventory.Offer{URL: url, Place: place, Length: -1, Type: e.Type, Title: e.Title,
		Language: e.Language, Canonical: e.Canonical, Digest: e.Digest}
	if e.Length > 0 {
		o.Length = e.Length
	}
	if t, ok := protocol.SaneModified(e.Modified, now, protocol.DateLimits{}); ok {
		o.Modified = t
		if t.Equal(e.Modified) {
			o.Span = e.Span
		}
	}
	return o
}
