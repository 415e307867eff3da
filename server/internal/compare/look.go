// Package compare finds what has changed on a site: it puts what an inventory offers beside what the
// journal holds, tells moves from deletions, heals times, and appends what differs. It is what a
// Publisher does at each look.
package compare

import (
	"context"
	"errors"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// MaxMoves is how long each side list is by default.
const MaxMoves = 100_000

// A Look puts what an Inventory offers beside what a journal holds, and appends what differs: a merge
// join, both in the order of protocol.Compare. All fields but Healer, Refused and Importance must be set.
type Look struct {
	Inventory inventory.Inventory
	Journal   *journal.Journal  // of which nobody else is a writer meanwhile
	Scopes    []inventory.Scope // in order, none within another; none at all means everything
	Accept    bool              // announce every deletion
	Limit     int               // of each side list: new pages and vanished ones among which moves are found; zero means MaxMoves
	Now       time.Time         // when it began
	Clock     func() time.Time
	Prove     func() error              // called before the first steps that will be told
	Ripe      func(held time.Time) bool // is a page held since then to be announced?
	Warn      func(msg string, args ...any)
	Progress  func(inventory.Report)

	Healer     inventory.Healer                     // nil: times stay as they are found
	Refused    map[string]bool                      // pages that were read in vain to be healed, by any Look; needed where there is a Healer
	Importance func(url string) protocol.Importance // nil: what is known of it stays

	// MayBeAnnounced reports whether an inherited page may be an announced one. Announced counts the
	// entries that are there because they were announced; a Look at everything counts them itself.
	MayBeAnnounced func(journal.Entry) bool
	Announced      int
}

// Found is what a Look has come to.
type Found struct {
	Report inventory.Report // without At, Duration and Head

	Held  time.Time         // since when the page is held that is ripe next; zero if none
	Soon  []inventory.Scope // to be looked at again soon
	Again bool              // more was ripe than the side list holds: look once more

	Owed      Debts // what is to be healed later
	Unhealed  int   // pages whose time could not be set
	Unhealing error // why the first of them could not

	Announced int // entries that are there because they were announced, after it
}

// Run takes one look. After an error Found says what was taken in before it; then nothing is held or announced as
// gone on account of that look, and of a look at everything Announced is as little exact as it was before.
func (l *Look) Run(ctx context.Context) (Found, error) {
	c := &comparison{look: l}
	if len(l.Scopes) > 0 {
		c.announced = l.Announced
	}
	err := c.walk(ctx)
	if err == nil {
		err = c.finish(ctx)
	} else if ctx.Err() == nil && !c.broken {
		err = errors.Join(err, c.flush(ctx)) // what a walk cut short knew for certain
	}
	if err == nil && len(l.Scopes) == 0 && !l.Journal.Whole() {
		err = c.settle()
	}
	c.found.Announced = l.Announced - c.given
	if err == nil {
		c.found.Announced = c.announced - c.given
	}
	return c.found, err
}

// limit is of each side list.
func (l *Look) limit() int {
	if l.Limit > 0 {
		return l.Limit
	}
	return MaxMoves
}
