// Package sitemap reads and writes sitemaps (sitemaps.org, protocol 0.9): the
// one list of pages that every search engine takes.
//
// A [Reader] reads a set of URLs, an index of sitemaps, or a plain list of
// URLs, as they are found: bounded, as a stream, and tolerant of all that
// does not make an entry unclear. A [Writer] writes them as they ought to be.
package sitemap

import (
	"errors"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// Namespace is what the elements of a sitemap are in.
const Namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"

// The limits of the protocol, each of one file.
const (
	MaxURLs  = 50_000     // URLs of a set, or sitemaps of an index
	MaxBytes = 52_428_800 // uncompressed
	MaxLoc   = 2048       // characters of a loc: it has fewer
)

// Errors that [Reader.Next] wraps.
var (
	// ErrHTML says that a page came where a sitemap was promised: most often
	// the "not found" of a server that says "found".
	ErrHTML = errors.New("it is HTML, not a sitemap")

	// ErrOther says that the document is something else, such as a feed.
	ErrOther = errors.New("not a sitemap")

	// ErrTruncated says that the document ends before it is whole. It is
	// wrapped together with io.ErrUnexpectedEOF.
	ErrTruncated = errors.New("sitemap is cut short")

	// ErrLimit says that the document went beyond a limit of Options.
	ErrLimit = xmlpull.ErrLimit
)

// A Kind is what a document turned out to be.
type Kind uint8

const (
	Unknown Kind = iota // not known before Next was called, and of what is no sitemap
	URLSet              // a list of pages
	Index               // a list of sitemaps
	Text                // a list of pages, one URL a line
)

// String returns how a report names the kind.
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
