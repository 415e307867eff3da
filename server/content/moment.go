package content

import (
	"iter"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Moment is what a site offers at one moment. Its user must close it soon, and
// must not wait meanwhile for anything that changes the journal.
type Moment struct {
	Cursor   protocol.Cursor
	Modified time.Time // when the site last changed

	// Items yields the items after a URL, in the order of protocol.Compare; after
	// "" all items. Gone yields the tombstones, newest first.
	Items func(after string) iter.Seq2[protocol.Item, error]
	Gone  iter.Seq2[protocol.Tombstone, error]

	Close func()
}
