package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// ErrNoVersion is wrapped by errors of a [Pages] that has not, or not any
// more, the version of a page that is asked for.
var ErrNoVersion = errors.New("that version is not kept")

// Pages gives what pages hold: as they are, as they were, and what differs.
// What it gives has been checked against the digest it was asked by. The
// methods may be called by many goroutines at once.
//
// It does not judge who may see a page: its caller does, for each URL. Nor does it know
// what the web server refuses: Keeper.Gate of package evidence makes one that does.
type Pages interface {
	// Page returns the bytes of item.URL, if item.Digest is theirs now and there
	// are at most max of them. The error wraps ErrNoVersion if the page is gone,
	// is another by now, or is larger.
	Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error)

	// Delta returns what leads from the version base of a page to that of
	// item, which is the present one, as protocol.CodingDelta. The error wraps
	// ErrNoVersion if either is not to be had, and if the delta is not worth
	// it, being no smaller.
	Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) ([]byte, error)
}

// A Presence is a [Pages] that knows which pages are there, and what they are. What it
// has given of one that is gone, or another by now, is given to nobody again
// out of what is kept for those who ask the same.
type Presence interface {
	// Present reports whether item is what its page is now.
	Present(item *protocol.Item) bool
}

// A Past is a [Pages] that also gives what a page held before, to those whom
// the site trusts with it: the programs of [Agents].
type Past interface {
	// Version is as Pages.Page, of any version of a page that is there.
	Version(ctx context.Context, item *protocol.Item, max int64) ([]byte, error)
}

// An Archived is an archive of the whole site: what stood at Cursor.
type Archived struct {
	Cursor protocol.Cursor
	Items  int
	Length int64           // bytes
	Digest protocol.Digest // of the archive
}

// Archive makes archives of the whole site, for the form protocol.AsSite.
type Archive interface {
	http.Handler // serves the newest archive, by Range too

	// Latest returns the newest archive that may be given to anybody now, and
	// false if there is none. It asks for a newer one to be made in the
	// background, if that is due.
	Latest() (Archived, bool)

	// Within reports whether may is true of every URL in the archives that are
	// there. It takes as long as reading all of them.
	Within(may func(url string) bool) bool

	// Coming reports whether a newer one is being made, or is about to be.
	Coming() bool

	// Wait blocks until Latest would return another than a, or ctx ends.
	Wait(ctx context.Context, a Archived) error
}

// A Predicate decides whether a change is told to whoever asked by it. It is
// called by many goroutines at once.
type Predicate func(context.Context, *protocol.Change) (bool, error)

// ErrProgram is wrapped by errors of [Agents] that are the fault of a program,
// and ErrNoRoom by those that say that there are too many.
var (
	ErrProgram = errors.New("the program cannot be run")
	ErrNoRoom  = errors.New("there is no room for another program")
)

// Agents runs programs that crawlers have sent (C14). server/agent is the
// implementation; without one there is no such thing. Its methods may be
// called by many goroutines at once.
type Agents interface {
	// Keep stores a program, after checking it, and returns its digest, by which Run knows it.
	Keep(ctx context.Context, who string, program []byte) (protocol.Digest, error)

	// Has returns nil if a program of that digest may be run for who, and else says why not.
	Has(who string, program protocol.Digest) error

	// Run asks the program about a change: page is what the page holds now and
	// before what it held before the change, each nil if it is not to be had.
	Run(ctx context.Context, who string, program protocol.Digest, c *protocol.Change, page, before []byte) (Verdict, error)
}

// A Verdict is what an agent says of a change.
type Verdict struct {
	Tell   bool   // whether its sender is told of it
	Output []byte // what goes with it, as protocol.CodingAgent
}

// A Caller is who asks, as far as that is known.
type Caller struct {
	// Name is the product token that robots.txt has rules for. Empty is
	// anybody: the rules for "*".
	Name string

	Agents bool // may send programs to be run here
}
