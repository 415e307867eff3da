package protocol

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An Item is one resource that a site offers.
// It is a value; see [Item.Equal].
type Item struct {
	// URL is absolute and canonical: scheme and host in lower case, path
	// percent-encoded, no fragment.
	URL string

	// Title is the title in feed readers. Empty means that the path is shown.
	Title string

	// Modified is when the bytes last changed, in UTC, to the millisecond.
	// The zero time means unknown.
	Modified time.Time

	// Span is the granularity of Modified: the change lies in
	// [Modified, Modified+Span). A date that names only a day has a Span of
	// 24 hours; zero means exact to a second or better.
	Span time.Duration

	// Length is the number of bytes served without content coding; -1 means unknown.
	Length int64

	// Type is the media type without parameters, such as "text/html". Empty means unknown.
	Type string

	// Digest is the SHA-256 of the bytes served without content coding.
	// The zero Digest means unknown.
	Digest Digest

	// Text is the digest of the page's main text, as the site extracts it,
	// without masked text. Equal digests mean that nothing changed that a person
	// would notice. The zero Digest means unknown.
	Text Digest

	// Language is the language that the page names for itself, a BCP 47 tag
	// such as "en" or "pt-BR". Empty means unknown.
	Language string

	// Canonical is the canonical URL that the page declares, if it is another
	// one. Empty means its own.
	Canonical string

	// Importance is how much the page is visited, relative to other pages of the site.
	Importance Importance
}

// Equal reports whether two items are equal apart from their importance, which
// varies from day to day with the visitors. Times are compared as instants.
func (i Item) Equal(o Item) bool {
	a, b := i, o
	a.Modified, b.Modified = time.Time{}, time.Time{}
	a.Importance, b.Importance = 0, 0
	return a == b && i.Modified.Equal(o.Modified)
}

// An Importance is a share from 0.01 to 1 in hundredths, 1 to 100: 1 is the
// page that its site finds most important. Zero means unknown.
type Importance uint8

// ImportanceOf returns the share, clamped to 0.01 to 1, as an Importance.
// A share of 0 or less, or NaN, is unknown.
func ImportanceOf(share float64) Importance {
	if !(share > 0) {
		return 0
	}
	return Importance(math.Round(100 * min(max(share, 0.01), 1)))
}

// Share returns the share from 0.01 to 1, and false if it is unknown.
func (i Importance) Share() (share float64, known bool) {
	return float64(min(i, 100)) / 100, i != 0
}

// append writes a known importance.
func (i Importance) append(b []byte) []byte {
	share, _ := i.Share()
	return strconv.AppendFloat(b, share, 'f', -1, 64)
}

// parseImportance parses a decimal number above 0, up to 1. Anything else is unknown.
func parseImportance(b []byte) Importance {
	if len(b) > 24 || strings.Trim(string(b), "0123456789.") != "" {
		return 0
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f > 1 {
		return 0
	}
	return ImportanceOf(f)
}

// A Digest is a SHA-256 hash of content. It is comparable; the zero value means unknown.
type Digest [sha256.Size]byte

// Sum returns the digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// IsZero reports whether the digest is unknown.
func (d Digest) IsZero() bool { return d == Digest{} }

const digestPrefix, digestSuffix = "sha-256=:", ":"

// digestLen is the length of a written digest in bytes.
const digestLen = len(digestPrefix) + (sha256.Size+2)/3*4 + len(digestSuffix)

// digestCoding refuses nonzero padding bits, so that a digest has one spelling.
var digestCoding = base64.StdEncoding.Strict()

// String returns the digest as RFC 9530 writes it: "sha-256=:BASE64:".
// The zero Digest is the empty string.
func (d Digest) String() string { return string(d.append(nil)) }

func (d Digest) append(b []byte) []byte {
	if d.IsZero() {
		return b
	}
	b = append(b, digestPrefix...)
	b = digestCoding.AppendEncode(b, d[:])
	return append(b, digestSuffix...)
}

// ParseDigest parses the output of [Digest.String]; the empty string is the zero
// Digest. Any other algorithm is an error, which a reader of a message or a
// manifest treats as an unknown digest.
func ParseDigest(s string) (Digest, error) {
	d, ok := parseDigest(s)
	if !ok {
		return Digest{}, fmt.Errorf("parse digest %.80q: want sha-256=:BASE64: of 32 bytes", s)
	}
	return d, nil
}

func parseDigest[S string | []byte](s S) (d Digest, ok bool) {
	if len(s) == 0 {
		return d, true
	}
	if len(s) != digestLen || string(s[:len(digestPrefix)]) != digestPrefix || s[digestLen-1] != digestSuffix[0] {
		return d, false
	}
	var in [digestLen]byte
	copy(in[:], s)
	var out [sha256.Size + 1]byte // the decoder needs room for the padding
	n, err := digestCoding.Decode(out[:], in[len(digestPrefix):digestLen-1])
	if err != nil || n != sha256.Size {
		return d, false
	}
	return Digest(out[:sha256.Size]), true
}

// MarshalText writes the digest for JSON, as String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}

// mediaType returns a media type in lower case and without parameters, and
// the empty string if s is none.
func mediaType(s string) string {
	if i := strings.IndexByte(s, ';'); i >= 0 {
		s = s[:i]
	}
	s = strings.ToLower(strings.TrimSpace(s))
	slash := strings.IndexByte(s, '/')
	if len(s) > 127 || slash <= 0 || slash == len(s)-1 {
		return ""
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', i == slash:
		case strings.IndexByte("!#$&-^_.+*'%|~`", c) >= 0:
		default:
			return ""
		}
	}
	return s
}

// maxLanguage bounds a language tag, in bytes: by RFC 5646, section 4.4.1, no
// tag needs more.
const maxLanguage = 35

// languageTag returns s unchanged if it may be a language tag, and the empty
// string if it cannot be one.
func languageTag(s string) string {
	if len(s) > maxLanguage {
		return ""
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return ""
		}
	}
	return s
}

// Depth returns the number of slashes in the path of a URL, so that all URLs
// of one directory have the same depth. A URL without a path has the depth of
// the home page, 1.
func Depth(url string) int {
	if i := strings.Index(url, "://"); i >= 0 {
		url = url[i+3:]
	}
	for _, end := range []byte{'#', '?'} {
		if i := strings.IndexByte(url, end); i >= 0 {
			url = url[:i]
		}
	}
	return max(1, strings.Count(url, "/"))
}

// Compare is the order of URLs in all of Parley: by depth, then by bytes. So
// the most important pages come first (C25).
func Compare(a, b string) int {
	// Fast path for URLs of one directory: equal up to the last slash.
	if i := strings.LastIndexByte(a, '/'); i >= 0 && i == strings.LastIndexByte(b, '/') && a[:i] == b[:i] {
		return strings.Compare(a[i:], b[i:])
	}
	if c := cmp.Compare(Depth(a), Depth(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
