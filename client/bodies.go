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

// A decoder gets the pages out of the bodies of messages: checked, bounded, with deltas applied.
type decoder struct {
	src         *Source            // Held, MaxPage
	recent      map[string]version // by URL: bases of deltas that may follow
	recentBytes int
}

// A version is a page that has just come: the next message may hold a delta against it.
type version struct {
	digest protocol.Digest
	bytes  []byte
}

// remember keeps a page as the base of deltas that may follow.
func (d *decoder) remember(url string, v version) {
	if d.recentBytes += len(v.bytes); d.recentBytes > mostRecent {
		clear(d.recent)
		d.recentBytes = len(v.bytes)
	}
	if len(v.bytes) > mostRecent {
		d.recentBytes = 0
		return
	}
	if d.recent == nil {
		d.recent = map[string]version{}
	}
	d.recentBytes -= len(d.recent[url].bytes)
	d.recent[url] = v
}

// held returns a version of a page that the caller has stored, or that has just come.
func (d *decoder) held(url string, digest protocol.Digest) ([]byte, bool) {
	if v, ok := d.recent[url]; ok && v.digest == digest {
		return v.bytes, true
	}
	if d.src.Held == nil || url == "" {
		return nil, false
	}
	b, err := d.src.Held(url, digest)
	return b, err == nil
}

// decode returns the pages, checked, and the agent outputs that came with changes. A body that cannot be
// decoded is nil, and so is a list without any.
func (d *decoder) decode(changes []protocol.Change, bodies []protocol.Body) (pages, outputs [][]byte) {
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
		page := d.page(c, b, left)
		if page == nil {
			continue
		}
		left -= int64(len(page))
		if pages == nil {
			pages = make([][]byte, len(changes))
		}
		pages[i] = page
		d.remember(c.Item.URL, version{c.Item.Digest, page})
	}
	return pages, outputs
}

// page returns the page that a body encodes, or nil if it does not match its digest, its bounds or a stored
// base.
func (d *decoder) page(c *protocol.Change, b *protocol.Body, left int64) []byte {
	if c.Item.Digest.IsZero() {
		return nil
	}
	page, most := b.Bytes, min(left, d.src.MaxPage)
	switch b.Coding {
	case "":
		if int64(len(page)) > most {
			return nil
		}
	case protocol.CodingDelta:
		base, ok := d.held(c.Item.URL, b.Base)
		if !ok {
			if base, ok = d.held(c.From, b.Base); !ok {
				return nil
			}
		}
		if c.Item.Length >= 0 {
			most = min(most, c.Item.Length)
		}
		var err error
		if page, err = coding.ApplyDelta(base, b.Bytes, most); err != nil {
			d.src.Log.Debug("cannot apply delta", "url", c.Item.URL, "err", err)
			return nil
		}
	default:
		return nil
	}
	if protocol.Sum(page) != c.Item.Digest {
		d.src.Log.Warn("page differs from its published digest", "url", c.Item.URL)
		return nil
	}
	return page
}
