// Package caller defines the clients that a site knows by a token, and the interfaces of what they
// may send to the site to be evaluated: expressions and programs. Packages cel and agent evaluate
// them, for package doors.
package caller

import (
	"context"
	"errors"

	"github.com/parleyweb/parley/protocol"
)

// A Predicate decides whether a change is delivered to the reader whose expression
// it is. It is called by many goroutines at once.
type Predicate func(context.Context, *protocol.Change) (bool, error)

// ErrProgram is wrapped by errors of [Agents] that are the fault of a program,
// and ErrNoRoom by those that say that too many programs are stored.
var (
	ErrProgram = errors.New("the program cannot be run")
	ErrNoRoom  = errors.New("there is no room for another program")
)

// Agents runs programs that crawlers have sent (C14). internal/site/agent is the
// implementation; without one the site runs no programs. Its methods may be
// called by many goroutines at once.
type Agents interface {
	// Keep stores a program, after checking it, and returns its digest, by which Run knows it.
	Keep(ctx context.Context, who string, program []byte) (protocol.Digest, error)

	// Has returns nil if the caller named who may run the program with that digest, and otherwise the reason.
	Has(who string, program protocol.Digest) error

	// Run calls the program with a change. The argument page is the page's content now, and before
	// is its content before the change; each is nil if unavailable.
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
