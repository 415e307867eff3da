package collection

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// The digests bucket says which page had a parsed content first (P17). The key
// is the start of the content's digest; the page's own record has all of it. A
// page that has other content by now is found out when it is asked for, and
// replaced then. Bodies that are archived have entries of their own there, see twin, and
// so have those of pages of which a site has told the digest, see Holder.

func digestKey(d protocol.Digest) uint64 { return binary.BigEndian.Uint64(d[:]) }

// first reports whether others with a parsed content are duplicates of this page. One
// that redirects, or is refused by now, has no links that stand for theirs.
func (p *Page) first(parsed protocol.Digest) bool {
	return p.has() && (p.State == Held || p.State == Failing) && p.Parsed == parsed && p.Original == 0
}

// siteKeyOf is the key of a body that pages of a site have by that site's own word.
func siteKeyOf(site frontier.SiteID, d protocol.Digest) uint64 {
	return digestKey(d) ^ uint64(site)*0x9e3779b97f4a7c15
}

// sharable reports whether the body of a page is one that others of its site may have too: it is stored,
// whole, and the same for everybody who asks.
func (p *Page) sharable(site frontier.SiteID, d protocol.Digest) bool {
	return p.Site == site && p.State == Held && p.Digest == d && !p.Cut && p.Unstable == Stable && p.Stored.File != ""
}

// Holder returns a page of a site that holds the body with a digest, whole and as the site said, and false if
// none is known: of pages whose digests nobody told there is no record.
func (c *Collection) Holder(site frontier.SiteID, d protocol.Digest) (p Page, ok bool, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		id := c.firstOf(tx.Bucket(digestsBucket), siteKeyOf(site, d))
		ok, err = c.view(tx).page(id, &p)
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read holder of %s: %w", d, err)
	}
	return p, ok && p.sharable(site, d), nil
}

// holds notes that a page has the body that its site says, for others that will have it too.
func (u *update) holds(w *work) error {
	if !w.sharable(w.Site, w.Digest) || w.Length == 0 {
		return nil
	}
	key := siteKeyOf(w.Site, w.Digest)
	switch first := u.firstOf(key); first {
	case w.ID:
		return nil
	case 0:
	default:
		if o, err := u.get(first); err != nil || o != nil && o.sharable(w.Site, w.Digest) {
			return err
		}
	}
	u.firsts[key] = w.ID
	return nil
}

// Original returns the page of which p is a duplicate. It is false if p is none, or
// is one no more: its original is gone, or has other content. Then nobody has read the
// links of p: to have them read, ask for it unconditionally.
func (c *Collection) Original(p *Page) (o Page, ok bool, err error) {
	if p.Original == 0 {
		return Page{}, false, nil
	}
	if o, ok, err = c.PageByID(p.Original); err != nil || !ok || !o.first(p.Parsed) {
		return Page{}, false, err
	}
	return o, true, nil
}

// original returns the page that holds a parsed content and had it before page
// id; nil if there is none. From then on, id has it first.
func (u *update) original(parsed protocol.Digest, id frontier.PageID) (*work, error) {
	key := digestKey(parsed)
	first := u.firstOf(key)
	if first == id {
		return nil, nil
	}
	if first != 0 {
		w, err := u.get(first)
		if err != nil {
			return nil, err
		}
		if w != nil && w.first(parsed) {
			return w, nil
		}
	}
	u.firsts[key] = id
	return nil, nil
}

// firstOf returns the page that the digests bucket has by a key, 0 if there is none.
func (u *update) firstOf(key uint64) frontier.PageID {
	if first, ok := u.firsts[key]; ok {
		return first
	}
	return u.c.firstOf(u.digests, key)
}

func (c *Collection) firstOf(digests *bbolt.Bucket, key uint64) frontier.PageID {
	raw := c.stage.digests.get(key)
	if raw == nil {
		raw = digests.Get(appendDigestKey(nil, key))
	}
	if len(raw) != 4 {
		return 0
	}
	return keyPage(raw)
}
