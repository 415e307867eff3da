// Package bundle writes and reads many pages as one stream: what a site
// answers where it is asked for a batch, and what it tells as one (C09, C10).
//
// The stream is a WARC file (ISO 28500), each record a gzip member of its own
// or in another [Coding], so that whatever reads archives reads it:
//
//   - a warcinfo record, whose block states parley-from, parley-to and
//     parley-changes: a [Head];
//   - for each change a metadata record of type application/json, which holds
//     the change as an "ev" message of package protocol, and then, where its
//     page comes with it, a response record of that page without content coding;
//   - a metadata record of type application/warc-fields, which states
//     parley-changes and parley-pages. Without it a stream is not whole.
//
// The changes are ordered by their number, which several may have: a move is
// told as a delete and a create. Each URL stands there once.
package bundle

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// MediaType is that of the stream.
const MediaType = "application/warc"

// A Head says what a stream holds.
type Head struct {
	// Having taken in what follows From, and then the stream, a reader stands
	// at To. From is the zero Cursor where the stream says what pages are,
	// whatever happened before: then it brings nobody anywhere, and what it
	// says was so at To or later.
	From, To protocol.Cursor

	Changes int // how many follow

	At time.Time // when the newest of it was noted; it dates the stream
}

// A Page is a change, and what came with it.
type Page struct {
	Change protocol.Change

	// Body is the page without content coding, whose digest is that of the
	// Change; nil if it did not come.
	Body []byte
}

// The fields of the first record and the last.
const (
	fieldFrom    = "parley-from"
	fieldTo      = "parley-to"
	fieldChanges = "parley-changes"
	fieldPages   = "parley-pages"
)

const changeType = "application/json"

// Accepted are the content codings that a Reader undoes by itself, as a
// request lists them. Without any it is gzip that each record has.
const Accepted = string(Zstd)
