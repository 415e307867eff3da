package collection

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// The digests bucket names the first page with a parsed content (P17). The key is the start of the content's
// digest; the page's own record has all of it. A page with other content by now is noticed on lookup, and
// replaced then. Archived bodies have entries of their own there, see twin, and so have bodies whose digests
// a site has announced, see Holder.

func digestKey(d protocol.Digest) uint64 { return binary.BigEndian.Uint64(d[:]) }

// first reports whether pages with a parsed content are duplicates of this page. A page that redirects, or
// is refused by now, has no links to replace theirs.
func (p *Page) first(parsed protocol.Digest) bool {
	return p.has() && (p.State == Held || p.State == Failing) && p.Parsed == parsed && p.Original == 0
}

// siteKeyOf returns the key of a body whose digest a site has announced.
func siteKeyOf(site frontier.SiteID, d protocol.Digest) uint64 {
	return digestKey(d) ^ uint64(site)*0x9e3779b97f4a7c15
}

// sharable reports whether other pages of the site may share the page's body: it is stored, whole, and stable.
func (p *Page) sharable(site frontier.SiteID, d protocol.Digest) bool {
	return p.Site == site && p.State == Held && p.Digest == d && !p.Cut && p.Unstable == Stable && p.Stored.File != ""
}

// Holder returns a page of a site with a stored body of that digest, whole and as the site announced it, and
// false if none is known: only announced digests have entries.
func (c *Collection) Holder(site frontier.SiteID, d protocol.Digest) (p Page, ok bool, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		id := c.stage.Digest(tx.Bucket(queue.Digests), siteKeyOf(site, d))
		ok, err = c.view(tx).page(id, &p)
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("find page with digest %s: %w", d, err)
	}
	return p, ok && p.sharable(site, d), nil
}

// holds records that a page has the announced body, for other pages of the site with the same.
func (u *update) holds(w *work) error {
	if !w.sharable(w.Site, w.Digest) || w.Length == 0 {
		return nil
	}
	key := siteKeyOf(w.Site, w.Digest)
	switch first := u.firsts.of(key); first {
	case w.ID:
		return nil
	case 0:
	default:
		if o, err := u.pages.get(first); err != nil || o != nil && o.sharable(w.Site, w.Digest) {
			return err
		}
	}
	u.firsts.changed[key] = w.ID
	return nil
}

// original returns the page that had a parsed content before page id, and still has it; if there is none, it
// returns nil, and id is the first from now on.
func (u *update) original(parsed protocol.Digest, id frontier.PageID) (*work, error) {
	key := digestKey(parsed)
	first := u.firsts.of(key)
	if first == id {
		return nil, nil
	}
	if first != 0 {
		w, err := u.pages.get(first)
		if err != nil {
			return nil, err
		}
		if w != nil && w.first(parsed) {
			return w, nil
		}
	}
	u.firsts.changed[key] = id
	return nil, nil
}

// firsts is the digests bucket with the changes of an update.
type firsts struct {
	b       *bbolt.Bucket
	stage   *queue.Stage
	changed map[uint64]frontier.PageID
}

// of returns the page under a key, 0 if there is none.
func (f *firsts) of(key uint64) frontier.PageID {
	if first, ok := f.changed[key]; ok {
		return first
	}
	return f.stage.Digest(f.b, key)
}
