// Package cel evaluates the expressions of crawlers: the parameter where of a site's doors, in the Common
// Expression Language (C13, C14). It implements Where of doors.Clients:
//
//	n.Clients.Where = new(cel.Expressions).Compile
//
// An expression decides about each change whether the reader is told of it:
//
//	change.op != "move" && change.path.startsWith("/news/")
//	page.type == "text/html" && page.length < 100000
//	page.language in ["en", "en-GB"] || !has(page.language)
//	page.importance >= 0.5 || change.significance > 0.2
//	change.at > timestamp("2026-11-21T00:00:00Z") && change.at.getDayOfWeek() == 1
//	["/docs/", "/manual/"].exists(p, change.path.startsWith(p)) && !change.url.contains("?")
//	page.title.matches("(?i)release notes")
//
// # Variables
//
// change is the change itself:
//
//	op            string     "create", "update", "delete" or "move"; at the query door, "create"
//	url           string     of the changed page; after a move, its new URL
//	path          string     of url, from "/", without its query
//	depth         int        the slashes in path
//	from          string     of a move: the old URL
//	seq           int        its number in the epoch; unknown at the query door
//	at            timestamp  when the site recorded it; unknown at the query door
//	prev          string     the previous digest, as "sha-256=:BASE64:"
//	significance  double     of an update or a move: how much of the main text changed, 0 to 1
//
// page is the page at url after the change; after a delete all its fields are unknown:
//
//	type          string     the media type, without parameters
//	length        int        bytes
//	language      string     as the page states it, such as "en-GB"
//	title         string
//	modified      timestamp  when the bytes changed last
//	importance    double     above 0, up to 1
//	digest        string     as prev
//	canonical     string     the canonical URL that the page states, if another
//
// The operators, functions and macros of the language are available (has, all, exists, exists_one, map,
// filter, in, size, contains, startsWith, endsWith, matches, timestamp, duration ...), and integers may be
// compared with doubles. matches takes a literal RE2 pattern, which may match anywhere in the text; "(?i)" at
// its beginning ignores case. Times are in UTC. There is no current time, since a change must have the same
// result whenever it is told, and no text of the page: a program can evaluate that ([caller.Agents]).
//
// # Unknown fields
//
// has(page.language) tells whether a field is known. An expression whose result depends on an unknown field,
// or that fails otherwise, such as by a division by zero, has no value. If one side of && or || decides the
// result alone, the language ignores a failure of the other. No value counts as false: the change is not
// told, and the stream goes on. But a delete is told then, for the same reason that conditions of
// [protocol.Filter] on a page do not exclude it: a reader who was told of a page must learn that it has gone.
// So page.type == "text/html" lets every delete pass; change.path, which a delete has too, excludes those
// elsewhere.
//
// # Pages that leave, and moves
//
// An update that the expression excludes is evaluated again with the page as it was before. If that was
// included, the page has left the selection: it is told as a delete, if the expression includes that. So a
// reader with page.length < 100000 learns that a page has grown beyond.
//
// The doors evaluate an expression after the other parameters of a filter, on the change as those would tell
// it. A move that it excludes is evaluated again as the delete of the old URL, and told as such if that is
// included. So change.path.startsWith("/news/") follows pages that move out of that part as the parameter
// prefix does; pages that move in are told as moves.
//
// # Bounds
//
// An expression has at most protocol.MaxWhere bytes, a depth of 40, and 16 patterns of at most 200
// instructions. Its cost is estimated, with texts as long as the fields can hold, a URL of 1 KiB; above
// 20,000 it is rejected. During evaluation the cost is counted, and at 20,000 evaluation stops: then the
// expression has no value for that change. A unit of cost is about an operation, ten bytes of text read, or a
// byte of text through 20 instructions of a pattern. The maximum takes a few milliseconds, and typical
// expressions cost a hundredth of it.
package cel
