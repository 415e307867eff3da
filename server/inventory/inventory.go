// Package inventory has the types shared by packages that list a site's pages and packages that publish them:
// an [Inventory], the [Offer] of each page, the [Scope] to scan again.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// An Inventory lists what a site offers now: a scan of a docroot, a list of URLs, a content management
// system. server.Site is the first of them.
//
// A Publisher calls its methods from one goroutine at a time, except Watch, and Read of an Offer with Parallel set.
type Inventory interface {
	// Scan yields an Offer for everything in the given scopes, ordered as protocol.Compare orders
	// URLs, each URL once; no scopes means everything. It reads no content. Pages that rules leave out are
	// yielded too, with the reason. An error of type *UnseenError says that a part could not be scanned, and
	// the scan goes on; any other error ends it, and then nothing may be concluded from absence. Before its
	// first yield Scan may write notes to the journal; callers must have no View open.
	Scan(ctx context.Context, scopes []Scope) iter.Seq2[Offer, error]

	// Read reads the content of an Offer that Scan yielded and returns it with Digest, Length, Modified and
	// Stamp of one consistent reading. An error wrapping fs.ErrNotExist means that the content has vanished
	// since.
	Read(ctx context.Context, o Offer) (Offer, error)

	// Watch blocks until ctx ends, calling dirty with scopes that may have changed, after their debounce; no
	// scopes means everything. It says where to scan, never what is there. dirty does not block.
	Watch(ctx context.Context, dirty func([]Scope)) error

	// Public reports whether the present rules let url be published.
	Public(url string) bool
}

// An Offer is one page or file of an Inventory.
type Offer struct {
	URL   string
	Place string // location for people: a path below the docroot

	// LeftOut is why a rule keeps it from being published, such as "robots.txt" or "hidden". Empty means that
	// it is offered. A left-out file may have no URL.
	LeftOut string

	// Unsettled reports that it is being changed at this moment: its stored entry stays until the next scan.
	Unsettled bool

	// A Stamp equal to that of the last reading means that the content is the same. An empty stamp equals
	// nothing. Young is the stamp of content too young to have one: a later write could leave the same stamp.
	// If Young equals a Stamp stored before, the content is the same too.
	Stamp, Young []byte

	// Parallel says that Read of this offer may run while other methods do, and other Reads, and soon after Scan has ended.
	Parallel bool

	Modified time.Time       // when the content changed, by its own account; zero if unknown
	Span     time.Duration   // how coarse Modified is: see protocol.Item
	Length   int64           // bytes; -1 if unknown
	Type     string          // media type
	Title    string          // empty if unknown
	Digest   protocol.Digest // zero before Read if it takes reading, and after Read if unknown

	// What the page says about itself, if Read found it: see Features.
	Language, Canonical string
	Text                protocol.Digest
	Sketch              []byte
}

// ErrChanged is wrapped by the error of a [Healer] for content that has changed since it was read.
var ErrChanged = errors.New("content has changed")

// ErrLinked is wrapped by the error of a [Healer] for a page that is reached by a symbolic link: its mtime is
// that of another page, which is healed.
var ErrLinked = errors.New("reached by a symbolic link: the mtime is that of another page")

// A Healer can set back the modification times of an Inventory's content. The docroot of a site is one.
type Healer interface {
	// Heal sets the modification time of o, as Read returned it, to a whole second in the past, and returns o
	// with its new Stamp and Modified. It returns an error wrapping ErrChanged if the content has changed
	// since Read. Any other error says why the time cannot be set; then the returned Offer still describes
	// what is there.
	Heal(ctx context.Context, o Offer, to time.Time) (Offer, error)
}

// An UnseenError reports that a page, or everything below a prefix, or either, could not be scanned, so that nothing is
// known of it.
type UnseenError struct {
	Page   string // URL; empty if it cannot be a page
	Prefix string // of URLs, with "/" at its end; empty if it cannot be a directory
	Place  string // location for people: a path below the docroot, that of a directory with a "/" at its end
	Err    error

	// Expected says that this happens at every scan, and needs no warning.
	Expected bool
}

func (e *UnseenError) Error() string {
	return fmt.Sprintf("scan %s: %v", cmp.Or(e.Page, e.Prefix), e.Err)
}

// Covers reports whether nothing is known of a URL.
func (e *UnseenError) Covers(url string) bool {
	return url == e.Page || e.Prefix != "" && strings.HasPrefix(url, e.Prefix)
}

// Unwrap returns the cause.
func (e *UnseenError) Unwrap() error { return e.Err }
