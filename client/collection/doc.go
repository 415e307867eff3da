// Package collection keeps what a crawler knows: sites, pages, what was held
// of them and when, links, sources with their cursors, the queue, and a
// journal of its own, in one directory.
//
//	state.db     sites, pages, links, sources, queue (bbolt)
//	journal.db   what changed, for whoever follows the crawler (internal/journal)
//	warc/        contents, as WARC 1.1 with a CDXJ index, if asked for
//	mirror/      contents, as plain files, if asked for
//
// Everything that the crawler learns enters by [Collection.Commit] or
// [Collection.Apply], each one transaction: data before cursor. A killed
// process loses nothing that was committed, and nothing is stored twice.
package collection
