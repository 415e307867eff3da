// Package bundle writes and reads many pages as one stream: the response to a request for a batch, and a
// batch delivered on a subscription (C09, C10).
//
// The stream is a WARC file (ISO 28500), each record a gzip member of its own or in another [Coding], so that
// every reader of archives can read it:
//
//   - a warcinfo record, whose block states parley-from, parley-to and
//     parley-changes: a [Head];
//   - for each change a metadata record of type application/json, which holds
//     the change as an "ev" message of package protocol, and then, where its
//     page comes with it, a response record of that page without content coding;
//   - a metadata record of type application/warc-fields, which states
//     parley-changes and parley-pages. Without it a stream is not whole.
//
// The changes are ordered by their number, which several may share: a move is sent as a delete and a create.
// Each URL occurs once.
package bundle

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// MediaType is the media type of the stream.
const MediaType = "application/warc"

// A Head describes a stream.
type Head struct {
	// From and To are cursors: a reader at From that applies the stream is at To. From is the zero Cursor if
	// the stream states pages as they are, whatever happened before: then it moves no reader's cursor, and
	// its pages were so at To or later.
	From, To protocol.Cursor

	Changes int // number of changes in the stream

	At time.Time // when the newest change was recorded; it dates the stream
}

// A Page is a change, and the page delivered with it.
type Page struct {
	Change protocol.Change

	// Body is the page without content coding, whose digest is that of the Change; nil if it was not
	// delivered.
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

// Accepted are the content codings that a Reader decodes by itself, in the form of a request header. Without
// any, each record is gzip.
const Accepted = string(Zstd)
