package compare

import (
	"context"
	"errors"
	"slices"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// match collects the pages with one digest while moves are looked for. A digest of more than one new page, or
// of more than one that vanished, proves nothing: real docroots hold many equal files.
type match struct {
	born, lost int // number of pages with the digest
	to         int // index in born
	from       journal.Entry
	seen       bool // this scan found that from is absent
}

// moves finds the new pages that are vanished ones under another URL, and removes both from their side lists.
func (c *comparison) moves(ctx context.Context) error {
	if len(c.born) == 0 {
		return nil
	}
	by := make(map[protocol.Digest]*match)
	for i, r := range c.born {
		if r.Digest.IsZero() || r.Length <= 0 {
			continue
		}
		if m := by[r.Digest]; m != nil {
			m.born++
		} else {
			by[r.Digest] = &match{born: 1, to: i}
		}
	}
	lost := func(e journal.Entry, seen bool) {
		if m := by[e.Item.Digest]; m != nil {
			m.lost++
			m.from, m.seen = e, seen
		}
	}
	listed := make(map[string]bool) // held entries that are in gone too
	for _, e := range c.gone {
		lost(e, true)
		if !e.Held.IsZero() {
			listed[e.Item.URL] = true
		}
	}
	if err := EachHeld(c.scan.Journal, func(e journal.Entry) {
		if !listed[e.Item.URL] {
			lost(e, false)
		}
	}); err != nil {
		return err
	}
	var doubtful []string
	for d, m := range by {
		switch {
		case m.born != 1 || m.lost != 1:
			delete(by, d)
		case !m.seen:
			doubtful = append(doubtful, m.from.Item.URL)
		}
	}
	if len(doubtful) > 0 {
		absent, err := c.lookFor(ctx, doubtful)
		if err != nil {
			return err
		}
		for d, m := range by {
			if !m.seen && !absent[m.from.Item.URL] {
				delete(by, d)
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	went := make(map[string]bool, len(by))
	rest := c.born[:0]
	for i, r := range c.born {
		m := by[r.Digest]
		if m == nil || m.to != i {
			rest = append(rest, r)
			continue
		}
		it := ItemOf(r, c.scan.Now, true)
		it.Modified, it.Span = m.from.Item.Modified, m.from.Item.Span // the bytes have not changed
		it.Importance = m.from.Item.Importance
		e, ok, err := c.newborn(ctx, it, r)
		if err != nil {
			return err
		}
		if !ok {
			continue // once it has settled, the vanished page is held, and the move is found then
		}
		c.found.Report.Moved++
		c.steps.add(journal.Step{Op: protocol.Move, From: m.from.Item.URL, Entry: e})
		went[m.from.Item.URL] = true
	}
	c.born = rest
	c.gone = slices.DeleteFunc(c.gone, func(e journal.Entry) bool { return went[e.Item.URL] })
	return nil
}

// lookFor returns which of these held pages are still absent: a held page may be back, and not scanned yet.
func (c *comparison) lookFor(ctx context.Context, urls []string) (map[string]bool, error) {
	absent := make(map[string]bool, len(urls))
	scopes := make([]inventory.Scope, len(urls))
	for i, u := range urls {
		absent[u], scopes[i] = true, inventory.Scope{Page: u}
	}
	for o, err := range c.scan.Inventory.Scan(ctx, inventory.Covering(scopes)) {
		var u *inventory.UnseenError
		switch {
		case errors.As(err, &u):
			c.unseen = append(c.unseen, u)
		case err != nil:
			return nil, err
		default:
			delete(absent, o.URL)
		}
	}
	for u := range absent {
		if c.isUnseen(u) {
			delete(absent, u)
		}
	}
	return absent, ctx.Err()
}
