package client

import "github.com/parleyweb/parley/protocol"

// A Door is a way to get a site's changes.
type Door string

// The doors, best first.
const (
	Stream   Door = "stream"   // pushed at once, over WebSocket
	Changes  Door = "changes"  // requested, by long poll
	Manifest Door = "manifest" // robots.rdf, read whole
)

// A Step is a bounded part of a site's changes: apply its changes, and store its cursor in the same
// transaction as their effect.
//
// The effect to store is the pending fetch ("the content of this URL with that digest is missing"), not the
// fetch itself: then politeness can delay a fetch for hours without holding back the cursor.
type Step struct {
	// Changes are in order, at most protocol.MaxBatch of them. In a snapshot each is a Create for a page that
	// is offered now, known or not; a snapshot that is not whole may hold Deletes too.
	Changes []protocol.Change

	// Bodies is empty, or holds for each of Changes the page that came with it, checked against the digest of
	// the change; nil where the page must be fetched, if it is wanted.
	Bodies [][]byte

	// Outputs is empty, or holds for each of Changes the output of the caller's agent at the site
	// (Filter.Agent), which cannot be checked against anything.
	Outputs [][]byte

	// As is the form in which the step came.
	As protocol.Form

	// Cursor is the caller's position after this step. It is the zero Cursor while a snapshot is still
	// arriving, and where a site states none: then keep the stored cursor.
	Cursor protocol.Cursor

	// Doubtful is for Source.Doubtful: store it with the cursor. A Step without Changes may be the first that states it.
	Doubtful bool

	// ETag and LastModified are those of the manifest whose last Step this is, for
	// Source.ETag; empty where it has none.
	ETag, LastModified string

	// Discovery is the URL of the site's description, as its manifest states it, for Source.Discovery; empty
	// where no manifest was read that states it.
	Discovery string

	// Door is the door that delivered the step. A Step without Changes says that another one works now: the stream, for example,
	// after a manifest.
	Door Door

	// Skipped counts the entries left out of Changes: URLs of another origin, and invalid URLs.
	Skipped int

	// Parts counts the requests for parts of a manifest since the Step before.
	Parts int

	// Behind reports that the site already has later changes: a page that changes again in those comes
	// without a body for this version.
	Behind bool

	// Reset begins a snapshot: everything offered is about to be listed. It replaces a snapshot that has
	// begun and not ended.
	Reset bool

	// Whole ends a snapshot that listed everything: a page that no step since the Reset has listed is gone. A
	// snapshot that is not whole ends without it, and then absence means nothing.
	Whole bool
}
