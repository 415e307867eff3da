// Package sitemap reads and writes sitemaps (sitemaps.org, protocol 0.9): the one list of pages that every
// search engine accepts.
//
// A [Reader] reads a set of URLs, an index of sitemaps, or a plain list of URLs, as they are found on the
// Web: bounded, as a stream, and tolerant of everything that leaves an entry clear. A [Writer] writes valid
// ones.
package sitemap

import (
	"errors"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// Namespace is the namespace of a sitemap's elements.
const Namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"

// The limits of the protocol, per file.
const (
	MaxURLs  = 50_000     // URLs of a set, or sitemaps of an index
	MaxBytes = 52_428_800 // uncompressed
	MaxLoc   = 2048       // characters of a loc: it has fewer
)

// Errors that [Reader.Next] wraps.
var (
	// ErrHTML says that the document is a page: most often a "not found" page with status 200.
	ErrHTML = errors.New("document is HTML, not a sitemap")

	// ErrOther says that the document is something else, such as a feed.
	ErrOther = errors.New("not a sitemap")

	// ErrTruncated says that the document is incomplete. It is wrapped together with io.ErrUnexpectedEOF.
	ErrTruncated = errors.New("sitemap is truncated")

	// ErrLimit says that the document exceeds a limit of Options.
	ErrLimit = xmlpull.ErrLimit
)

// A Kind is the kind of a document.
type Kind uint8

const (
	Unknown Kind = iota // before Next was called, and for what is no sitemap
	URLSet              // a list of pages
	Index               // a list of sitemaps
	Text                // a list of pages, one URL a line
)

// String returns the name of the kind for reports.
func (k Kind) String() string {
	switch k {
	case URLSet:
		return "sitemap"
	case Index:
		return "sitemap index"
	case Text:
		return "text sitemap"
	}
	return "unknown"
}
