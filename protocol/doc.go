// Package protocol is what Parley says: how a site tells what it offers and
// what changed, and how a crawler understands it. This page is the
// specification; the code below it writes and reads what is specified, and
// has no network, files, clock or goroutines.
//
// A site keeps a journal of its changes. All that a crawler asks for, or is
// told, is that journal read from a cursor. There are three doors to it that
// every site has:
//
//   - the manifest, robots.rdf: everything offered at one moment;
//   - the change list: what changed after a cursor, asked for over HTTP;
//   - the stream: what changes, told at once over WebSocket.
//
// Whoever has read the manifest stands at its cursor and goes on at either of
// the other doors. All doors share one cursor, so any can be left for another,
// and the manifest replaces a history that is lost.
//
// Changes are told in one of five forms ([Form]), from what changed to the
// whole site, and of those that a reader chooses ([Filter]). Which forms,
// conditions and further doors a site has, it says: see "Finding the doors".
// All of it may be asked for and be told, from the same cursor.
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
//   - p:discovery: the URL of the document that names all doors (see "Finding
//     the doors"), as rdf:resource;
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
// Whoever asks with "A-IM: feed" and, in If-None-Match, the entity tag of an
// earlier manifest may be answered 226 with "IM: feed" (RFC 3229): a manifest
// with p:complete "false", of the items whose bytes are new or other since and of
// tombstones of what went, standing where the whole manifest stands, whose
// entity tag the answer has. The whole manifest, 200, is always an answer too.
//
// # The change list
//
// The change list is a resource, parley/changes below the base URL unless the
// manifest says otherwise, with a query of
//
//   - after: the cursor to read after; missing means "0:0";
//   - wait: seconds, 0 to 60, to wait for a change if there is none yet;
//   - limit: the number of changes, 1 to 1000, to answer with at most; of a
//     bundle, to gather at most, and missing sets no bound to that;
//   - as, and the parameters of a filter: see "Forms" and "Filters".
//
// It answers 200 with one message, as application/json: a batch of the changes
// in (from, to], where from is the after of the query, or what the form has in
// its place, with head, the newest change of the site. Standing at to, ask
// again; to equal to head is everything. There may be no change in the answer,
// and to may still have moved: as far as the site has looked for what was asked
// for. The parameters may also come as the body of a QUERY (RFC 10008) or a
// POST, of type application/x-www-form-urlencoded. Accept-Encoding is heeded.
//
// # The stream
//
// The stream is a WebSocket, parley/stream below the base URL unless the
// manifest says otherwise, with after, as and a filter in its query as on the
// change list. All messages go from the site to the crawler; each is one JSON
// object of at most [MaxMessage] bytes. In the subprotocol [Subprotocol] it is
// sent as text; in [SubprotocolZstd] as a binary message, one frame of
// Zstandard (RFC 8878) that states the length of its content, has no dictionary
// and a window of at most 8 MiB. The crawler offers those that it speaks, and
// the site chooses. The member t names the kind of a message:
//
//   - hello, always first: v (1), from (the cursor that is told after), head,
//     floor (the oldest cursor that can be resumed from), at (the site's
//     clock), hb (seconds of silence after which the connection is dead if
//     nothing comes; the site says something that often), manifest (its URL);
//   - ev: after, to, and one change, whose members stand in the message itself;
//   - batch: from, to, n and ev: the n changes in (from, to], at most 1000, and
//     no ev where n is 0;
//   - bundle: from, to, n and body: pages that changed in (from, to], each once,
//     with n changes in all;
//   - site: from, to, n and body: an archive of the whole site, of n pages, as it
//     is at to; from is where the reader stood, of whatever epoch;
//   - mark: after, to, head, at: nothing more to tell up to to; also the heartbeat,
//     and sent at once where changes may not be told to anybody;
//   - gap: from, to, reason, manifest: the changes in (from, to] cannot be
//     told any more: read the manifest; the stream goes on after to;
//   - bye, always last: code, reason, retry_ms (how long to wait before coming
//     again), resume (the cursor to resume from).
//
// From and after say where a message begins, exclusively. A reader that stands
// elsewhere has missed one, and connects anew with its own cursor. After may be
// missing: then nothing is known of that.
//
// The member to is a watermark: having taken in the message, a reader stands
// at to, whatever it was shown. Store it in the same transaction as the effect
// of the changes. Order is kept, and after a cut a message may come again:
// what is told is told at least once, and a change has the same value however
// and whenever it is told.
//
// A message may end early, with fewer changes than there are and than were asked
// for: where it is full, and where it takes long to find what a filter wants, or
// to make what the form brings, since others wait as well. Then to stands before
// head, and what is after it comes in the next message: on the stream by itself,
// from the change list when it is asked for.
//
// A change has seq, at (when the site noted it), op, url, from (for a move, the
// URL that the bytes had before), mod (the modification time), len, type, hash
// (the digest) and prev (the digest before), the last five where known. So may
// be sig (the significance, a number from 0 to 1 with at most three digits
// after the point; of an update or a move), text (the main-text digest), lang,
// canonical (an absolute URL) and imp (the importance, a number). After a delete
// there is none of these but prev, and no body. A move says that the bytes of from are
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
// # Forms
//
// The parameter as says how changes are told; missing means "meta". A reader
// may change the form whenever it asks or connects anew (C02).
//
//   - meta: what changed, as above.
//   - page: beside the last change of each page in a message stands body, the
//     page as it is then.
//   - delta: as page, but that the body may be a difference, against what a
//     reader has who stands at the from of the message. What is not held any
//     more, or is no smaller, is told whole; so is, now and then, what could be
//     told by a difference.
//   - batch: a bundle in place of batch and ev. On the stream it is told when
//     every seconds (1 to 86,400; missing means 1) have passed since the site
//     noted the first change after the reader's cursor, or as soon as there are
//     count changes (1 to 100,000, the default), whichever is first; what has
//     waited already is told at once. On the change list count bounds the
//     bundle, and every says nothing. In this form no program is asked: agent is
//     refused. (What this form tells is a message of kind bundle; one of kind
//     batch is some changes, in any form.)
//   - site: to whoever has nothing (after is "0:0", or missing) or whose cursor
//     the site cannot honour, an archive, in place of a refusal; and to whoever
//     stands where a large part of the site is news, or listens while it changes,
//     in place of changes. Else changes as in meta. Until there is an archive the stream says marks at the
//     reader's own cursor, and the change list answers 503 with Retry-After, or
//     waits.
//
// A body ([Body]) has either text (a string, the bytes in UTF-8) or b64 (in
// base64), of at most [MaxInline] bytes; or href (an absolute URL of the site's
// origin), len and hash: where it is to be asked for, and what will be there as
// far as that is known. The member enc is missing where the bytes are those of the
// page as it is served without content coding. Else it is
//
//   - "dcz": a difference (RFC 9842): 40 bytes that name the base by its
//     SHA-256, and a frame of Zstandard made with that as a raw dictionary; the
//     member base is the digest of the same;
//   - "warc.gz": of a bundle, a WARC file, as the batch door answers it;
//   - "agent": what a program of the reader's own has made of the page, in place
//     of what the form brings.
//
// Decoded, what stands beside a change has its hash; whoever finds that it has
// not, has not the base, or does not know enc, goes on as if there were no
// body: the page itself can always be asked for. A change without a body where
// the form brings one says that another change brings the page, or that these
// bytes are not to be had any more. Nothing is brought that is not public when
// it is told, and nothing of a page that is gone. What a page held before it
// changed is the base of differences for whoever names its digest, and is
// brought to nobody.
//
// # Filters
//
// The change list, the stream and the doors below take conditions, all of which
// must hold. Those in the first line may be repeated: then one of them must hold.
//
//   - prefix (of URLs, absolute or from "/"), match (a pattern of paths: "*"
//     within a segment, "**" across, "?" one byte), type ("text/html",
//     "text/*"), op, lang (a range of RFC 4647);
//   - minlen and maxlen (bytes), maxdepth (slashes in the path), minimp and
//     minsig (importance and significance, above 0 and up to 1), since (a
//     time: changed then or later);
//   - where: an expression in CEL (https://cel.dev) over change and page, which
//     package server/cel describes;
//   - agent: the digest of a program that the reader has sent, which decides
//     further, and whose output comes beside the change.
//
// [Filter] says what they mean. A page that was what they ask for, and after an
// update is not, has left it: that is told as a delete of its URL, and so a copy that
// keeps to what it is told holds what the filter lets through. Such a delete may be of a page
// that the reader does not hold, and then says nothing. A filter is no loss: to is the watermark of
// what was looked through. On the stream a mark says so within a fifth of a
// heartbeat, and not for each change that is passed over; before a batch, a
// bundle or an archive always, so that its from is where the reader stands.
// An archive is the whole site, whatever the filter.
//
// # Further doors
//
// A site may have these, below its base URL or where it says:
//
// The batch door, parley/batch, answers many pages at once (C09). GET with
// after, to (missing: as far as there is) and a filter answers what changed
// in between; the filter is without agent, and where its expression takes long the
// answer ends before, as its cursor says. QUERY or POST with application/json ([Question])
// answers either the same, with what the reader holds already, or what named
// pages are now:
//
//	{"after": "EPOCH:7", "to": "EPOCH:9", "have": {"https://www.example.com/a": "sha-256=:BASE64:"}}
//	{"pages": [{"url": "https://www.example.com/a", "hash": "sha-256=:BASE64:"}, {"url": "https://www.example.com/b"}]}
//
// The answer is application/warc (ISO 28500), each record a gzip member of its
// own, with the header Parley-Cursor: where its reader then stands. It is a
// warcinfo record that states parley-from, parley-to and parley-changes; for
// each change a metadata record of type application/json, which holds the change
// as an ev message, followed by a response record of the page unless that is
// gone, held already or not to be had; and at the end a metadata record of type
// application/warc-fields that states parley-changes and parley-pages. Without
// that it is not whole. Each URL stands there once, as it is last: a move is a
// delete and a create. To whoever accepts the content coding zstd the records
// may come uncompressed within that, and to whoever names identity and neither
// gzip, zstd nor *, uncompressed.
//
// The site door, parley/site.wacz, is an archive of the whole site (WACZ 1.1.1)
// as it was at one cursor, which the header Parley-Cursor and the member
// "parley" of its datapackage.json name (C11). It has a strong entity tag, and
// answers Range. With at=CURSOR it is the one that stands there, or 410.
//
// The query door, parley/query, is asked by a filter without op, minsig and
// agent for what is offered now, and answers a manifest that is not complete,
// standing at its cursor; with since also the tombstones of what went since
// (C13). Two parameters more say which part is answered: limit is how many items
// at most, 1 to 50,000, and how many tombstones, 10,000 if it is missing; past
// is the URL, as the manifest writes it, after which to begin, in the order of
// the manifest's items. Where limit has left out something, the header
// Parley-More says what, "items", "gone" or "items, gone", and Link, rel="next",
// names where the next items are: the same question with past. Tombstones come
// with the first part alone, newest first. Whoever has read several parts goes
// on from the cursor of the first.
//
// By QUERY (RFC 10008) or POST the parameters come as a body of type
// application/x-www-form-urlencoded, at most 64 KiB, together with those in the
// URL; a body of another type, or with a content coding, is refused with 415.
// Every answer has Accept-Query, which names that type. Content-Location is the
// URL at which a GET asks the same, and so is Location after QUERY, unless
// that would be longer than a URL may be. The entity tag is weak: GET and
// QUERY with If-None-Match are answered 304. 422 means that there is more to
// judge than the site has time for: ask for a part by prefix, or for less by
// limit, and go on by past. 429, with Retry-After, means that too many questions
// are being answered.
//
// The door for programs, parley/agents, takes a program as POST of
// application/wasm from whom the site lets, and answers {"agent": DIGEST}, the
// value of the parameter agent (C14). Package server/agent says what a program
// is. POST parley/agents/run?agent=DIGEST, with a filter without op and minsig,
// answers what it makes of all that is offered now, as application/x-ndjson: for
// each page that it would tell of a line ([AgentOutput]) with url, hash and b64 (its output), or
// failed (why it made nothing of the page); at the end a line ([AgentEnd]) with to (the cursor
// from which to go on), n (the pages that it was asked about) and told. Without
// the last line the answer is not whole. Empty lines only say that the site lives.
//
// # Who asks
//
// A site may know crawlers by a token: "Authorization: Bearer TOKEN". To a
// crawler for which robots.txt has a group of its own nothing is told, at any of
// these doors but the manifest, that this group forbids; what is forbidden to
// everybody is told to nobody, but that it went is told to all whom no group of
// their own forbids it: they may have been told of it before. The archive is the
// same for all: whoever may not have all of it is refused.
//
// # Refusals
//
// All doors refuse alike, the stream before it is a WebSocket, with
// application/problem+json (RFC 9457):
//
//   - 400, urn:parley:problem:parameter: a parameter that is unknown or wrong,
//     named by the member parameter; so is a subprotocol that was not offered,
//     a form that the site does not offer, and a filter with which a bundle would
//     have a URL of more than [MaxURL] bytes; without that type, a body that
//     cannot be read;
//   - 409, urn:parley:problem:epoch: the cursor is of another epoch, or after
//     the head;
//   - 410, urn:parley:problem:too-old: the cursor is below the floor, as "0:0"
//     always is;
//   - 422, urn:parley:problem:origin: a page of another origin is asked for;
//     without that type, a question that is well-formed and cannot be answered, or
//     a program that cannot be run;
//   - 413 and 429, urn:parley:problem:limit, 429 with Retry-After: the question
//     is too long; there are too many subscribers, downloads or questions at a
//     time, in all or from one address;
//   - 503, urn:parley:problem:scanning, with Retry-After: the site's first
//     description, or the archive that is asked for, is not whole yet; with
//     urn:parley:problem:limit, the site is busy with what others ask for;
//   - 415: a body of another type than this door takes, or with a content
//     coding. Accept-Query names the type of a door that answers QUERY;
//   - 401: the token is of nobody; 403: a page of another origin asks, or
//     somebody who may not have that; 404, 405: there is no such door, or it
//     does not know that method; 416: the archive has no such part; 426: this is no
//     WebSocket handshake; 500, 501: it is the site's fault, or the site does not do that.
//
// 409 and 410 have the members head, floor and manifest: read the manifest, and
// go on from its cursor. A cursor is never quietly replaced by another.
//
// # Finding the doors
//
// The manifest names the doors in its channel. So does .well-known/parley
// below the base URL ([DiscoveryPath]), https://www.example.com/docs/.well-known/parley
// for a site at https://www.example.com/docs/, so that a host can have several
// sites. The channel names it as p:discovery, and a reader asks there if that is below
// the base; where the channel names nothing, or is not read yet, it asks below the base and then at the root of the
// host, where a site below a path may be described too. A description speaks of
// the site that it names as base, and of no other.
//
// It is JSON ([Discovery]): version (1), base, manifest,
// changes, stream, subprotocols, epoch, head, floor, heartbeat and, where it is
// known, items; forms (the values of as; missing means meta alone) and filters
// (the parameters of a filter) that changes and stream understand, of which the
// other doors take those that are said above; query, batch,
// site and agents, the URLs of further doors; inline (how many bytes a body in a
// message has at most); openapi and asyncapi, where all of it is described for
// programs. What is missing is not to be had.
//
// Its member welcome says how the site wishes to be asked, by each crawler:
// {"rate": 10, "connections": 2, "batch": 500} is ten requests a second, by two
// connections at a time, and batches of at most 500 pages ([Welcome]; what is
// missing is left to the crawler). It goes for the origin that says it, at the
// address that gave it, and is void 24 hours after it was read, when the name leads
// to another address, when a request is answered 429 or 503, and when answers take
// twice as long as they did at first. A longer Crawl-delay of robots.txt is kept
// to. A crawler may ask less, and without its operator's word asks no more than
// ten times a second and by two connections.
//
// # What is frozen, and what may come
//
// What urn:parley:1# and [Subprotocol] mean is frozen: the elements Tombstone,
// epoch, seq, items, complete, stream, changes, discovery, digest, text, canonical
// and importance in the places above;
// the kinds of messages and their members; that a cursor is EPOCH:SEQ and
// exclusive; that to is a watermark; when absence means gone; the forms, what a
// condition of a filter means, and that a body is the bytes of its hash or none.
// So is that [SubprotocolZstd] says the same. What a reader
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
//   - a body whose enc is not known is no body: ask for the page;
//   - a digest of an algorithm that is not known is an unknown digest, and
//     whatever else describes a resource and cannot be read, such as a date, a
//     length or a language, is unknown: the entry stands;
//   - a member of .well-known/parley or of a problem that is not known is passed over.
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
//	    <p:discovery rdf:resource="https://www.example.com/.well-known/parley"/>
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
