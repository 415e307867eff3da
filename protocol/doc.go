// Package protocol is what Parley says: how a site tells what it offers and
// what changed, and how a crawler understands it. This page is the
// specification; the code below it writes and reads what is specified, and
// has no network, files, clock or goroutines.
//
// A site keeps a journal of its changes. All that a crawler asks for, or is
// told, is that journal read from a cursor. There are three doors to it:
//
//   - the manifest, robots.rdf: everything offered at one moment;
//   - the change list: what changed after a cursor, asked for over HTTP;
//   - the stream: what changes, told at once over WebSocket.
//
// Whoever has read the manifest stands at its cursor and goes on at either of
// the other doors. All doors share one cursor, so any can be left for another,
// and the manifest replaces a history that is lost.
//
// # Nouns
//
// An [Item] is one resource that a site offers: its URL, when its bytes last
// changed, their length, media type and digest; and, where the site looks at
// what it serves, what a page says of itself. A [Change] is one step of one
// URL: create, update, delete or move. A [Tombstone] is what is remembered of
// a URL that is gone. A [Manifest] is the whole offer, standing at a [Cursor].
// A [Log] is the journal to read from. A [Message] is what the change list and
// the stream are made of.
//
// # Words
//
// A URL is absolute and canonical, as [CanonicalURL] returns it, and at most
// [MaxURL] bytes long. A site speaks of its own origin only: of scheme, host
// and port of its base URL. A reader resolves what is relative and passes over
// what is foreign.
//
// A time is W3CDTF in UTC, to the second or the millisecond:
// "2026-11-21T05:00:09.250Z". Readers take every granularity of W3CDTF, and a
// coarse date as an interval: see [Date]. A modification time that cannot be
// is judged by [SaneModified].
//
// A length is the number of bytes, and a digest the SHA-256, of the content as
// it is served without content coding. A digest is written as RFC 9530 does,
// "sha-256=:BASE64:". The modification time moves when the digest moves: not
// when a file is touched, and never backwards for other bytes.
//
// A cursor is EPOCH:SEQ and means: everything up to and including change SEQ
// of this epoch has been taken in. Changes are numbered from 1 within an
// epoch; an epoch is 1 to 64 letters, digits, '-' or '_', and not "0". "0:0" stands before
// everything. A new epoch begins when the journal cannot prove that it
// continues what it told before. A cursor is not a time and not opaque, and
// cursors of different epochs have no order.
//
// A main-text digest is that of the words that a person reads on a page, as
// its site extracts them, with what the site masks left out. It is not the
// digest of any bytes that are served, and means something only beside another
// of the same URL: where both are equal, nothing changed that a reader would
// notice. A [Significance] is the share of the main text, 0 to 1, that a change
// changed: 0 says that the main text stayed as it was, and any other at least
// 0.001. An [Importance], 0.01 to 1, is how much the site's visitors ask for a
// page, compared with its other pages. A language is a BCP 47 tag of at most 35
// letters, digits and '-'. All of them are for ordering work by: digest and
// modification time follow the bytes, whatever these say.
//
// Items are ordered as [Compare] orders them: by the number of slashes in the
// path, then by the bytes of the URL.
//
// # The manifest
//
// A manifest is an RSS 1.0 document and an RDF/XML document, called robots.rdf
// at the base URL of the site, of media type application/rdf+xml, in UTF-8.
// Feed readers show it as a feed, RDF tools read it as a graph. The prefix p
// stands here for the namespace urn:parley:1#, dcterms for Dublin Core terms.
//
// The channel, rdf:about the manifest's own URL, holds in this order:
//
//   - title, link (the base URL), description;
//   - dc:date and dcterms:modified, both: when the site last changed;
//   - p:epoch and p:seq: the cursor, if the site keeps a journal;
//   - p:items: the number of items, tombstones apart;
//   - p:complete: "true" if every resource offered is named, else "false";
//   - p:stream and p:changes: the URLs of the other doors, as rdf:resource;
//   - items with an rdf:Seq: the URL of every item, as rdf:resource.
//
// Then come the items, each rdf:about its URL: title (the path where there is
// none), link, dc:date and dcterms:modified of the same value (feed readers
// know the first, RDF tools the second), dc:format (the media type),
// dcterms:extent (the length in bytes, digits alone), p:digest, dc:language,
// p:canonical (the URL that the page asks to be listed under, as rdf:resource,
// if that is another one; it may be of another origin), p:text (the main-text
// digest, written as p:digest is) and p:importance (a decimal number with at
// most two digits after the point). What is unknown is left out.
//
// Then come the tombstones, which are not in the rdf:Seq, so that no feed
// reader shows a deletion as news: typed nodes p:Tombstone, rdf:about the URL
// that is gone, with dcterms:modified (when that was said), p:seq (the change
// that said it), p:digest (the last one) and, after a move,
// dcterms:isReplacedBy with the new URL as rdf:resource. The newest comes
// first, and each stays for as long as the site remembers the change.
//
// The bytes are stable: one order of items and elements, line feeds, no time
// of writing. So a manifest changes when the site does, and conditional
// requests for it work.
//
// Absence from a manifest means gone only if the manifest says p:complete
// "true" and holds as many items as p:items says. A manifest cut short or of
// another count is refused at its end ([ErrTruncated]), and what it did not
// name is still there.
//
// A reader takes more than is written. The root may be rdf:rdf and the
// namespace of RDF may lack its '#', as in the thesis that this form comes
// from; dc:modified is read where dcterms:modified is missing, and dc:date
// where both are; link where an item has no rdf:about. Any RSS 1.0 feed is so a
// manifest that is not complete. [ManifestReader] says what becomes of what
// cannot be understood. Everything is bounded before it is parsed; a document
// type declaration is refused.
//
// # The change list
//
// The change list is a resource, parley/changes below the base URL unless the
// manifest says otherwise, with a query of
//
//   - after: the cursor to read after; missing means "0:0";
//   - wait: seconds, 0 to 60, to wait for a change if there is none yet;
//   - limit: the number of changes, 1 to 1000, to answer with at most.
//
// It answers 200 with one batch message, as application/json: the changes in
// (from, to], where from is the after of the query, and head, the newest
// change of the site. Standing at to, ask again; to equal to head is
// everything. There may be no change in the answer.
//
// # The stream
//
// The stream is a WebSocket, parley/stream below the base URL unless the
// manifest says otherwise, of subprotocol [Subprotocol], with after in its
// query as on the change list. All messages are text and go from the site to
// the crawler; each is one JSON object of at most [MaxMessage] bytes whose
// member t names its kind:
//
//   - hello, always first: v (1), from (the cursor that is told after), head,
//     floor (the oldest cursor that can be resumed from), at (the site's
//     clock), hb (seconds of silence after which the connection is dead if
//     nothing comes; the site says something that often), manifest (its URL);
//   - ev: to, and one change, whose members stand in the message itself;
//   - batch: from, to, n and ev: the n changes in (from, to], at most 1000;
//   - mark: to, head, at: nothing more to tell up to to; also the heartbeat, and
//     sent at once where changes may not be told to anybody;
//   - gap: from, to, reason, manifest: the changes in (from, to] cannot be
//     told any more: read the manifest; the stream goes on after to;
//   - bye, always last: code, reason, retry_ms (how long to wait before coming
//     again), resume (the cursor to resume from).
//
// The member to is a watermark: having taken in the message, a reader stands
// at to, whatever it was shown. Store it in the same transaction as the effect
// of the changes. Order is kept, and after a cut a message may come again:
// what is told is told at least once, and a change has the same value however
// and whenever it is told.
//
// A change has seq, at (when the site noted it), op, url, from (for a move, the
// URL that the bytes had before), mod (the modification time), len, type, hash
// (the digest) and prev (the digest before), the last five where known. So may
// be sig (the significance, a number from 0 to 1 with at most three digits
// after the point; of an update or a move), text (the main-text digest), lang,
// canonical (an absolute URL) and imp (the importance, a number). After a delete
// there is none of these but prev. A move says that the bytes of from are
// offered at url now, and that from is gone; a copy whose digest is hash need
// not be fetched again.
//
// A change is a hint. It says that a URL is worth looking at, and what to
// expect there; how soon, and whether at all, is the crawler's to decide, and
// robots.txt and politeness come first.
//
// The close code after bye says whether to come again: after 4000 to 4499
// later, with growing intervals, after 4500 to 4999 not. So far there are
// 4001 (the site stops or restarts), 4002 (the reader did not read), 4003 (the
// reader's epoch has ended) and 4502 (the site will not serve this reader).
//
// Beside its messages the site sends WebSocket pings, and cuts a crawler that
// answers none. What a crawler says itself is passed over, up to 4 KiB a message.
//
// # Refusals
//
// Both doors refuse alike, the stream before it is a WebSocket, with
// application/problem+json (RFC 9457):
//
//   - 400, urn:parley:problem:parameter: a parameter that is unknown or wrong,
//     named by the member parameter; so is a subprotocol that was not offered;
//   - 409, urn:parley:problem:epoch: the cursor is of another epoch, or after
//     the head;
//   - 410, urn:parley:problem:too-old: the cursor is below the floor, as "0:0"
//     always is;
//   - 429, urn:parley:problem:limit, with Retry-After: too many subscribers, or
//     too many from one address;
//   - 503, urn:parley:problem:scanning, with Retry-After: the site's first
//     description is not whole yet;
//   - 403: a page of another origin asks; 426: this is no WebSocket handshake.
//
// 409 and 410 have the members head, floor and manifest: read the manifest, and
// go on from its cursor. A cursor is never quietly replaced by another.
//
// # Finding the doors
//
// The manifest names the doors in its channel. So does /.well-known/parley at
// the root of the host, in JSON: version (1), base, manifest, changes, stream,
// subprotocols, epoch, head, floor, heartbeat and, where it is known, items.
//
// # What is frozen, and what may come
//
// What urn:parley:1# and [Subprotocol] mean is frozen: the elements Tombstone,
// epoch, seq, items, complete, stream, changes, digest, text, canonical and
// importance in the places above;
// the kinds of messages and their members; that a cursor is EPOCH:SEQ and
// exclusive; that to is a watermark; when absence means gone. What a reader
// would misunderstand gets another namespace and another subprotocol.
//
// Everything else may come, and readers are ready for it:
//
//   - an element, attribute or typed node that is not known is passed over, in
//     any namespace, urn:parley:1# included; it never changes the meaning of
//     what is known;
//   - a message of a kind that is not known is passed over with all its
//     members, and so is a member that is not known;
//   - a change whose op is not known is an update: look at the URL;
//   - a digest of an algorithm that is not known is an unknown digest, and
//     whatever else describes a resource and cannot be read, such as a date, a
//     length or a language, is unknown: the entry stands;
//   - a member of /.well-known/parley or of a problem that is not known is passed over.
//
// A request is otherwise: a parameter that the site does not know is refused,
// since it would have changed the answer.
//
// # An example
//
// A site of two pages has deleted a third. Its manifest, at change 2:
//
//	<?xml version="1.0" encoding="UTF-8"?>
//	<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:p="urn:parley:1#">
//	  <channel rdf:about="https://www.example.com/robots.rdf">
//	    <title>Example &amp; Co</title>
//	    <link>https://www.example.com/</link>
//	    <description>What https://www.example.com/ offers, and when it last changed</description>
//	    <dc:date>2026-11-21T05:00:09.250Z</dc:date>
//	    <dcterms:modified>2026-11-21T05:00:09.250Z</dcterms:modified>
//	    <p:epoch>k3v7q2m4x5n6p2aa</p:epoch>
//	    <p:seq>2</p:seq>
//	    <p:items>2</p:items>
//	    <p:complete>true</p:complete>
//	    <p:stream rdf:resource="wss://www.example.com/parley/stream"/>
//	    <p:changes rdf:resource="https://www.example.com/parley/changes"/>
//	    <items>
//	      <rdf:Seq>
//	        <rdf:li rdf:resource="https://www.example.com/"/>
//	        <rdf:li rdf:resource="https://www.example.com/news/caf%C3%A9.html"/>
//	      </rdf:Seq>
//	    </items>
//	  </channel>
//	  <item rdf:about="https://www.example.com/">
//	    <title>Home</title>
//	    <link>https://www.example.com/</link>
//	    <dc:date>2026-11-20T01:02:03Z</dc:date>
//	    <dcterms:modified>2026-11-20T01:02:03Z</dcterms:modified>
//	    <dc:format>text/html</dc:format>
//	    <dcterms:extent>14</dcterms:extent>
//	    <p:digest>sha-256=:tQmfCSM1q3j1gUJb1FsiZXgWDDJcgPI0s/rpUeLDXkQ=:</p:digest>
//	    <dc:language>en</dc:language>
//	    <p:text>sha-256=:OnhpU4izi1zO769nlrATeHdRRZNUO5GvJ1LVoX49c2w=:</p:text>
//	    <p:importance>1</p:importance>
//	  </item>
//	  <item rdf:about="https://www.example.com/news/caf%C3%A9.html">
//	    <title>/news/caf%C3%A9.html</title>
//	    <link>https://www.example.com/news/caf%C3%A9.html</link>
//	    <dc:date>2026-11-21T05:00:00Z</dc:date>
//	    <dcterms:modified>2026-11-21T05:00:00Z</dcterms:modified>
//	    <dc:format>text/html</dc:format>
//	    <dcterms:extent>14</dcterms:extent>
//	    <p:digest>sha-256=:Om9037VQuIWHvp5/OX/nu5vmDX0nNxaVrKufoqMyZwU=:</p:digest>
//	    <dc:language>en</dc:language>
//	    <p:text>sha-256=:aXUvIxOy8Bc6ZK+vyP18Y0KkoD669H9/5WeSwUYIIjI=:</p:text>
//	  </item>
//	  <p:Tombstone rdf:about="https://www.example.com/old.html">
//	    <dcterms:modified>2026-11-21T05:00:09.250Z</dcterms:modified>
//	    <p:seq>2</p:seq>
//	    <p:digest>sha-256=:YdgCh+kIcp4xKGQtUXZART7+z6RdHKS2I86j/Jcp59M=:</p:digest>
//	  </p:Tombstone>
//	</rdf:RDF>
//
// A crawler that has read it opens
// wss://www.example.com/parley/stream?after=k3v7q2m4x5n6p2aa:2. Meanwhile a page was
// edited and then renamed, and it is told so at once:
//
//	{"t":"hello","v":1,"from":"k3v7q2m4x5n6p2aa:2","head":"k3v7q2m4x5n6p2aa:4","floor":"k3v7q2m4x5n6p2aa:0","at":"2026-11-21T05:11:40Z","hb":25,"manifest":"https://www.example.com/robots.rdf"}
//
//	{"t":"batch","from":"k3v7q2m4x5n6p2aa:2","to":"k3v7q2m4x5n6p2aa:4","n":2,"ev":[{"seq":3,"at":"2026-11-21T05:10:00.100Z","op":"update","url":"https://www.example.com/news/caf%C3%A9.html","mod":"2026-11-21T05:10:00Z","len":31,"type":"text/html","hash":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:","prev":"sha-256=:Om9037VQuIWHvp5/OX/nu5vmDX0nNxaVrKufoqMyZwU=:","sig":0.75,"text":"sha-256=:MKuXsC1NTgE6GuH2MUwT87igYwtF1Bxy7IkfQPhDCgM=:","lang":"en"},{"seq":4,"at":"2026-11-21T05:11:30Z","op":"move","url":"https://www.example.com/news/2026.html","from":"https://www.example.com/news/caf%C3%A9.html","mod":"2026-11-21T05:10:00Z","len":31,"type":"text/html","hash":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:","prev":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:","text":"sha-256=:MKuXsC1NTgE6GuH2MUwT87igYwtF1Bxy7IkfQPhDCgM=:","lang":"en"}]}
//
// It fetches /news/2026.html, once, and expects the bytes that hash names. Then
// the page is deleted, all is silent for a while, and the site restarts:
//
//	{"t":"ev","to":"k3v7q2m4x5n6p2aa:5","seq":5,"at":"2026-11-21T05:12:00Z","op":"delete","url":"https://www.example.com/news/2026.html","prev":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:"}
//
//	{"t":"mark","to":"k3v7q2m4x5n6p2aa:5","head":"k3v7q2m4x5n6p2aa:5","at":"2026-11-21T05:12:25Z"}
//
//	{"t":"bye","resume":"k3v7q2m4x5n6p2aa:5","code":4001,"reason":"restart","retry_ms":2000}
//
// Another crawler prefers to ask, with
// https://www.example.com/parley/changes?after=k3v7q2m4x5n6p2aa:4, and is answered
//
//	{"t":"batch","from":"k3v7q2m4x5n6p2aa:4","to":"k3v7q2m4x5n6p2aa:5","head":"k3v7q2m4x5n6p2aa:5","n":1,"ev":[{"seq":5,"at":"2026-11-21T05:12:00Z","op":"delete","url":"https://www.example.com/news/2026.html","prev":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:"}]}
package protocol
