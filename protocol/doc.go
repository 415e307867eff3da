// Package protocol is the wire format of Parley: how a site describes what it
// offers and what changed, and how a crawler reads it. This page is the
// specification; the code below it writes and reads the specified formats, and
// has no network, files, clock or goroutines.
//
// A site keeps a journal of its changes. Everything that a crawler requests or
// receives is that journal read from a cursor. Every site has three interfaces
// to it, called doors:
//
//   - the manifest, robots.rdf: everything offered at one moment;
//   - the change list: the changes after a cursor, polled over HTTP;
//   - the stream: changes as they happen, pushed over WebSocket.
//
// A reader of the manifest continues from its cursor at either of the other
// doors. All doors share one cursor, so that a reader can switch between them,
// and the manifest replaces a history that is lost.
//
// Changes are sent in one of five forms ([Form]), from metadata to the whole
// site, and a reader can restrict them ([Filter]). The site states which forms,
// conditions and further doors it has: see "Finding the doors". All of it is
// available by polling and by push, from the same cursor.
//
// # Nouns
//
// An [Item] is one resource that a site offers: its URL, when its bytes last
// changed, their length, media type and digest; and, where the site parses its
// pages, what a page says of itself. A [Change] is one step of one URL: create,
// update, delete or move. A [Tombstone] is the record of a URL that is gone. A
// [Manifest] lists everything offered, as of a [Cursor]. A [Log] is the journal
// to read from. The change list and the stream consist of messages ([Message]).
//
// # Words
//
// A URL is absolute and canonical, as [CanonicalURL] returns it, and at most
// [MaxURL] bytes long. A site names only URLs of its own origin: the scheme, host
// and port of its base URL. A reader resolves relative URLs and ignores those of
// other origins.
//
// A time is W3CDTF in UTC, to the second or the millisecond:
// "2026-11-21T05:00:09.250Z". Readers accept every granularity of W3CDTF, and
// read a coarse date as an interval: see [Date]. [SaneModified] says what becomes
// of an impossible modification time.
//
// A length is the number of bytes, and a digest the SHA-256, of the content as
// it is served without content coding. A digest is written as RFC 9530 does,
// "sha-256=:BASE64:". The modification time moves when the digest moves: not
// when a file is touched, and never backwards for other bytes.
//
// A cursor is EPOCH:SEQ and means: the reader has processed everything up to and
// including change SEQ of this epoch. Changes are numbered from 1 within an
// epoch; an epoch is 1 to 64 letters, digits, '-' or '_', and not "0". "0:0" lies
// before everything. A new epoch begins when the journal cannot prove that it
// continues what it sent before. A cursor is not a time and not opaque, and
// cursors of different epochs have no order.
//
// A main-text digest is the digest of the words that a person reads on a page,
// as its site extracts them, without text that the site masks. It is not the
// digest of any served bytes, and can only be compared with another of the same
// URL: if both are equal, nothing changed that a person would notice. A
// [Significance] is the share of the main text, 0 to 1, that a change altered: 0
// means that the main text did not change, and any other value is at least 0.001.
// An [Importance], 0.01 to 1, is how much the site's visitors request a page,
// compared with its other pages. A language is a BCP 47 tag of at most 35
// letters, digits and '-'. All of these are for prioritizing work: digest and
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
//   - dcterms:replaces, for each base URL that the site had before, at most 16, as
//     rdf:resource: see "A site that moves";
//   - p:whole, of a large site: see "A manifest in parts";
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
// "true" and holds as many items as p:items says. A manifest that is cut short or
// has another count is refused at its end ([ErrTruncated]), and the resources
// that it did not name still exist.
//
// A reader accepts more than a writer writes. The root may be rdf:rdf and the
// namespace of RDF may lack its '#', as in the thesis that this form comes
// from; dc:modified is read if dcterms:modified is missing, and dc:date if both
// are; link if an item has no rdf:about. Thus any RSS 1.0 feed is a manifest that
// is not complete. [ManifestReader] says how unintelligible entries are treated.
// Everything is bounded before it is parsed; a document type declaration is
// refused.
//
// A request with "A-IM: feed" and, in If-None-Match, the entity tag of an earlier
// manifest may be answered 226 with "IM: feed" (RFC 3229): a manifest with
// p:complete "false" that holds the items whose bytes are new or different since
// then, and tombstones of the URLs that are gone. It has the cursor and the entity
// tag of the whole manifest. The whole manifest, 200, is always a valid response.
//
// # A manifest in parts
//
// A manifest grows with the site, and is fetched and written as one file. A large
// site that keeps a journal can therefore publish it in parts: robots.rdf is then an
// index, a small manifest that names other files, the parts, which never change. From
// which size on it does so is its own choice: readers read both.
//
// An index is a manifest with p:complete "false", without p:epoch and p:seq of its
// own, and with p:items and items for a few of the newest pages, which feed readers
// show. A reader that does not know parts thus finds a manifest that is not complete
// and has no cursor: it removes nothing and stores no cursor because of it. Last
// before items the channel holds p:whole (rdf:parseType="Resource"), with
//
//   - p:epoch and p:seq: the cursor of the whole site, from which a reader of the
//     parts continues at any door;
//   - p:items: the number of items of the whole site;
//   - p:parts: an rdf:Seq of the page parts, in the order of their items;
//   - p:changed: an rdf:Seq of the change parts, oldest first.
//
// Each member of these is a typed node p:Part, rdf:about the URL of the part, which
// lies below the directory of the manifest's own URL, with p:seq (the change as of
// which the part is valid), p:items (the number of its entries, tombstones included),
// dcterms:extent (its length in bytes) and p:digest, both of its content without
// content coding. In p:changed it also has p:after. A part lies at
// robots.rdf.parts/DIGEST.rdf, DIGEST being its SHA-256 in 64 hexadecimal digits, but a
// reader relies on rdf:about alone. Two parts with the same content have the same URL.
//
// A part is a manifest whose channel has rdf:about (the URL of the index, since a
// document cannot contain its own digest), title, link, description, p:items (without
// tombstones), p:complete "false" and items, and nothing else.
//
// A page part holds all items of a range, as of its p:seq, and no tombstone. The
// range begins at its first item and ends before the first item of the next page
// part; the first range also has everything before, and the last everything after.
// Where ranges begin depends on the URLs, so that an added or removed page changes
// the parts around it only: a URL begins a page part where the first 64 bits,
// big-endian, of the SHA-256 of its bytes are 0 modulo 4,096 ([BeginsPart]), after
// [MaxPartItems] items, and where the part would otherwise exceed [MaxPartBytes].
// Readers accept any ranges.
//
// A change part holds every URL touched in (p:after, p:seq], once, as it is at p:seq:
// an item if it is offered then, else a tombstone. A move touches both its URLs: the old
// one has a tombstone with dcterms:isReplacedBy, the new one an item. A URL that ends
// as it began is held too, since a part or a reader may be as of any change in between.
// Each change part begins where the one before ends, the last one ends at the cursor, and
// the first begins at the smallest p:seq of a page part, or earlier. If there is none,
// all page parts are as of the cursor.
//
// Of all parts that speak of a URL, the one with the highest p:seq is right. A change part
// speaks of the URLs that it holds; a page part of every URL in its range, and says of
// those that it does not hold that they are not offered. Page and change parts of the
// same p:seq agree. The p:seq of a page part may therefore rise without a new file: as
// long as nothing in its range was touched.
//
// A reader whose cursor is of the same epoch, not before the p:after of the first change
// part, and not after the cursor of the index, needs only the change parts that end after
// its cursor ([Whole.ChangesAfter]). Any other reader reads all parts
// ([Whole.Snapshot]). Absence means gone only to the latter, and only when every part of
// one index was read with the stated length, digest and number of entries, the ranges
// ascend, and the result has as many items as p:whole says. Only then is the cursor
// stored. No content is used before its digest is checked.
//
// A part that is missing or has another digest was probably replaced: the reader requests
// the index once more, with "Cache-Control: no-cache", and keeps the parts that it has
// already checked. If that fails too, the cursor stays, and the next poll tries again. An
// index before the reader's cursor, or of another epoch and with an earlier date than the
// one read last, comes from a stale cache: it is requested in the same way, and never used.
//
// A site writes the parts before the index that names them, and removes a file only some
// time after no index names it, so that readers can finish: at least ten minutes, unless
// such files take more than a quarter of the space of the whole. The index is
// served with "Cache-Control: no-cache"; parts may be cached for ever, with their digest as
// entity tag, and be served with any content coding. Where a page must not be named any more,
// because a rule was added that hides it, the site writes every part anew that holds its URL as
// an item or as the target of a move, and removes the old files as soon as the index no longer
// names them. Its tombstone stays. What caches and readers already have cannot be recalled.
//
// An index has at most [MaxIndex] bytes and names at most 100,000 parts of at most
// [MaxPart] bytes. With URLs of usual length its bytes end first, at about 37,000 parts,
// or 150 million items: a reader has the whole index in memory. All change parts together have at most [MaxChanged] bytes and
// [MaxChangedItems] entries. Whatever breaks these rules is an error that says why,
// for the whole read: an index that cannot be used is never read as one that has no
// p:whole, and no entry of a part is skipped. An index of two page parts:
//
//	<p:whole rdf:parseType="Resource">
//	  <p:epoch>k3v7q2m4x5n6p2aa</p:epoch>
//	  <p:seq>48213</p:seq>
//	  <p:items>7903</p:items>
//	  <p:parts>
//	    <rdf:Seq>
//	      <rdf:li><p:Part rdf:about="https://www.example.com/robots.rdf.parts/0b6a....rdf"><p:seq>48213</p:seq><p:items>4410</p:items><dcterms:extent>2700412</dcterms:extent><p:digest>sha-256=:BASE64:</p:digest></p:Part></rdf:li>
//	      <rdf:li><p:Part rdf:about="https://www.example.com/robots.rdf.parts/9e1f....rdf"><p:seq>48190</p:seq><p:items>3492</p:items><dcterms:extent>2001733</dcterms:extent><p:digest>sha-256=:BASE64:</p:digest></p:Part></rdf:li>
//	    </rdf:Seq>
//	  </p:parts>
//	  <p:changed>
//	    <rdf:Seq>
//	      <rdf:li><p:Part rdf:about="https://www.example.com/robots.rdf.parts/77c2....rdf"><p:after>48190</p:after><p:seq>48213</p:seq><p:items>19</p:items><dcterms:extent>14310</dcterms:extent><p:digest>sha-256=:BASE64:</p:digest></p:Part></rdf:li>
//	    </rdf:Seq>
//	  </p:changed>
//	</p:whole>
//
// # The change list
//
// The change list is a resource, parley/changes below the base URL unless the
// manifest says otherwise, with a query of
//
//   - after: the cursor to read after; missing means "0:0";
//   - wait: seconds, 0 to 60, to wait for a change if there is none yet;
//   - limit: the maximum number of changes in the response, 1 to 1000; for a
//     bundle, the maximum to gather, unbounded if missing;
//   - as, and the parameters of a filter: see "Forms" and "Filters".
//
// It answers 200 with one message, as application/json: a batch of the changes
// in (from, to], where from is the after of the query; or the message that the
// form has in place of a batch. Either has head, the newest change of the site. Use
// to as the next after; if to equals head, there is nothing more. The response may
// have no change and to may still have advanced, to where the site has searched
// for matches. The parameters may also come as the body of a QUERY (RFC 10008) or a
// POST, of type application/x-www-form-urlencoded. Accept-Encoding is honoured.
//
// # The stream
//
// The stream is a WebSocket, parley/stream below the base URL unless the
// manifest says otherwise, with after, as and a filter in its query as on the
// change list. All messages go from the site to the crawler; each is one JSON
// object of at most [MaxMessage] bytes. In the subprotocol [Subprotocol] it is
// sent as text; in [SubprotocolZstd] as a binary message, one frame of
// Zstandard (RFC 8878) that states the length of its content, has no dictionary
// and a window of at most 8 MiB. The crawler offers the subprotocols that it
// speaks, and the site chooses. The member t names the kind of a message:
//
//   - hello, always first: v (1), from (the cursor at which the stream starts),
//     head, floor (the oldest cursor that can be resumed from), at (the site's
//     clock), hb (seconds of silence after which the connection is dead; the site
//     sends something that often), manifest (its URL);
//   - ev: after, to, and one change, whose members stand in the message itself;
//   - batch: from, to, n and ev: the n changes in (from, to], at most 1000, and
//     no ev where n is 0;
//   - bundle: from, to, n and body: pages that changed in (from, to], each once,
//     with n changes in all;
//   - site: from, to, n and body: an archive of the whole site, of n pages, as it
//     is at to; from is the reader's cursor before, of whatever epoch;
//   - mark: after, to, head, at: there is nothing more to send up to to; also the
//     heartbeat, and sent at once where changes may not be sent to anybody;
//   - gap: from, to, reason, manifest: the changes in (from, to] are not available
//     any more: read the manifest; the stream continues after to;
//   - bye, always last: code, reason, retry_ms (how long to wait before the next
//     connection), resume (the cursor to resume from).
//
// From and after are the cursor at which a message begins, exclusive. A reader
// with another cursor has missed a message, and reconnects with its own cursor.
// After may be missing: then the reader cannot check this.
//
// The member to is a watermark: it is the reader's cursor after the message,
// whatever changes the message held. Store it in the same transaction as the
// effect of the changes. Order is kept, and after a broken connection a message may
// come again: delivery is at least once, and every delivery of a change has the
// same value.
//
// A message may end early, with fewer changes than exist and than were requested:
// when it is full, and when it takes long to evaluate a filter or to produce the
// form, since other readers wait as well. Then to lies before head, and the rest
// comes in the next message: on the stream unasked, from the change list with the
// next request.
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
// A change is a hint. It says that a URL is worth fetching, and what to expect
// there; the crawler decides how soon, and whether at all, and robots.txt and
// politeness come first.
//
// The close code after bye says whether to reconnect: after 4000 to 4499 later,
// with growing intervals; after 4500 to 4999 not. The codes so far are 4001 (the
// site stops or restarts), 4002 (the reader did not read), 4003 (the reader's
// epoch has ended) and 4502 (the site will not serve this reader).
//
// Beside its messages the site sends WebSocket pings, and disconnects a crawler
// that answers none. It ignores messages from the crawler, of up to 4 KiB each.
//
// # Forms
//
// The parameter as is the form of the changes; missing means "meta". A reader
// may change the form with every request or connection (C02).
//
//   - meta: the changes, as above.
//   - page: the last change of each page in a message also has body, the page as
//     it is then.
//   - delta: as page, but the body may be a difference, against the version that a
//     reader at the from of the message has. A page is sent whole if that version
//     is not stored any more, or if the difference is no smaller; now and then the
//     site also sends a page whole that it could send as a difference.
//   - batch: a bundle in place of batch and ev. On the stream it is sent when
//     every seconds (1 to 86,400; missing means 1) have passed since the site
//     recorded the first change after the reader's cursor, or as soon as there are
//     count changes (1 to 100,000, the default), whichever is first; changes that
//     have already waited that long are sent at once. On the change list count
//     bounds the bundle, and every has no effect. This form runs no program: agent
//     is refused. (This form sends messages of kind bundle; a message of kind
//     batch is some changes, in any form.)
//   - site: an archive, in place of a refusal, for a reader that has nothing (after
//     is "0:0", or missing) or whose cursor the site cannot honour; and, in place of
//     changes, for a reader to which a large part of the site is new, be it at its
//     cursor or while it listens. Else changes as in meta. Until there is an archive
//     the stream sends marks at the reader's own cursor, and the change list answers
//     503 with Retry-After, or waits.
//
// A body ([Body]) has either text (a string, the bytes in UTF-8) or b64 (in
// base64), of at most [MaxInline] bytes; or href (an absolute URL of the site's
// origin), len and hash: the URL to fetch it from, and the length and digest of
// that content as far as they are known. The member enc is missing if the bytes are
// those of the page as served without content coding. Else it is
//
//   - "dcz": a difference (RFC 9842): 40 bytes that name the base by its
//     SHA-256, and a frame of Zstandard made with that base as a raw dictionary;
//     the member base is the digest of the base;
//   - "warc.gz": of a bundle, a WARC file, as the batch door answers it;
//   - "agent": the output of the reader's own program for the page, in place of
//     the body of the form.
//
// Decoded, the body of a change has the change's hash. A reader that finds
// another digest, does not have the base, or does not know enc, continues as if
// there were no body: it can always fetch the page itself. If the form has bodies
// and a change has none, another change carries the page, or these bytes are not
// available any more. No body is sent of a page that is not public at that moment,
// or that is gone. The former content of a page serves as the base of differences
// for readers that name its digest, and is itself never sent.
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
//   - agent: the digest of a program that the reader has uploaded, which filters
//     further, and whose output comes with the change.
//
// [Filter] says what they mean. If a page matched before an update and does not
// match after it, the update is sent as a delete of its URL, so that a copy which
// follows the changes holds what the filter selects. Such a delete may name a page
// that the reader does not have, and then has no effect. A filter loses nothing: to
// is the watermark of the changes searched. On the stream a mark reports it within a
// fifth of a heartbeat, not for each change that is filtered out; before a batch, a
// bundle or an archive it always does, so that their from is the reader's cursor.
// An archive is the whole site, whatever the filter.
//
// # Further doors
//
// A site may have these, below its base URL or at the URLs that it states:
//
// The batch door, parley/batch, answers many pages at once (C09). GET with
// after, to (missing: the head) and a filter answers the changes in between; the
// filter is without agent, and if its expression takes long, the response ends
// earlier, as its cursor says. QUERY or POST with application/json ([Question])
// requests either the same, and names the versions that the reader already has, or
// the current state of named pages:
//
//	{"after": "EPOCH:7", "to": "EPOCH:9", "have": {"https://www.example.com/a": "sha-256=:BASE64:"}}
//	{"pages": [{"url": "https://www.example.com/a", "hash": "sha-256=:BASE64:"}, {"url": "https://www.example.com/b"}]}
//
// The response is application/warc (ISO 28500), each record a gzip member of its
// own, with the header Parley-Cursor: the reader's cursor after it. It consists of
// a warcinfo record that states parley-from, parley-to and parley-changes; for
// each change a metadata record of type application/json, which holds the change
// as an ev message, followed by a response record of the page unless that is
// gone, already held by the reader or not available; and at the end a metadata
// record of type application/warc-fields that states parley-changes and
// parley-pages. Without the last record it is incomplete. Each URL occurs once, in
// its last state: a move is a delete and a create. If the request accepts the
// content coding zstd, the records may come uncompressed within that, and if it
// names identity and neither gzip, zstd nor *, uncompressed.
//
// The site door, parley/site.wacz, is an archive of the whole site (WACZ 1.1.1)
// as it was at one cursor, which the header Parley-Cursor and the member
// "parley" of its datapackage.json name (C11). It has a strong entity tag, and
// answers Range. With at=CURSOR it is the archive of that cursor, or 410.
//
// The query door, parley/query, takes a filter without op, minsig and agent, and
// answers the matching items offered now: a manifest that is not complete, with its
// cursor; with since also the tombstones of the URLs that are gone since then
// (C13). Two more parameters select a part: limit is the maximum number of items,
// 1 to 50,000, and of tombstones, 10,000 if it is missing; past is the URL, as the
// manifest writes it, after which to begin, in the order of the manifest's items.
// If limit has left out something, the header Parley-More says what, "items",
// "gone" or "items, gone", and Link, rel="next", is the URL of the next items: the
// same request with past. Only the first part has tombstones, newest first. A reader
// of several parts continues from the cursor of the first.
//
// By QUERY (RFC 10008) or POST the parameters come as a body of type
// application/x-www-form-urlencoded, at most 64 KiB, together with those in the
// URL; a body of another type, or with a content coding, is refused with 415.
// Every response has Accept-Query, which names that type. Content-Location is the
// URL of the equivalent GET, and so is Location after QUERY, unless that URL would
// be too long. The entity tag is weak: GET and QUERY with If-None-Match are
// answered 304. 422 means that there is more to evaluate than the site has time
// for: request a part by prefix, or less by limit, and continue with past. 429,
// with Retry-After, means that too many queries are running.
//
// The door for programs, parley/agents, takes a program as POST of
// application/wasm from crawlers that the site permits, and answers {"agent":
// DIGEST}, the value of the parameter agent (C14). Package internal/site/agent says what a
// program is. POST parley/agents/run?agent=DIGEST, with a filter without op and
// minsig, runs it on all that is offered now, and answers application/x-ndjson: for
// each page that it selects a line ([AgentOutput]) with url, hash and b64 (its
// output), or failed (why it has none for the page); at the end a line ([AgentEnd])
// with to (the cursor to continue from), n (the pages that it ran on) and told.
// Without the last line the response is incomplete. Empty lines are keep-alives.
//
// # Authentication
//
// A site may know crawlers by a token: "Authorization: Bearer TOKEN". If robots.txt
// has a group for that crawler, the site sends it nothing that this group forbids,
// at any of these doors but the manifest. What robots.txt forbids to everybody is
// sent to nobody, except for its deletion: that goes to every crawler whose own
// group, if any, does not forbid the URL, since the crawler may know it from before.
// The archive is the same for all: a crawler that may not have all of it is refused.
//
// # Refusals
//
// All doors refuse in the same way, the stream before the WebSocket upgrade, with
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
//     description, or the requested archive, is not complete yet; with
//     urn:parley:problem:limit, the site is busy with other requests;
//   - 415: a body of another type than this door takes, or with a content
//     coding. Accept-Query names the type of a door that answers QUERY;
//   - 401: the token is unknown; 403: the request comes from a page of another
//     origin, or from a client without permission; 404, 405: there is no such door,
//     or it does not know that method; 416: the archive has no such part; 426: this is
//     no WebSocket handshake; 500, 501: an error of the site, or not supported by it.
//
// 409 and 410 have the members head, floor and manifest: read the manifest, and
// continue from its cursor. A cursor is never silently replaced by another.
//
// # Finding the doors
//
// The manifest names the doors in its channel. So does .well-known/parley
// below the base URL ([DiscoveryPath]), https://www.example.com/docs/.well-known/parley
// for a site at https://www.example.com/docs/, so that a host can have several
// sites. The channel names it as p:discovery, and a reader fetches that URL if it is
// below the base; if the channel names none, or is not read yet, it tries below the
// base and then at the root of the host, where a site below a path may be described
// too. A description is valid for the site that it names as base, and for no other.
//
// It is JSON ([Discovery]): version (1), base, manifest,
// changes, stream, subprotocols, epoch, head, floor, heartbeat and, where it is
// known, items; forms (the values of as; missing means meta alone) and filters
// (the parameters of a filter) that changes and stream understand, of which the
// other doors take those that are said above; query, batch,
// site and agents, the URLs of further doors; inline (the maximum size in bytes of a
// body in a message); openapi and asyncapi, machine-readable descriptions of all of
// it. A missing member means that the site does not offer it.
//
// Its member welcome is the load that the site invites from each crawler:
// {"rate": 10, "connections": 2, "batch": 500} is ten requests a second, over two
// connections at a time, and batches of at most 500 pages ([Welcome]; a missing
// member is left to the crawler). It applies to the origin that states it, at the
// address that served it, and expires 24 hours after it was read, when the name
// resolves to another address, when a request is answered 429 or 503, and when
// responses take twice as long as they did at first. A longer Crawl-delay of
// robots.txt still applies. A crawler may send fewer requests, and unless its operator
// permits more, sends at most ten a second over two connections.
//
// # A site that moves
//
// A site moves when its base URL gets another scheme, host or port; its paths stay. The
// manifest at the new base names each former base URL as dcterms:replaces of its channel:
// what was below that is at the same path below the new base now, so that no item has to
// name its old URL. A new epoch begins; digests and dates follow the bytes, as ever.
//
// A reader ignores this claim about another origin, unless the former origin confirms it by
// redirecting the URL of its manifest to the same path at the new one, with 301 or 308. Then
// the reader obeys the new robots.txt; reads the new manifest, whose base must be the new
// origin with the path of the former base; fetches no page again whose digest it has; and
// continues from the new cursor. A reader that was away during several moves follows each
// redirect in turn, to the first manifest, which must name one of the bases on the way. It
// does not go from https to http, from a public address to a private one, or in a circle.
//
// # What is frozen, and what may come
//
// The meaning of urn:parley:1# and [Subprotocol] is frozen: the elements Tombstone,
// epoch, seq, items, complete, stream, changes, discovery, digest, text, canonical
// and importance, and of a manifest in parts Part, whole, parts, changed and after, in
// the places above; which part is right about a URL;
// the kinds of messages and their members; that a cursor is EPOCH:SEQ and
// exclusive; that to is a watermark; when absence means gone; the forms, what a
// condition of a filter means, and that a body is the bytes of its hash or none.
// It is also frozen that [SubprotocolZstd] carries the same messages. An extension
// that readers would misunderstand gets another namespace and another subprotocol.
//
// Any other extension is allowed, and readers are ready for it:
//
//   - an unknown element, attribute or typed node is ignored, in any namespace,
//     urn:parley:1# included; it never changes the meaning of known ones;
//   - a message of an unknown kind is ignored with all its members, and so is an
//     unknown member;
//   - a change with an unknown op is an update: fetch the URL;
//   - a body with an unknown enc is no body: fetch the page;
//   - a digest of an unknown algorithm is an unknown digest, and any other property
//     of a resource that cannot be read, such as a date, a length or a language, is
//     unknown: the entry stays valid (those of a p:Part must be readable);
//   - an unknown member of .well-known/parley or of a problem is ignored.
//
// Requests are different: a parameter that the site does not know is refused,
// since it would have changed the response.
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
// edited and then renamed, and the site sends that at once:
//
//	{"t":"hello","v":1,"from":"k3v7q2m4x5n6p2aa:2","head":"k3v7q2m4x5n6p2aa:4","floor":"k3v7q2m4x5n6p2aa:0","at":"2026-11-21T05:11:40Z","hb":25,"manifest":"https://www.example.com/robots.rdf"}
//
//	{"t":"batch","from":"k3v7q2m4x5n6p2aa:2","to":"k3v7q2m4x5n6p2aa:4","n":2,"ev":[{"seq":3,"at":"2026-11-21T05:10:00.100Z","op":"update","url":"https://www.example.com/news/caf%C3%A9.html","mod":"2026-11-21T05:10:00Z","len":31,"type":"text/html","hash":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:","prev":"sha-256=:Om9037VQuIWHvp5/OX/nu5vmDX0nNxaVrKufoqMyZwU=:","sig":0.75,"text":"sha-256=:MKuXsC1NTgE6GuH2MUwT87igYwtF1Bxy7IkfQPhDCgM=:","lang":"en"},{"seq":4,"at":"2026-11-21T05:11:30Z","op":"move","url":"https://www.example.com/news/2026.html","from":"https://www.example.com/news/caf%C3%A9.html","mod":"2026-11-21T05:10:00Z","len":31,"type":"text/html","hash":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:","prev":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:","text":"sha-256=:MKuXsC1NTgE6GuH2MUwT87igYwtF1Bxy7IkfQPhDCgM=:","lang":"en"}]}
//
// It fetches /news/2026.html, once, and expects the bytes that hash names. Then
// the page is deleted, nothing happens for a while, and the site restarts:
//
//	{"t":"ev","to":"k3v7q2m4x5n6p2aa:5","seq":5,"at":"2026-11-21T05:12:00Z","op":"delete","url":"https://www.example.com/news/2026.html","prev":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:"}
//
//	{"t":"mark","to":"k3v7q2m4x5n6p2aa:5","head":"k3v7q2m4x5n6p2aa:5","at":"2026-11-21T05:12:25Z"}
//
//	{"t":"bye","resume":"k3v7q2m4x5n6p2aa:5","code":4001,"reason":"restart","retry_ms":2000}
//
// Another crawler prefers to poll: it requests
// https://www.example.com/parley/changes?after=k3v7q2m4x5n6p2aa:4 and receives
//
//	{"t":"batch","from":"k3v7q2m4x5n6p2aa:4","to":"k3v7q2m4x5n6p2aa:5","head":"k3v7q2m4x5n6p2aa:5","n":1,"ev":[{"seq":5,"at":"2026-11-21T05:12:00Z","op":"delete","url":"https://www.example.com/news/2026.html","prev":"sha-256=:lkTcdArlqhtpdimQAyw3CHIuSV+Innop8qQjFFf8joM=:"}]}
package protocol
