// Package inventory is what whoever tells of a site's pages and whoever asks for them both name: an
// [Inventory], the [Offer] of each page, the [Scope] to look at again.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// An Inventory tells what a site offers now: a walk over a docroot, a list of
// URLs, a content management system. server.Site is the first of them.
//
// A Publisher calls its methods from one goroutine at a time, Watch apart.
type Inventory interface {
	// Look yields an Offer for everything that stands in the given scopes,
	// ordered as protocol.Compare orders URLs, each URL once; no scopes means
	// everything. It reads no content. What rules leave out is yielded too,
	// with the reason. An error of type *UnseenError says that a part could
	// not be looked at, and the walk goes on; any other error ends it, and
	// then nothing may be concluded from what was not yielded. Until it yields
	// for the first time it may write notes to the journal; nobody who calls
	// Look has a View open.
	Look(ctx context.Context, scopes []Scope) iter.Seq2[Offer, error]

	// Read reads the content of what Look offered and returns the offer with
	// Digest, Length, Modified and Stamp of one consistent reading.
	// An error wrapping fs.ErrNotExist means that it has vanished since.
	Read(ctx context.Context, o Offer) (Offer, error)

	// Watch blocks until ctx ends, calling dirty with scopes that may have
	// changed once they have settled; no scopes means everything. It says
	// where to look, never what is there. dirty does not block.
	Watch(ctx context.Context, dirty func([]Scope)) error

	// Public reports whether the present rules let url be told to anybody.
	Public(url string) bool
}

// An Offer is one thing that an Inventory has.
type Offer struct {
	URL   string
	Place string // where it stands, for people: a path below the docroot

	// LeftOut is why a rule keeps it from being published, such as "robots.txt"
	// or "hidden". Empty means that it is offered. The URL of what was left
	// out may be empty where it can have none.
	LeftOut string

	// Unsettled says that it is being changed at this moment: what is known of
	// it stays, until it is looked at again.
	Unsettled bool

	// Stamp equal to the stamp of the last reading means that the content is
	// the same. An empty stamp is equal to nothing. Young is the stamp of what
	// is too young to have one: a later writing could leave the same. Equal to
	// a Stamp that was kept before, it says as much.
	Stamp, Young []byte

	Modified time.Time       // when the content claims to have changed; zero if unknown
	Span     time.Duration   // how coarse Modified is: see protocol.Item
	Length   int64           // bytes; -1 if unknown
	Type     string          // media type
	Title    string          // empty if unknown
	Digest   protocol.Digest // zero until Read, where the content must be read for it; after it, if unknown

	// What a page says of itself, where Read found it: see Features.
	Language, Canonical string
	Text                protocol.Digest
	Sketch              []byte
}

// ErrChanged is wrapped by the error of a [Healer] for content that is not
// what was read any more.
var ErrChanged = errors.New("content has changed")

// ErrLinked is wrapped by the error of a [Healer] for a page that is reached by
// a symbolic link: its time is that of another page, which is healed.
var ErrLinked = errors.New("it is reached by a symbolic link: the time is that of another page")

// A Healer is an Inventory that can set back when its content claims to have
// changed.
type Healer interface {
	// Heal makes the content of o, as Read returned it, claim that it changed
	// at to, a whole second that is over, and returns o with the Stamp and
	// Modified that it has then. It returns an error wrapping ErrChanged if
	// the content is not that of o any more. Any other error says why that
	// cannot be; then what it returns is what is there all the same.
	Heal(ctx context.Context, o Offer, to time.Time) (Offer, error)
}

// An UnseenError says that what lies below Prefix could not be looked at, so
// that nothing is known of it.
type UnseenError struct {
	Prefix string
	Err    error

	// Expected says that it is so at every look, and nobody need be warned.
	Expected bool
}

func (e *UnseenError) Error() string { return fmt.Sprintf("look at %s: %v", e.Prefix, e.Err) }

// Unwrap returns the cause.
func (e *UnseenError) Unwrap() error { return e.Err }
