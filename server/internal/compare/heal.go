package compare

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// A web server derives its validators from a file's size and the second of its mtime; nginx from nothing
// else: the ETag from both, Last-Modified from the second. So two things can go wrong that a journal of
// digests can repair.
//
// A rebuild that writes the same bytes again gives them a new second, which invalidates every copy: the file
// gets back the second of the last change of its bytes.
//
// Other bytes in the same second, or in an older one (rsync -t, cp -p, a build that gives all files one
// date), keep the old validators, and visitors keep outdated bytes: the file gets the second after the latest
// in which this URL had other bytes.
//
// States that no scan has seen are unknown: if two edits fall within one second and only the second was
// scanned, nothing distinguishes them.

// servedAhead is how far a file system's clock may be ahead of ours. A later mtime is an invented one: it is
// not counted among those that visitors have seen, since no change could ever come after it.
const servedAhead = time.Minute

// second returns a time with the precision at which a web server sends it.
func second(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Unix(), 0).UTC()
}

// Newest returns the latest second that visitors may have seen together with the present bytes of a page: the
// item's own if none is stored.
func Newest(e journal.Entry) time.Time {
	if e.Newest.IsZero() {
		return second(e.Item.Modified)
	}
	return e.Newest
}

// healTo returns the second that a page's mtime should have; zero if there is none.
func healTo(e journal.Entry) time.Time {
	to := second(e.Item.Modified)
	if !to.IsZero() && !to.After(e.Other) {
		to = e.Other.Add(time.Second)
	}
	return to
}

// date records in an entry which second visitors may have seen with the bytes just read, and heals the mtime
// if it should be another. It reports false if the page is being changed, so that nothing is known of it now.
// again says that the page was read for healing alone.
func (c *comparison) date(ctx context.Context, e *journal.Entry, r inventory.Offer, again bool) (ok bool, err error) {
	if r.Digest.IsZero() || r.Modified.IsZero() {
		return true, nil
	}
	now := c.scan.Clock()
	if !r.Modified.After(now.Add(servedAhead)) {
		e.Newest = clock.Later(e.Newest, second(r.Modified))
	}
	to := healTo(*e)
	if c.scan.Healer == nil || to.IsZero() || to.Equal(second(r.Modified)) {
		return true, nil
	}
	// Once the clock has ticked past the target time, no later write can have the same mtime. The second of
	// the present mtime should be over too: after a kill in between we would not know that visitors saw it,
	// and other bytes may follow within it.
	at := to
	if over := second(r.Modified).Add(time.Second); !r.Modified.After(now) && over.After(at) {
		at = over
	}
	if at = at.Add(stat.Tick); at.After(now) {
		e.Stamp = nil // so that it is read again
		c.found.PendingHeals.Add(inventory.ScopeOf(e.Item.URL), at, now)
		return true, nil
	}
	h, err := c.scan.Healer.Heal(ctx, r, to)
	switch {
	case err == nil:
		e.Stamp, e.Newest = h.Stamp, clock.Later(e.Newest, to)
		c.found.Report.Healed++
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, inventory.ErrChanged), errors.Is(err, fs.ErrNotExist):
		c.unsettled(e.Item.URL)
		return false, nil
	default:
		e.Stamp, e.Newest = h.Stamp, clock.Later(e.Newest, second(h.Modified))
		if again {
			c.scan.Refused[e.Item.URL] = true
		} else if c.found.Unhealed++; c.found.Unhealed == 1 {
			c.found.Unhealing = err
		}
		if !errors.Is(err, inventory.ErrLinked) { // the page that owns the file is healed
			c.found.Report.Unhealed++
			c.found.Report.Unhealing = err.Error()
		}
	}
	return true, nil
}

// maxRefused bounds the pages that are read again in vain in order to heal them. Beyond it none are.
const maxRefused = 64

// needsHeal reports whether a page with an unchanged stamp has an mtime that should be healed: it was scanned
// before there was a Healer.
func (c *comparison) needsHeal(e journal.Entry, o inventory.Offer) bool {
	return c.scan.Healer != nil && !e.Other.IsZero() && !o.Modified.IsZero() && !second(o.Modified).After(e.Other) &&
		len(c.scan.Refused) < maxRefused && !c.scan.Refused[e.Item.URL]
}

// HealPatience is how far in the future the target mtime of a page may lie for a Turn to wait for it.
const HealPatience = 2 * time.Second

// PendingHeals holds the directories with pages whose mtime could not be set yet, and when it can be.
type PendingHeals map[inventory.Scope]time.Time

// Add records a page. All pages of a directory that can be healed soon are healed at one time; those that
// must wait long are found again by then.
func (d *PendingHeals) Add(s inventory.Scope, at, now time.Time) {
	if *d == nil {
		*d = make(PendingHeals)
	}
	was, ok := (*d)[s]
	soon := func(t time.Time) bool { return t.Sub(now) <= HealPatience }
	if !ok || soon(at) && (at.After(was) || !soon(was)) {
		(*d)[s] = at
	}
}
