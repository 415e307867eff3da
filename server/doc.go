// Package server is the site's side of Parley: it publishes what a site has and what changed.
// Package doors, beside it, lets crawlers read that.
//
// A [Site] is a document root published at a base URL. It is an [inventory.Inventory]:
// it reports what is offered now, and where to scan again. A [Publisher] compares that
// with the site's [Journal], appends the differences as changes, and writes the
// manifest, robots.rdf, through a [manifest.Snapshot]. A Notifier of package doors is the http.Handler
// with the doors (endpoints) for crawlers: the manifest, the list of changes, the stream. A
// [Holder] lets other processes of the same machine query the process that has the
// journal open.
//
//	journal, err := server.OpenJournal(ctx, "/var/lib/parley/state", server.JournalOptions{Base: base, Published: out})
//	...
//	defer journal.Close()
//	snapshot := &manifest.Snapshot{Path: out, Manifest: doors.Describe(base), Public: site.Public}
//	publisher := &server.Publisher{Inventory: site, Journal: journal, Snapshot: snapshot}
//	notifier := &doors.Notifier{Log: journal, Snapshot: snapshot, Base: base, Public: site.Public, Ready: publisher.Ready}
//	go publisher.Run(ctx)
//	http.ListenAndServe("127.0.0.1:8639", notifier)
//
// Nothing in this package starts a goroutine before Run or a request needs it, and
// its starter waits for it. Times come from the Now fields, messages for people go to
// the Log fields (Logger where Log is the journal); both may be nil.
package server
