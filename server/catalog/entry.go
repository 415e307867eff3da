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

// An Entry is what a source says of one page. All but URL may be missing.
type Entry struct {
	// URL is absolute, or relative to the base URL of the site. It need not
	// be canonical.
	URL string

	// Modified is when the page last changed, and Span how coarsely that was
	// said: see [protocol.Item]. The zero time means unknown.
	Modified time.Time
	Span     time.Duration

	Length int64  // bytes; zero or less means unknown
	Type   string // media type, with parameters or without

	Title, Language, Canonical string

	Digest protocol.Digest // of the bytes as served

	Line int // where the source says it, from 1; zero if it has no lines

	// Bad is why nothing could be made of what stands there, such as "line too
	// long". Then all but Line, and perhaps URL, is missing.
	Bad string
}

// The longest that is kept of what an entry says, in bytes.
const (
	maxTitle = 1 << 10
	maxWord  = 128 // of a type or a language
)

// What an entry says, as bits of the first byte of its record.
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

// appendRecord appends all that an entry says, but for its URL. Two entries
// that say the same have the same record, and no record is a part of another.
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

// cutRecord reads a record at the beginning of s, which appendRecord wrote,
// and returns how long it is. Strings are parts of s.
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

// claimSize is how much of the hash of a record stands for it.
const claimSize = 16

// A claim stands for all that an entry says, its URL apart.
type claim [claimSize]byte

func claimOf(record string) claim {
	sum := sha256.Sum256([]byte(record))
	return claim(sum[:claimSize])
}

// stampMark begins the stamp of what was published as a source says it.
const stampMark = "parley/catalog:"

func (c claim) stamp() []byte { return append([]byte(stampMark), c[:]...) }

// clean brings what an entry says to the form in which it is told, and drops
// what cannot be told.
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

// languageBytes are what tags of BCP 47 consist of.
const languageBytes = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Times outside of these years are a mistake, whoever says them.
var (
	minMilli = time.Date(1993, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxMilli = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// oneLine makes one line of a text, at most size bytes long.
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

// Times without a zone are somewhere between these.
const (
	eastmost = 14 * time.Hour
	zones    = 26 * time.Hour
)

// parseTime reads the forms in which programs write times: W3CDTF, that with
// a space, with or without a zone, the two forms of HTTP and mail, and the
// seconds or milliseconds of Unix.
func parseTime(s string) (t time.Time, span time.Duration, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return t, 0, false
	}
	// "2004" is a year and no count of seconds: so the first form comes first.
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
				continue // a zone whose name says nothing here
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

// offer is what a source says, as the Publisher takes it in.
func (e *Entry) offer(url, place string, now time.Time) inventory.Offer {
	o := inventory.Offer{URL: url, Place: place, Length: -1, Type: e.Type, Title: e.Title,
		Language: e.Language, Canonical: e.Canonical, Digest: e.Digest}
	if e.Length > 0 {
		o.Length = e.Length
	}
	if t, ok := protocol.SaneModified(e.Modified, now); ok {
		o.Modified = t
		if t.Equal(e.Modified) {
			o.Span = e.Span
		}
	}
	return o
}
