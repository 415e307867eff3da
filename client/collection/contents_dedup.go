package collection

import (
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/protocol"
)

// A body in the archive is not stored again, whatever URL brings it: a revisit record refers to it. The
// digests bucket names a page with that body: by the parsed digest, whose entry exists anyway, or, if
// nothing was parsed or the bodies differ though the parsed content is equal, by the digest of the body, an
// entry of 12 bytes. That page's record has the place of the body. The bucket remembers one page per digest.

// twin returns another page whose stored body equals that of the visit, nil if none is known.
func (x *visiting) twin() (*work, error) {
	u, v, id := x.u, x.v, x.was.ID
	if len(v.Body) == 0 || v.Cut {
		return nil, nil
	}
	if !v.Parsed.IsZero() {
		w, err := u.original(v.Parsed, id)
		if err != nil || w == nil {
			return nil, err
		}
		if w.holds(v.Digest) {
			return w, nil
		}
	}
	key := digestKey(v.Digest)
	first := u.firsts.of(key)
	if first == id {
		return nil, nil
	}
	if first != 0 {
		if w, err := u.pages.get(first); err != nil || w != nil && w.holds(v.Digest) {
			return w, err
		}
	}
	u.firsts.changed[key] = id
	return nil, nil
}

// holds reports whether the body is the page's, and in the archive.
func (p *Page) holds(body protocol.Digest) bool {
	_, ok := contents.Archived(p.Stored)
	return ok && p.Digest == body
}
