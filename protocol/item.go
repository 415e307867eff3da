package protocol

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// An Item is one resource that a site offers.
// It is a value: two Items that compare equal with [Item.Equal] offer the same bytes.
type Item struct {
	// URL is absolute and canonical: scheme and host in lower case, path
	// percent-encoded, no fragment.
	URL string

	// Title is what a feed reader shows. Empty means that the path stands in.
	Title string

	// Modified is when the bytes last changed, in UTC, to the millisecond.
	// The zero time means unknown.
	Modified time.Time

	// Span is how coarse Modified was written: the change lies in
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
}

// Equal reports whether two items say the same of the same URL.
// Times are compared as instants.
func (i Item) Equal(o Item) bool {
	a, b := i, o
	a.Modified, b.Modified = time.Time{}, time.Time{}
	return a == b && i.Modified.Equal(o.Modified)
}

// A Digest is a SHA-256 hash of content. It is comparable; the zero value means unknown.
type Digest [sha256.Size]byte

// Sum returns the digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// IsZero reports whether the digest is unknown.
func (d Digest) IsZero() bool { return d == Digest{} }

const digestPrefix, digestSuffix = "sha-256=:", ":"

// String returns the digest as RFC 9530 writes it: "sha-256=:BASE64:".
// The zero Digest is the empty string.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + base64.StdEncoding.EncodeToString(d[:]) + digestSuffix
}

// ParseDigest reads what [Digest.String] writes; the empty string is the zero Digest.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if s == "" {
		return d, nil
	}
	b64, ok := strings.CutPrefix(s, digestPrefix)
	if ok {
		b64, ok = strings.CutSuffix(b64, digestSuffix)
	}
	if !ok || len(b64) != base64.StdEncoding.EncodedLen(len(d)) {
		return d, fmt.Errorf("parse digest %.80q: want sha-256=:BASE64:", s)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("parse digest %.80q: want the base64 of 32 bytes", s)
	}
	copy(d[:], b)
	return d, nil
}

// MarshalText writes the digest for JSON, as String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}

// Depth returns the level of a URL in its site: the number of slashes in its
// path, so that everything in one directory has one depth. A URL without a
// path has the depth of the home page, 1.
func Depth(url string) int {
	if i := strings.Index(url, "://"); i >= 0 {
		url = url[i+3:]
	}
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		url = url[:i]
	}
	return max(1, strings.Count(url, "/"))
}

// Compare orders URLs as everything in Parley orders them: by depth, then by
// bytes. The most important pages so come first (C25).
func Compare(a, b string) int {
	if c := cmp.Compare(Depth(a), Depth(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
