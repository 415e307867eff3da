package compare

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// A comparison is a Scan in progress. One goroutine uses it.
type comparison struct {
	scan  *Scan
	found Found

	left  entries // of the journal, not compared yet
	steps steps   // what has been decided of the others
	reads reads   // the offers between both: being read

	gone   []journal.Entry   // absent entries, newly so or due for deletion
	born   []inventory.Offer // offers of new pages, already read
	direct bool              // new pages are appended at once, without looking for moves
	unseen []*inventory.UnseenError

	inherited int // newly held pages that no scan has ever seen
	announced int // entries that were in the whole journal before this scan because they were announced
}

// endBaseline makes the first description visible.
func (c *comparison) endBaseline() error {
	if c.scan.Journal.Len() == 0 && len(c.unseen) > 0 {
		return fmt.Errorf("no page could be read: %w", c.unseen[0])
	}
	return c.scan.Journal.EndBaseline()
}

// walk does the merge join. It appends the steps that can be decided at once, and collects in gone and born
// those that only the end of the walk decides. After an error, absence means nothing.
func (c *comparison) walk(ctx context.Context) error {
	defer c.left.pause()
	reading, stop := context.WithCancel(ctx)
	c.reads.ctx = reading
	defer c.reads.end()
	defer stop()
	if c.scan.Journal.Len() == 0 {
		c.left.end = true // no need to keep a view of an empty journal open
	}
	if !c.scan.Journal.Whole() {
		c.direct = true // a baseline is not told to followers, so moves do not matter
	}
	var e journal.Stored
	more, begun := false, false
	begin := func() (err error) { // an Inventory may write to the journal before its first yield
		if !begun {
			begun = true
			e, more, err = c.next()
		}
		return err
	}
	last, seen := "", 0
	for o, err := range c.scan.Inventory.Scan(ctx, c.scan.Scopes) {
		if err := begin(); err != nil {
			return err
		}
		if err != nil {
			var u *inventory.UnseenError
			if !errors.As(err, &u) {
				return err
			}
			c.unseen = append(c.unseen, u)
			if !u.Expected {
				c.unread(u)
			}
			continue
		}
		if seen%512 == 0 {
			c.scan.Progress(c.found.Report)
		}
		seen++
		if o.LeftOut != "" {
			c.found.Report.LeftOut++
		}
		if o.URL == "" {
			continue
		}
		if !more || string(e.URL) != o.URL { // else it is in order, as the journal is
			if last != "" && protocol.Compare(last, o.URL) >= 0 {
				return fmt.Errorf("inventory is out of order: %s after %s", o.URL, last)
			}
			for more && protocol.Compare(string(e.URL), o.URL) < 0 {
				if err := c.unoffered(ctx, e); err != nil {
					return err
				}
				if e, more, err = c.advance(ctx); err != nil {
					return err
				}
			}
		}
		last = o.URL
		if !more || string(e.URL) != o.URL {
			if err = c.fresh(ctx, o); err == nil {
				err = c.steps.flushFull(ctx)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := c.known(ctx, e, o); err != nil {
			return err
		}
		if e, more, err = c.advance(ctx); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err // an Inventory may end without error then, and absence would mean nothing
	}
	err := errors.Join(begin(), c.finishReads(ctx, 0))
	for err == nil && more {
		if err = c.unoffered(ctx, e); err == nil {
			e, more, err = c.advance(ctx)
		}
	}
	if err != nil {
		return err
	}
	c.scan.Progress(c.found.Report)
	return c.steps.flush(ctx)
}

// advance flushes if needed, and moves to the journal's next entry.
func (c *comparison) advance(ctx context.Context) (journal.Stored, bool, error) {
	if err := c.steps.flushFull(ctx); err != nil {
		return journal.Stored{}, false, err
	}
	return c.next()
}

func (c *comparison) next() (journal.Stored, bool, error) {
	e, more, err := c.left.next()
	if len(c.scan.Scopes) == 0 && isAnnounced(e.Stamp) {
		c.announced++
	}
	return e, more, err
}

// known compares a journal entry with its offer.
func (c *comparison) known(ctx context.Context, stored journal.Stored, o inventory.Offer) error {
	same := o.LeftOut == "" && !o.Unsettled && isStamp(stored.Stamp, o) && (o.Type == "" || o.Type == stored.Type)
	if same && !stored.Held && (c.scan.Healer == nil || !stored.Other) && (c.scan.Importance == nil || len(c.scan.Scopes) > 0) {
		c.found.Report.Unchanged++
		return nil
	}
	e, err := stored.Entry()
	switch {
	case err != nil:
		return err
	case o.LeftOut != "":
		err := c.finishReads(ctx, 0)
		c.withdraw(e)
		return err
	case o.Unsettled:
		c.unsettled(o.URL)
		return nil
	case same && !c.needsHeal(e, o):
		c.unchanged(e)
		return nil
	}
	return c.read(ctx, o, &e)
}

// knownRead compares a journal entry with the result of reading its page.
func (c *comparison) knownRead(ctx context.Context, e journal.Entry, r inventory.Offer, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.absent(e)
	case errors.Is(err, errUnread):
	case err != nil:
		return err
	case r.LeftOut != "":
		c.found.Report.LeftOut++
		c.withdraw(e)
	case r.Unsettled:
		c.unsettled(r.URL)
	default:
		return c.compareRead(ctx, e, r)
	}
	return nil
}

// isStamp reports whether a stored stamp is that of an offer.
func isStamp(kept []byte, o inventory.Offer) bool {
	return len(kept) > 0 && (bytes.Equal(kept, o.Stamp) || bytes.Equal(kept, o.Young))
}

// unchanged records that a page is unchanged, without reading it.
func (c *comparison) unchanged(e journal.Entry) {
	if e.Held.IsZero() {
		c.found.Report.Unchanged++
		if c.scan.Importance == nil || len(c.scan.Scopes) > 0 {
			return
		}
	} else {
		c.found.Report.Returned++
	}
	now := e
	now.Held = time.Time{}
	if len(c.scan.Scopes) == 0 {
		now.Item.Importance = c.importanceOf(e.Item)
	}
	c.keep(e, now)
}

// compareRead compares a journal entry with the page as it was read.
func (c *comparison) compareRead(ctx context.Context, e journal.Entry, r inventory.Offer) error {
	it, tell := ItemAfter(e.Item, r, c.scan.Now)
	it.Importance = c.importanceOf(it)
	now := journal.Entry{Item: it, Stamp: r.Stamp, Sketch: r.Sketch, Newest: e.Newest, Other: e.Other}
	if it.Digest != e.Item.Digest {
		now.Newest, now.Other = time.Time{}, clock.Later(e.Other, Newest(e))
	}
	if r.Digest.IsZero() && !tell {
		now.Sketch = e.Sketch
	}
	if ok, err := c.date(ctx, &now, r, isStamp(e.Stamp, r)); !ok {
		return err
	}
	c.steps.replaces(e)
	if tell {
		c.found.Report.Changed++
		c.steps.add(journal.Step{Op: protocol.Update, Entry: now, Significance: Significance(e, now)})
		return nil
	}
	switch {
	case !e.Held.IsZero():
		c.found.Report.Returned++
	case len(e.Stamp) > 0 && !IsInherited(e) && !bytes.Equal(e.Stamp, r.Stamp):
		c.found.Report.Touched++
	default:
		c.found.Report.Unchanged++ // its stamp was too young to be stored
	}
	c.keep(e, now)
	return nil
}

// keep stores a page's new entry, if it differs, without a change for followers.
func (c *comparison) keep(was, now journal.Entry) {
	if was.Item == now.Item && bytes.Equal(was.Stamp, now.Stamp) && bytes.Equal(was.Sketch, now.Sketch) &&
		was.Held.Equal(now.Held) && was.Newest.Equal(now.Newest) && was.Other.Equal(now.Other) {
		return
	}
	c.steps.add(journal.Step{Entry: now})
}

// importanceOf returns a page's importance.
func (c *comparison) importanceOf(it protocol.Item) protocol.Importance {
	if c.scan.Importance == nil {
		return it.Importance
	}
	return c.scan.Importance(it.URL)
}

// fresh handles an offer that the journal does not hold.
func (c *comparison) fresh(ctx context.Context, o inventory.Offer) error {
	switch {
	case o.LeftOut != "":
		return nil
	case o.Unsettled:
		c.unsettled(o.URL)
		return nil
	}
	return c.read(ctx, o, nil)
}

// freshRead handles the result of reading a page that the journal does not hold.
func (c *comparison) freshRead(ctx context.Context, r inventory.Offer, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnread):
	case err != nil:
		return err
	case r.LeftOut != "":
		c.found.Report.LeftOut++
	case r.Unsettled:
		c.unsettled(r.URL)
	case c.direct:
		return c.create(ctx, r)
	default:
		c.born = append(c.born, r)
		if len(c.born) > c.scan.Limit {
			c.direct = c.scan.Max == 0
			return c.createBorn(ctx)
		}
	}
	return nil
}

// checkMax sets Found.Over if the site has more pages than Max, with the new ones and without those that have vanished: all
// decided steps must have been appended.
func (c *comparison) checkMax() error {
	if c.scan.Max == 0 || c.found.Over != nil {
		return nil
	}
	pages := c.scan.Journal.Len() + len(c.born)
	for _, e := range c.gone {
		if e.Held.IsZero() {
			pages--
		}
	}
	err := EachHeld(c.scan.Journal, func(journal.Entry) { pages-- })
	if pages > c.scan.Max {
		c.found.Over = fmt.Errorf("%d pages were found, more than the maximum, max-pages %d: no new page is published until the maximum is raised, or pages are left out", pages, c.scan.Max)
	}
	return err
}

// createBorn appends the new pages that are not moves, unless there are too many.
func (c *comparison) createBorn(ctx context.Context) error {
	if c.scan.Max > 0 {
		if err := errors.Join(c.steps.flush(ctx), c.checkMax()); err != nil {
			return err
		}
		if c.found.Over != nil {
			c.born = nil
			return nil
		}
	}
	for _, r := range c.born {
		if err := c.create(ctx, r); err != nil {
			return err
		}
	}
	c.born = nil
	return nil
}

func (c *comparison) create(ctx context.Context, r inventory.Offer) error {
	e, ok, err := c.newborn(ctx, ItemOf(r, c.scan.Now, c.scan.Journal.Whole()), r)
	if ok {
		c.found.Report.New++
		c.steps.add(journal.Step{Op: protocol.Create, Entry: e})
	}
	return err
}

// newborn returns the entry of a page that the journal does not hold. It reports false if the page is being
// changed.
func (c *comparison) newborn(ctx context.Context, it protocol.Item, r inventory.Offer) (e journal.Entry, ok bool, err error) {
	it.Importance = c.importanceOf(it)
	e = journal.Entry{Item: it, Stamp: r.Stamp, Sketch: r.Sketch}
	if !r.Digest.IsZero() && c.scan.Journal.Whole() {
		dead, was, err := c.scan.Journal.Gone(it.URL)
		if err != nil {
			return e, false, err
		}
		if was {
			// No earlier mtime of the page was later than its deletion. Not even the same bytes may have an
			// earlier one: others may have been served with it.
			e.Other = second(dead.At)
		}
	}
	ok, err = c.date(ctx, &e, r, false)
	return e, ok, err
}

// unoffered handles a journal entry that was not offered, after all before it.
func (c *comparison) unoffered(ctx context.Context, stored journal.Stored) error {
	e, err := stored.Entry()
	if err == nil {
		err = c.finishReads(ctx, 0)
	}
	if err == nil {
		c.absent(e)
	}
	return err
}

// absent handles a page of the journal that is not there.
func (c *comparison) absent(e journal.Entry) {
	switch {
	case !c.scan.Inventory.Public(e.Item.URL):
		c.withdraw(e)
	case IsAnnounced(e):
		c.unchanged(e)
	case c.isUnseen(e.Item.URL): // as far as is known now: finish checks again
	case e.Held.After(c.scan.Now) && !c.scan.Accept:
		c.hold(e) // the clock was set back: the page would wait until then, and for its grace period
	case !e.Held.IsZero() && !c.scan.Accept && (c.scan.MayBeAnnounced(e) || !c.scan.Due(e.Held)):
		// It stays held.
	case len(c.gone) < c.scan.Limit:
		c.gone = append(c.gone, e)
	case e.Held.IsZero():
		c.hold(e)
		c.found.Again = c.found.Again || c.scan.Accept
	default:
		c.found.Again = true
	}
}

func (c *comparison) withdraw(e journal.Entry) {
	c.found.Report.Withdrawn++
	c.steps.replaces(e)
	c.steps.add(Deletion(e.Item.URL))
}

func (c *comparison) unsettled(url string) {
	c.found.Report.Unsettled++
	c.found.Soon = append(c.found.Soon, inventory.Scope{Page: url})
}

// maxUnreadable bounds Found.Unreadable.
const maxUnreadable = 1000

// unread records a page or a directory that cannot be read.
func (c *comparison) unread(u *inventory.UnseenError) {
	u.Place = cmp.Or(u.Place, u.Page, u.Prefix)
	if c.found.Report.Unread++; len(c.found.Unreadable) < maxUnreadable {
		c.found.Unreadable = append(c.found.Unreadable, u)
	}
}
