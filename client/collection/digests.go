package collection

import (
	"encoding/binary"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// The digests bucket says which page had a parsed content first (P17). The key
// is the start of the content's digest; the page's own record has all of it. A
// page that has other content by now is found out when it is asked for, and
// replaced then. Bodies that are archived have entries of their own there, see twin.

func digestKey(d protocol.Digest) uint64 { return binary.BigEndian.Uint64(d[:]) }

// first reports whether others with a parsed content are duplicates of this page. One
// that redirects, or is refused by now, has no links that stand for theirs.
func (p *Page) first(parsed protocol.Digest) bool {
	return p.has() && (p.State == Held || p.State == Failing) && p.Parsed == parsed && p.Original == 0
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
	raw := u.c.stage.digests.get(key)
	if raw == nil {
		raw = u.digests.Get(appendDigestKey(nil, key))
	}
	if len(raw) != 4 {
		return 0
	}
	return keyPage(raw)
}
