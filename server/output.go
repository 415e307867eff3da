package server

import "context"

// An Output is what is written from a journal besides the manifest: a sitemap,
// a feed, an include for the web server. Package server/static has them.
type Output interface {
	// Write brings the output up to the journal, and reports whether it had
	// to. It writes nothing that is there already, also when another process
	// wrote it, and never leaves a torn file.
	Write(ctx context.Context, j *Journal) (wrote bool, err error)
}
