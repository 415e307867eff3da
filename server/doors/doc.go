// Package doors lets crawlers read a site's journal over HTTP: a [Notifier] is the handler with all
// doors (endpoints) of a site. It reads the journal as a protocol.Log, and page contents through the
// interfaces of package content. It does not import package server, which publishes the site, nor is
// it imported there.
package doors
