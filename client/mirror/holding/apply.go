package holding

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// Applied says what a step came to.
type Applied struct {
	Owed    int // pages that must be fetched because of it
	Moved   int // files renamed, without a request
	Gone    int // pages dropped
	Known   int // changes that changed nothing: already held, owed or applied
	Foreign int // changes left out: another origin, or no URL to keep
}

// Apply takes in a step of what the site tells, and stores the step's cursor
// in the same transaction as the last of its effect. Changes that it has
// applied before, by their number, it passes over; a claim that names the
// digest we hold owes nothing.
//
// At the end of a whole snapshot the pages that it did not name are dropped,
// in transactions of bounded size. It may stand before the cursor that is
// stored: client.Follow takes such a one only where the site says that it was
// set back, and refuses it as old otherwise.
func (c *Holding) Apply(step client.Step) (Applied, error) {
	var a Applied
	a.Foreign = step.Skipped
	last := !step.Whole
	if err := c.update(func(u *update) error {
		return u.apply(step, last, &a)
	}); err != nil {
		return a, fmt.Errorf("apply step: %w", err)
	}
	for after := []byte(nil); !last; {
		if err := c.update(func(u *update) (err error) {
			if after, err = u.sweep(after, &a); after == nil {
				last = true
				u.stand(step)
			}
			return err
		}); err != nil {
			return a, fmt.Errorf("apply whole snapshot: %w", err)
		}
	}
	return a, nil
}

// stale reports whether a step stands before what is already known.
func (u *update) stale(step client.Step) bool {
	return step.Cursor.Epoch == u.meta.Cursor.Epoch && step.Cursor.Seq < u.meta.Cursor.Seq
}

// stand stores where the holding stands after a step.
func (u *update) stand(step client.Step) {
	u.meta.Door = step.Door
	if !step.Cursor.IsZero() {
		u.meta.Cursor = step.Cursor
	}
}

func (u *update) apply(step client.Step, last bool, a *Applied) error {
	snapshot := step.Door == client.Manifest || step.Reset || step.Whole
	if step.Reset {
		u.meta.Gen++
	}
	for _, ch := range step.Changes {
		if !snapshot && ch.Seq != 0 && ch.Seq <= u.meta.Cursor.Seq && step.Cursor.Epoch == u.meta.Cursor.Epoch {
			a.Known++
			continue
		}
		if !u.own(ch.Item.URL) {
			a.Foreign++
			continue
		}
		if err := u.change(ch, a); err != nil {
			return fmt.Errorf("%s %s: %w", ch.Op, ch.Item.URL, err)
		}
	}
	if err := u.promote(); err != nil {
		return err
	}
	switch {
	case !last:
	case !snapshot && u.stale(step): // told again
		u.meta.Door = step.Door
	default:
		u.stand(step)
	}
	return nil
}

// own reports whether a URL is of the site's own origin, and one to keep.
func (u *update) own(url string) bool {
	scheme := strings.Index(u.meta.Base, "://") + len("://")
	origin := u.meta.Base[:scheme+strings.IndexByte(u.meta.Base[scheme:], '/')+1]
	return len(url) <= protocol.MaxURL && strings.HasPrefix(url, origin)
}

func (u *update) change(ch protocol.Change, a *Applied) error {
	url := ch.Item.URL
	old, err := u.get(url)
	if err != nil {
		return err
	}
	switch ch.Op {
	case protocol.Delete:
		if old == nil {
			a.Known++
			return nil
		}
		a.Gone++
		return u.drop(url, old)
	case protocol.Move:
		if u.own(ch.From) && ch.From != url {
			return u.move(ch, old, a)
		}
	}
	return u.offer(ch.Item, old, a)
}

// offer takes in that the site has an item now.
func (u *update) offer(item protocol.Item, old *Page, a *Applied) error {
	p := &Page{}
	if old != nil {
		*p = *old
	}
	p.gen = u.meta.Gen
	p.Item = trim(item, p.Item.Type)
	switch {
	case !item.Digest.IsZero() && p.Path != "" && p.Held == item.Digest:
		p.Due, p.misses, p.fails = time.Time{}, 0, 0
	case old != nil && u.same(old, item):
		// The same claim again: what was planned or given up stands.
	case !p.Due.IsZero() && p.fails == 0 && p.misses == 0 && !p.Due.After(u.now):
		// Due already: it keeps its place in the queue.
	default:
		p.Due, p.misses, p.fails = u.now, 0, 0
	}
	if !p.Due.IsZero() && (old == nil || !old.Due.Equal(p.Due) || !old.Item.Equal(p.Item)) {
		a.Owed++
	} else {
		a.Known++
	}
	return u.put(item.URL, old, p)
}

// same reports whether the site says of a page what it said before, so that
// a debt paid for it stays paid. A date that is coarse, or not to be
// believed, proves nothing.
func (u *update) same(old *Page, item protocol.Item) bool {
	if !item.Digest.IsZero() || !old.Item.Digest.IsZero() {
		return item.Digest == old.Item.Digest
	}
	_, sane := protocol.SaneModified(item.Modified, u.now)
	return sane && item.Modified.Equal(old.Item.Modified) &&
		(!old.Due.IsZero() || !item.Modified.Add(item.Span).After(old.Fetched))
}

// trim returns what is kept of an item. A media type that is not told again stays.
func trim(item protocol.Item, mediaType string) protocol.Item {
	item.Title = ""
	if item.Type == "" || len(item.Type) > maxField {
		item.Type = mediaType
	}
	return item
}

// move takes in that the bytes of ch.From are offered at ch.Item.URL now.
func (u *update) move(ch protocol.Change, old *Page, a *Applied) error {
	from, err := u.get(ch.From)
	if err != nil {
		return err
	}
	if from == nil {
		return u.offer(ch.Item, old, a)
	}
	item := ch.Item
	if item.Digest.IsZero() && from.Path != "" && from.Due.IsZero() {
		item.Digest = from.Held // told without: the bytes are those of before
	}
	held := from.Path != "" && !item.Digest.IsZero() && from.Held == item.Digest
	if held && old != nil && old.Path != "" && old.Held == item.Digest {
		held = false // both are held: nothing to carry over
	}
	if !held {
		if err := u.drop(ch.From, from); err != nil {
			return err
		}
		return u.offer(item, old, a)
	}
	temp, err := u.lift(from.Path)
	if err != nil {
		return err
	}
	if err := u.drop(ch.From, from); err != nil {
		return err
	}
	if temp == "" { // somebody removed the file: fetch it
		return u.offer(item, old, a)
	}
	p := &Page{Item: trim(item, from.Item.Type), Held: from.Held, Length: from.Length,
		Status: from.Status, Fetched: from.Fetched, gen: u.meta.Gen}
	if old != nil && old.Path != "" {
		if err := u.release(old.Path); err != nil {
			return err
		}
	}
	if p.Path, err = u.claim(item.URL, p.Item.Type); err != nil {
		return err
	}
	u.place(p.Path, temp)
	a.Moved++
	return u.put(item.URL, old, p)
}

// A named is a page with its URL.
type named struct {
	url string
	p   *Page
}

// pick reads a bounded number of pages from behind a URL on, and returns those
// that are wanted, and where to go on: nil at the end.
func (u *update) pick(after []byte, wanted func(*Page) bool) (list []named, next []byte, err error) {
	const most = 1000
	cur := u.pages.Cursor()
	k, v := cur.Seek(after)
	if after != nil && bytes.Equal(k, after) {
		k, v = cur.Next()
	}
	for looked := 0; k != nil; k, v = cur.Next() {
		p, err := parsePage(string(k), v)
		if err != nil {
			return nil, nil, fmt.Errorf("read page %s: %w", k, err)
		}
		if wanted(p) {
			list = append(list, named{string(k), p})
		}
		if looked++; len(list) >= most || looked >= 50*most {
			return list, bytes.Clone(k), nil
		}
	}
	return list, nil, nil
}

// sweep drops pages that the present snapshot did not name, up to a bounded
// number of those it looks at. It returns where to go on, nil at the end.
func (u *update) sweep(after []byte, a *Applied) ([]byte, error) {
	gone, next, err := u.pick(after, func(p *Page) bool { return p.gen != u.meta.Gen })
	if err != nil {
		return nil, err
	}
	for _, g := range gone {
		if err := u.drop(g.url, g.p); err != nil {
			return nil, err
		}
		a.Gone++
	}
	return next, u.promote()
}
