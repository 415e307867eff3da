// Package collection stores the state of a crawler in one directory: sites, pages, the versions of their
// content, links, sources with their cursors, the queue, and a journal of its own.
//
//	state.db     sites, pages, links, sources, queue, and the changes for subscribers of the crawler (bbolt)
//	journal.db   the witness: the number of the newest change, which tells a state that was restored from a backup
//	warc/        contents, as WARC 1.1 with a CDXJ index, if asked for; mark.txt witnesses their end
//	mirror/      contents, as plain files, if asked for; those of the copy of one site stand in a directory of their own
//
// All that the crawler learns enters by [Collection.Commit] or [Collection.Apply], each one transaction:
// data before cursor. A killed process loses nothing that was committed, and nothing is stored twice.
//
// # The life of a page
//
// A URL is stored once and for ever, under its page number. A visit that brings content makes the page Held;
// the Policy decides when the next visit is due, and the Strategy its rank among the due pages. A page that
// gave no content is retried as [Again] says; its stored content stays meanwhile. A page becomes Gone by a
// 410, by two 404s hours apart, or by the site's own word, and by nothing else.
//
// A page is due at once when a source announces it, whatever the policy says (V13). The announced digest is
// then a pending fetch: an answer with another digest is taken for a newer change, and fetched again three
// times before it is believed. The same claim again is no news, and a claim that names the stored digest
// causes no fetch. An answer whose request was sent before the claim was made proves nothing about it.
//
// Pages with the same content after parsing are duplicates of the first of them (P17): the links of a
// duplicate are not followed.
//
// # Storage
//
// State.db stores URLs in blocks of 32, each without the prefix that it shares with the one before: about
// 100 bytes per URL, with its place in the queue. Everything else about a page is in a record of its own.
// Memory holds 64 bits of a hash and the number of every page, and a record of every site.
//
// Neighbours on a site are seldom visited together, so writing one page of the file for every page of the
// Web would be most of the cost of a commit. Changes of the queue and of pages therefore go first into a
// log, which is written in one piece, and into memory; they are merged into their places once there are
// several for each page of the file.
package collection
