// Package indexnow receives notices of the IndexNow protocol (https://www.indexnow.org/documentation), so
// that any CMS with a configurable endpoint in its plugin can tell a crawler of changes.
//
// A [Receiver] is an http.Handler. It responds as the protocol says:
//
//	200  the URLs are accepted, durably: Accept has stored them
//	202  the URLs are accepted and the key is yet to be checked; they are held
//	     in memory, and a crash loses them: then the pages are visited at
//	     their own pace
//	400  not a notice at all
//	403  the host does not serve the key, or serves another one
//	413  more than 10,000 URLs or 8 MiB
//	422  a URL that is not one of the host, or not below the
//	     directory of the key; a malformed key; a host that is not crawled
//	429  too much from that host, or too many keys to check: see Retry-After
//	503  the receiver does not run, or cannot store
//
// A notice is valid for the host that serves its key, and for no other. The key's file is fetched by the
// crawler's own Transport, so politeness and its guard against private addresses apply, and it is fetched
// seldom: a proved key is valid for a day, and of the keys that a host turns out not to have at most ten an
// hour are checked. Package trust judges how reliable a notice is.
package indexnow
