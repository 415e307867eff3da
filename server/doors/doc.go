// Package doors lets crawlers read a site's journal over HTTP: a [Notifier] is the handler with all
// doors (endpoints) of a site. It reads the journal as a protocol.Log, and the contents of pages as
// package content has them; it knows nothing of how the site publishes, and package server, which
// does that, knows nothing of it.
package doors
