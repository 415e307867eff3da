// Package indexnow takes notices of the IndexNow protocol
// (https://www.indexnow.org/documentation), so that any CMS whose plugin lets
// the endpoint be set can tell a crawler what has changed.
//
// A [Receiver] is an http.Handler. It answers as the protocol says:
//
//	200  the URLs are taken, durably: Accept has stored them
//	202  the URLs are taken and the key is yet to be looked at; they are held
//	     in memory, and a crash loses them: then the pages are visited at
//	     their own pace
//	400  not a notice at all
//	403  the host does not serve the key, or another one
//	413  more than 10,000 URLs or 8 MiB
//	422  a URL that is not one of the host, or that does not lie below the
//	     directory of the key; a key that is none; a host that is not crawled
//	429  too much from that host, or too many keys to look at: see Retry-After
//	503  the receiver does not run, or cannot store
//
// A notice is believed for the host that serves its key, and for no other. The
// key's file is asked for by the crawler's own Transport, so politeness and
// its guard against private addresses hold for it, and it is asked for
// seldom: a proved key counts for a day, and of the keys that a host turns out
// not to have at most ten an hour are looked for. What a notice is worth is for
// package trust to say.
package indexnow
