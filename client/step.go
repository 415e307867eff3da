package client

import "github.com/parleyweb/parley/protocol"

// A Door is a way by which a site tells of its changes.
type Door string

// The doors, best first.
const (
	Stream   Door = "stream"   // told at once, over WebSocket
	Changes  Door = "changes"  // asked for, by long poll
	Manifest Door = "manifest" // robots.rdf, read whole
)

// A Step is a bounded part of what a site tells: take in its changes, and
// store its cursor in the same transaction as their effect.
//
// The effect to store is the debt ("this URL owes that digest"), not the
// fetch that pays it: then politeness can delay a body for hours without
// holding the cursor.
type Step struct {
	// Changes are in order, at most protocol.MaxBatch of them. Within a
	// snapshot each is a Create that states what is offered now, known or not;
	// a snapshot that is not whole may hold Deletes too.
	Changes []protocol.Change

	// Bodies holds nothing, or for each of Changes what came with it of its page:
	// its bytes as the digest of the change says, checked; nil where
	// the page is to be asked for, if it is wanted.
	Bodies [][]byte

	// Outputs holds nothing, or for each of Changes what the caller's agent made
	// of it at the site (Filter.Agent), which nothing can be checked against.
	Outputs [][]byte

	// As is the form in which the step came.
	As protocol.Form

	// Cursor is where the caller stands after this step. It is the zero
	// Cursor while a snapshot is still arriving, and where a site states none:
	// then nothing is to be stored in its place.
	Cursor protocol.Cursor

	// ETag and LastModified are those of the manifest whose last Step this is, for
	// Source.ETag; empty where it has none.
	ETag, LastModified string

	// Discovery is where the site describes itself, as its manifest says, for
	// Source.Discovery; empty where no manifest was read that says it.
	Discovery string

	// Door is how the step came.
	Door Door

	// Skipped counts what was left out of Changes: URLs of another origin,
	// and what is no URL.
	Skipped int

	// Behind is that the site has more to tell already: where a page changes again
	// in that, what it was in between is told without a body.
	Behind bool

	// Reset begins a snapshot: everything offered is about to be named. It
	// replaces a snapshot that has begun and not ended.
	Reset bool

	// Whole ends a snapshot that named everything: what no step since the
	// Reset has named is gone. A snapshot that is not whole ends without it,
	// and then absence says nothing.
	Whole bool
}
