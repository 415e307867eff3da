// Package collection keeps what a crawler knows: sites, pages, what was held
// of them and when, links, sources with their cursors, the queue, and a
// journal of its own, in one directory.
//
//	state.db     sites, pages, links, sources, queue (bbolt)
//	journal.db   what changed, for whoever follows the crawler (internal/journal)
//	warc/        contents, as WARC 1.1 with a CDXJ index, if asked for
//	mirror/      contents, as plain files, if asked for; those of the copy of one site stand in a directory of their own
//
// Everything that the crawler learns enters by [Collection.Commit] or
// [Collection.Apply], each one transaction: data before cursor. A killed
// process loses nothing that was committed, and nothing is stored twice.
//
// # What becomes of a page
//
// A URL is known once and for ever, by the number of its page. A visit that
// brings content makes it Held; the Policy says when the next is due, and the
// Strategy where it stands among what is due. What gave nothing is asked for again
// as [Again] says; what is held stays held meanwhile. A page is Gone by a 410,
// by two 404s hours apart, or by the site's own word, and by nothing else.
//
// A page that somebody tells of is due at once, whatever the policy says (V13).
// It owes the digest that was told: an answer that is not that is taken for a
// newer change, and asked for again three times before it is believed. The same claim
// again is no news, and one that names what is held owes nothing. An answer
// that was asked for before the claim was made proves nothing about it.
//
// Pages with the same content after parsing are duplicates of the first of
// them (P17): the links of a duplicate are not followed.
//
// # How it is kept
//
// State.db has a record of every URL, 32 of them in one, which begin with what
// they share with the one before; about 100 bytes a URL with its place in the
// queue. What more is known of a page is in a record of its own. Memory holds
// 64 bits of a hash and the number of every page, and a record of every site.
//
// To change a page of the file for every page of the Web would be most of what
// a commit costs, since neighbours on a site are seldom visited together.
// So changes of the queue and of pages go into a log first, which is written in one piece, and
// into memory; they are merged into their places when there are several for each page of the file.
package collection
