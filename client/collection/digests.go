package collection

import (
	"encoding/binary"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// The digests bucket says which page had a parsed content first (P17). The key
// is the start of the content's digest; the page's own record has all of it. A
// page that has other content by now is found out when it is asked for, and
// replaced then.

func digestKey(d protocol.Digest) uint64 { return binary.BigEndian.Uint64(d[:]) }

// original returns the page that holds a parsed content and had it before page
// id; nil if there is none. From then on, id has it first.
func (u *update) original(parsed protocol.Digest, id frontier.PageID) (*work, error) {
	key := digestKey(parsed)
	first, ok := u.firsts[key]
	if !ok {
		raw := u.c.stage.digests.get(key)
		if raw == nil {
			raw = u.digests.Get(appendDigestKey(nil, key))
		}
		if len(raw) == 4 {
			first = keyPage(raw)
		}
	}
	if first == id {
		return nil, nil
	}
	if first != 0 {
		w, err := u.get(first)
		if err != nil {
			return nil, err
		}
		if w != nil && w.has() && w.Parsed == parsed && w.Original == 0 {
			return w, nil
		}
	}
	u.firsts[key] = id
	return nil, nil
}
