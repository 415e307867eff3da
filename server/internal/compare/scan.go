// Package compare finds what has changed on a site: it compares an inventory with the journal, distinguishes
// moves from deletions, heals mtimes, and appends the differences. A Publisher does this at each scan.
package compare

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// A Scan compares an Inventory with a journal, and appends the differences: a merge join, both sides in the
// order of protocol.Compare. All fields but Healer, Refused and Importance must be set.
type Scan struct {
	Inventory inventory.Inventory
	Journal   *journal.Journal  // has no other writer meanwhile
	Scopes    []inventory.Scope // in order, none within another; none at all means everything
	Accept    bool              // announce every deletion
	Limit     int               // of each side list: new pages, and vanished ones, among which moves are found
	Max       int               // pages that the site may have; 0: no maximum
	Now       time.Time         // when the scan began
	Clock     func() time.Time
	WriteMark func() error              // called before the first steps that followers will see
	Due       func(held time.Time) bool // may a page that is held since then be announced as deleted?
	Warn      func(msg string, args ...any)
	Progress  func(inventory.Report)

	Healer     inventory.Healer                     // nil: mtimes stay as they are
	Refused    map[string]bool                      // pages that any Scan read in vain in order to heal them; required with a Healer
	Importance func(url string) protocol.Importance // nil: the stored importance stays

	// MayBeAnnounced reports whether an inherited page may be an announced one. Announced counts the entries
	// that are there because they were announced; a full scan counts them itself.
	MayBeAnnounced func(journal.Entry) bool
	Announced      int
}

// Found is the result of a Scan.
type Found struct {
	Report inventory.Report // without At, Duration and Head

	Held  time.Time         // when the held page that is due next began to be held; zero if none
	Soon  []inventory.Scope // to be scanned again soon
	Again bool              // more pages were due than the side list holds: scan once more

	Unreadable []*inventory.UnseenError // the first of what could not be read, pages too; Report.Unread counts all

	PendingHeals PendingHeals // pages to be healed later
	Unhealed     int          // pages whose mtime could not be set
	Unhealing    error        // the error of the first of them

	Announced int // announced entries after this Scan

	// Over says that there are more pages than Max: the new ones were not recorded, everything else was. A baseline
	// of too many pages is not completed.
	Over error
}

// Run does one scan. After an error Found reports what was recorded before it; that scan then causes no hold
// and no deletion, and after a full scan Announced is no more exact than before.
func (l *Scan) Run(ctx context.Context) (Found, error) {
	c := &comparison{scan: l, left: entries{j: l.Journal, scopes: l.Scopes}}
	c.steps = steps{scan: l, left: &c.left, flushed: time.Now()}
	if len(l.Scopes) > 0 {
		c.announced = l.Announced
	}
	err := c.walk(ctx)
	if err == nil {
		err = c.finish(ctx)
	} else if ctx.Err() == nil && !c.steps.broken {
		err = errors.Join(err, c.steps.flush(ctx)) // what an aborted walk had decided for certain
	}
	if err == nil && len(l.Scopes) == 0 && !l.Journal.Whole() && c.found.Over == nil {
		err = c.endBaseline()
	}
	c.found.Announced = l.Announced - c.steps.given
	if err == nil {
		c.found.Announced = c.announced - c.steps.given
	}
	return c.found, err
}

// has reports whether a URL is in the part of the site that is scanned.
func (l *Scan) has(url string) bool {
	return len(l.Scopes) == 0 || slices.ContainsFunc(l.Scopes, func(s inventory.Scope) bool { return s.Has(url) })
}
