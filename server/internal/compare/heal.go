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

// A web server makes its validators of a file's size and of the second in
// which it changed; nginx, of nothing else: ETag of both, Last-Modified of the
// second. So two things can go wrong that a journal of digests can put right.
//
// A rebuild that writes the same bytes anew gives them a new second, and
// nobody's copy is valid any more: the file is given back the second of the
// last change of its bytes.
//
// Other bytes in the same second, or in an older one (rsync -t, cp -p, a build
// that gives all files one date), leave the validators of before, and visitors
// keep what is no longer there: the file is given the second after the latest
// in which this URL had other bytes.
//
// What no look has seen cannot be known: two edits within a second of which
// only the second was looked at leave nothing to tell them apart by.

// servedAhead is how far ahead of ours the clock of a file system may be. A
// time beyond is one that somebody made up: it is not counted among those that
// visitors were told, since no change could ever come after it.
const servedAhead = time.Minute

// second is what a web server tells of a time.
func second(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Unix(), 0).UTC()
}

// newest is the latest second that visitors may have been told together with
// the present bytes of a page. Before it was kept, that was the item's own.
func Newest(e journal.Entry) time.Time {
	if e.Newest.IsZero() {
		return second(e.Item.Modified)
	}
	return e.Newest
}

// healTo is the second that a page should have; zero if there is none.
func healTo(e journal.Entry) time.Time {
	to := second(e.Item.Modified)
	if !to.IsZero() && !to.After(e.Other) {
		to = e.Other.Add(time.Second)
	}
	return to
}

// date notes in an entry which second visitors may be told of what was read,
// and makes it another one where that should be. It reports false if the page
// is being changed, so that nothing is known of it now. Again says that it was
// read for that alone.
func (c *comparison) date(ctx context.Context, e *journal.Entry, r inventory.Offer, again bool) (ok bool, err error) {
	if r.Digest.IsZero() || r.Modified.IsZero() {
		return true, nil
	}
	now := c.look.Clock()
	if !r.Modified.After(now.Add(servedAhead)) {
		e.Newest = clock.Later(e.Newest, second(r.Modified))
	}
	to := healTo(*e)
	if c.look.Healer == nil || to.IsZero() || to.Equal(second(r.Modified)) {
		return true, nil
	}
	// Once the clock has ticked since the time that it is to have, no later
	// write can leave the same. The second that it has should be over too:
	// killed in between we would not know that it was told, and other bytes
	// may follow within it.
	at := to
	if over := second(r.Modified).Add(time.Second); !r.Modified.After(now) && over.After(at) {
		at = over
	}
	if at = at.Add(stat.Tick); at.After(now) {
		e.Stamp = nil // so that it is read again
		c.found.Owed.Add(inventory.ScopeOf(e.Item.URL), at, now)
		return true, nil
	}
	h, err := c.look.Healer.Heal(ctx, r, to)
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
			c.look.Refused[e.Item.URL] = true
		} else if c.found.Unhealed++; c.found.Unhealed == 1 {
			c.found.Unhealing = err
		}
		if !errors.Is(err, inventory.ErrLinked) { // the page that has the file is healed
			c.found.Report.Unhealed++
			c.found.Report.Unhealing = err.Error()
		}
	}
	return true, nil
}

// maxRefused is how many pages may turn out in vain to be read again so that
// they are healed, before no more are.
const maxRefused = 64

// owesTime reports whether a page that need not be read has a time all the
// same that should be another: it was looked at before anybody healed.
func (c *comparison) owesTime(e journal.Entry, o inventory.Offer) bool {
	return c.look.Healer != nil && !e.Other.IsZero() && !o.Modified.IsZero() && !second(o.Modified).After(e.Other) &&
		len(c.look.Refused) < maxRefused && !c.look.Refused[e.Item.URL]
}

// HealPatience is how far in the future the time may lie that a page is to
// get, for a Turn to wait for it.
const HealPatience = 2 * time.Second

// Debts says in which directories there are pages whose time could not be set
// yet, and when that can be.
type Debts map[inventory.Scope]time.Time

// Add notes a page. All that can soon be done in a directory is done at one
// time; what must wait for long is found again by then.
func (d *Debts) Add(s inventory.Scope, at, now time.Time) {
	if *d == nil {
		*d = make(Debts)
	}
	was, ok := (*d)[s]
	soon := func(t time.Time) bool { return t.Sub(now) <= HealPatience }
	if !ok || soon(at) && (at.After(was) || !soon(was)) {
		(*d)[s] = at
	}
}
