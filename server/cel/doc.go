// Package cel evaluates what crawlers ask in expressions: the parameter where
// of the doors of a site, in the Common Expression Language (C13, C14). It is
// what [server.Notifier.Where] is made for:
//
//	n.Where = new(cel.Expressions).Compile
//
// An expression says of a change whether its reader is to be told of it:
//
//	change.op != "move" && change.path.startsWith("/news/")
//	page.type == "text/html" && page.length < 100000
//	page.language in ["en", "en-GB"] || !has(page.language)
//	page.importance >= 0.5 || change.significance > 0.2
//	change.at > timestamp("2026-11-21T00:00:00Z") && change.at.getDayOfWeek() == 1
//	["/docs/", "/manual/"].exists(p, change.path.startsWith(p)) && !change.url.contains("?")
//	page.title.matches("(?i)release notes")
//
// # What there is
//
// change is the step:
//
//	op            string     "create", "update", "delete" or "move"; at the query door, "create"
//	url           string     what is changed; after a move, where the bytes are now
//	path          string     of url, from "/", without its query
//	depth         int        the slashes in path
//	from          string     of a move: the URL that the bytes had
//	seq           int        its number in the epoch; not known at the query door
//	at            timestamp  when the site noted it; not known there either
//	prev          string     the digest before, as "sha-256=:BASE64:"
//	significance  double     of an update or a move: how much of the main text changed, 0 to 1
//
// page is what is offered at url after the step; after a delete nothing of it is known:
//
//	type          string     the media type, without parameters
//	length        int        bytes
//	language      string     as the page names it, such as "en-GB"
//	title         string
//	modified      timestamp  when the bytes changed last
//	importance    double     above 0, up to 1
//	digest        string     as prev
//	canonical     string     the URL that the page asks to be listed under, if another
//
// There are the operators, functions and macros of the language (has, all,
// exists, exists_one, map, filter, in, size, contains, startsWith, endsWith,
// matches, timestamp, duration ...), and a whole number may be compared with a
// decimal one. matches takes a literal pattern of RE2, which is found anywhere
// in the text; "(?i)" at its beginning is for text in whatever case. Times are
// in UTC. There is no time of now, since a change is told with the same value
// whenever it is told, and no text of the page: whoever wants to judge that
// sends a program ([server.Agents]).
//
// # What is not known
//
// has(page.language) says whether a field is known. An expression that comes
// to depend on one that is not, or that fails otherwise, such as by a division
// by zero, has no answer. The language itself sees to it that
// what the other side of && or || decides alone is decided. No answer counts
// as false: the change is not told, and the stream goes on. But a delete is
// told then, for the reason that the conditions of [protocol.Filter] on a page
// do not hold back one: whoever was told of a page must learn that it has gone.
// So page.type == "text/html" brings every delete; change.path, which a delete
// has too, holds back those elsewhere.
//
// # Pages that leave, and moves
//
// An update that an expression does not want is asked again as if it had led to
// the page as it was before. If that is wanted, the page has left what is asked for: it is
// told as a delete, if the expression wants that. So whoever asks for
// page.length < 100000 hears of a page that grows beyond.
//
// The doors ask an expression after the other parameters of a filter, of the
// change as those would tell it. A move that it does not want is asked again as
// the delete of its old URL, and told so if that is wanted. So the expression
// change.path.startsWith("/news/") follows what moves out of that part as the
// parameter prefix does; what moves in is told as the move.
//
// # Bounds
//
// An expression has at most protocol.MaxWhere bytes, a depth of 40, and
// 16 patterns of at most 200 instructions. What it may cost is estimated, with
// texts as long as the fields can hold, a URL of 1 KiB; above 20,000 it is refused.
// While it is evaluated the cost is counted, and at 20,000 it is cut: then it
// has no answer for that change. A unit is about an operation, ten bytes of
// text looked at, or a byte of text through 20 instructions of a pattern. All
// of it takes a few milliseconds, and what people write costs a hundredth of it.
package cel
