package client

import (
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

const (
	defaultMaxPage = 16 << 20
	mostBodies     = 64 << 20 // total bytes of pages that one message may expand to
	mostRecent     = 8 << 20  // bytes of recent pages kept as bases of deltas
)

// A version is a page that has just come: the next message may hold a delta against it.
type version struct {
	digest protocol.Digest
	bytes  []byte
}

// remember keeps a page as the base of deltas that may follow.
func (f *follower) remember(url string, v version) {
	if f.recentBytes += len(v.bytes); f.recentBytes > mostRecent {
		clear(f.recent)
		f.recentBytes = len(v.bytes)
	}
	if len(v.bytes) > mostRecent {
		f.recentBytes = 0
		return
	}
	if f.recent == nil {
		f.recent = map[string]version{}
	}
	f.recentBytes -= len(f.recent[url].bytes)
	f.recent[url] = v
}

// held returns a version of a page that the caller has stored, or that has just come.
func (f *follower) held(url string, d protocol.Digest) ([]byte, bool) {
	if v, ok := f.recent[url]; ok && v.digest == d {
		return v.bytes, true
	}
	if f.src.Held == nil || url == "" {
		return nil, false
	}
	b, err := f.src.Held(url, d)
	return b, err == nil
}

// decode returns the pages, checked, and the agent outputs that came with changes. A body that cannot be
// decoded is nil, and so is a list without any.
func (f *follower) decode(changes []protocol.Change, bodies []protocol.Body) (pages, outputs [][]byte) {
	left := int64(mostBodies)
	for i := range bodies {
		c, b := &changes[i], &bodies[i]
		if b.Bytes == nil || c.Op == protocol.Delete {
			continue
		}
		if b.Coding == protocol.CodingAgent {
			if outputs == nil {
				outputs = make([][]byte, len(changes))
			}
			outputs[i] = b.Bytes
			continue
		}
		page := f.page(c, b, left)
		if page == nil {
			continue
		}
		left -= int64(len(page))
		if pages == nil {
			pages = make([][]byte, len(changes))
		}
		pages[i] = page
		f.remember(c.Item.URL, version{c.Item.Digest, page})
	}
	return pages, outputs
}

// page returns the page that a body encodes, or nil if it does not match its digest, its bounds or a stored
// base.
func (f *follower) page(c *protocol.Change, b *protocol.Body, left int64) []byte {
	if c.Item.Digest.IsZero() {
		return nil
	}
	page := b.Bytes
	switch b.Coding {
	case "":
		if int64(len(page)) > min(left, f.src.MaxPage) {
			return nil
		}
	case protocol.CodingDelta:
		base, ok := f.held(c.Item.URL, b.Base)
		if !ok {
			if base, ok = f.held(c.From, b.Base); !ok {
				return nil
			}
		}
		most := min(left, f.src.MaxPage)
		if c.Item.Length >= 0 {
			most = min(most, c.Item.Length)
		}
		var err error
		if page, err = coding.ApplyDelta(base, b.Bytes, most); err != nil {
			f.src.Log.Debug("cannot apply delta", "url", c.Item.URL, "err", err)
			return nil
		}
	default:
		return nil
	}
	if protocol.Sum(page) != c.Item.Digest {
		f.src.Log.Warn("page differs from its published digest", "url", c.Item.URL)
		return nil
	}
	return page
}
