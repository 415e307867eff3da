// Package caller is about the clients of a site that it knows by a token, and about what they may
// send to be evaluated here: expressions and programs. Those that evaluate them (packages cel and
// agent) and the doors meet here.
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
