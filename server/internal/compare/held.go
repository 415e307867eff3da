package compare

import (
	"context"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/server/inventory"
)

// massFloor is how many pages may vanish at once from a site of any size without being a mass disappearance,
// unless they are all it has.
const massFloor = 20

// finish decides what the walk left open: moves, new pages, holds, and deletions that are due.
func (c *comparison) finish(ctx context.Context) error {
	// A page that could not be scanned has not vanished.
	gone := c.gone[:0]
	for _, e := range c.gone {
		if !c.isUnseen(e.Item.URL) {
			gone = append(gone, e)
		}
	}
	c.gone = gone
	if err := c.moves(ctx); err != nil {
		return err
	}
	if err := c.createBorn(ctx); err != nil {
		return err
	}
	var ripe []string
	for _, e := range c.gone {
		if c.scan.Accept || !e.Held.IsZero() {
			ripe = append(ripe, e.Item.URL)
		} else {
			c.hold(e)
		}
	}
	c.gone = nil
	if err := c.steps.flush(ctx); err != nil {
		return err
	}
	if err := c.countHeld(); err != nil {
		return err
	}
	if len(ripe) == 0 || c.found.Report.MassHeld && !c.scan.Accept {
		c.found.Again = false // a repeat would find no more room
		return nil
	}
	for _, url := range ripe {
		c.found.Report.Gone++
		c.steps.add(Deletion(url))
	}
	if err := c.steps.flush(ctx); err != nil {
		return err
	}
	return c.countHeld()
}

// countHeld counts the held pages, and finds when the next one is due.
func (c *comparison) countHeld() error {
	c.found.Report.HeldNow, c.found.Held = 0, time.Time{}
	waiting := 0
	err := EachHeld(c.scan.Journal, func(e journal.Entry) {
		c.found.Report.HeldNow++
		if c.scan.MayBeAnnounced(e) {
			waiting++
			return
		}
		// What was due and scanned could not be seen: it waits for the next full scan.
		if (c.found.Held.IsZero() || e.Held.Before(c.found.Held)) && !(c.scan.Due(e.Held) && c.scan.has(e.Item.URL)) {
			c.found.Held = e.Held
		}
	})
	// Announced pages cannot vanish, and inherited ones that wait may have been announced: neither kind
	// counts on either side.
	c.found.Report.MassHeld = IsMass(c.found.Report.HeldNow-waiting, c.scan.Journal.Len()-(c.announced-c.steps.given)-waiting)
	if c.inherited > 0 {
		c.scan.Warn("pages of the published manifest were never found by a scan: they stay until they are announced again, or a person accepts their deletion",
			"pages", c.inherited)
		c.inherited = 0
	}
	return err
}

// EachHeld calls f with every held entry. f must not use the journal.
func EachHeld(j *journal.Journal, f func(journal.Entry)) error {
	v, err := j.View()
	if err != nil {
		return err
	}
	defer v.Close()
	for e, err := range v.Held() {
		if err != nil {
			return err
		}
		f(e)
	}
	return nil
}

// hold records that a page was not found.
func (c *comparison) hold(e journal.Entry) {
	c.found.Report.Held++
	e.Held = c.scan.Now
	if c.scan.MayBeAnnounced(e) {
		c.inherited++
	}
	c.steps.add(journal.Step{Entry: e})
}

func (c *comparison) isUnseen(url string) bool {
	return slices.ContainsFunc(c.unseen, func(u *inventory.UnseenError) bool { return u.Covers(url) })
}

// IsMass reports whether held of present pages (the held included) are a mass disappearance, which ends only
// when a person accepts it or the pages return.
func IsMass(held, present int) bool {
	return held > 0 && (held >= present || held > massFloor && held > present/2)
}
