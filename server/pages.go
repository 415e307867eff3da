package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// ErrNoVersion is wrapped by errors of a [Pages] that does not have the
// requested version of a page, or has it no longer.
var ErrNoVersion = errors.New("that version is not stored")

// Pages returns the contents of pages: present ones, earlier ones, and differences.
// All of it has been checked against the digest in the request. The methods may
// be called by many goroutines at once.
//
// It does not decide who may see a page: its caller does, for each URL. Nor does it know
// which pages the web server refuses: Keeper.Gate of package evidence wraps it in one that does.
type Pages interface {
	// Page returns the bytes of item.URL, if they have item.Digest now and there
	// are at most max of them. The error wraps ErrNoVersion if the page is gone,
	// has changed, or is larger.
	Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error)

	// Delta returns the difference from the version base of a page to that of
	// item, which is the present one, as protocol.CodingDelta. The error wraps
	// ErrNoVersion if either version is missing, or if the delta is not smaller
	// than the page.
	Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) ([]byte, error)
}

// A Presence is a [Pages] that knows which pages exist, and their present version. Caches
// of what it returned are not used for a page that is gone or has changed since.
type Presence interface {
	// Present reports whether item is what its page is now.
	Present(item *protocol.Item) bool
}

// A Past is a [Pages] that also returns earlier versions of a page, for readers that
// the site trusts with them: the programs of [Agents].
type Past interface {
	// Version is like Pages.Page, for any version of a page that exists now.
	Version(ctx context.Context, item *protocol.Item, max int64) ([]byte, error)
}

// An Archived describes an archive of the whole site as it was at Cursor.
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
	// false if there is none. If a newer one is due, it has it made in the background.
	Latest() (Archived, bool)

	// Within reports whether may is true of every URL in the existing archives.
	// It takes as long as reading all of them.
	Within(may func(url string) bool) bool

	// IsDueSoon reports whether a newer archive is being made, or is about to be.
	IsDueSoon() bool

	// Wait blocks until Latest would return another archive than a, or ctx ends.
	Wait(ctx context.Context, a Archived) error
}

// A Predicate decides whether a change is delivered to the reader whose expression
// it is. It is called by many goroutines at once.
type Predicate func(context.Context, *protocol.Change) (bool, error)

// ErrProgram is wrapped by errors of [Agents] that are the fault of a program,
// and ErrNoRoom by those that say that too many programs are stored.
var (
	ErrProgram = errors.New("the program cannot be run")
	ErrNoRoom  = errors.New("there is no room for another program")
)

// Agents runs programs that crawlers have sent (C14). server/agent is the
// implementation; without one the site runs no programs. Its methods may be
// called by many goroutines at once.
type Agents interface {
	// Keep stores a program, after checking it, and returns its digest, by which Run knows it.
	Keep(ctx context.Context, who string, program []byte) (protocol.Digest, error)

	// Has returns nil if who may run the program of that digest, and else the reason.
	Has(who string, program protocol.Digest) error

	// Run calls the program with a change: page is the page's content now and before
	// its content before the change, each nil if unavailable.
	Run(ctx context.Context, who string, program protocol.Digest, c *protocol.Change, page, before []byte) (Verdict, error)
}

// A Verdict is an agent's decision about a change.
type Verdict struct {
	Tell   bool   // whether the change is delivered to the agent's sender
	Output []byte // delivered with the change, as protocol.CodingAgent
}

// A Caller is the client of a request, as far as it is known.
type Caller struct {
	// Name is the product token under which robots.txt may have rules. Empty is
	// an anonymous client: the rules for "*".
	Name string

	Agents bool // may have its programs run here
}
