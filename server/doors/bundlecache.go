package doors

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
)

// bundleCacheBytes bounds the cache of packed parts.
const bundleCacheBytes = 16 << 20

// A partKey hashes the inputs of a part of a bundle.
type partKey [32]byte

// keyOf returns the key of a part: its changes with their metadata, and which of
// their pages are to be left out because the reader has them.
func keyOf(p *pack, changes []protocol.Change, c bundle.Coding) partKey {
	h := sha256.New()
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(string(c))
	text(p.to.Epoch)
	for i := range changes {
		c := &changes[i]
		it := &c.Item
		b = binary.AppendUvarint(b, c.Seq)
		b = binary.AppendVarint(b, c.At.UnixMilli())
		b = binary.AppendVarint(b, it.Modified.UnixMilli())
		b = binary.AppendVarint(b, int64(it.Span))
		b = binary.AppendVarint(b, it.Length)
		b = binary.AppendUvarint(b, uint64(c.Significance))
		b = binary.AppendUvarint(b, uint64(it.Importance))
		b = append(append(append(b, it.Digest[:]...), it.Text[:]...), c.Prev[:]...)
		for _, s := range []string{string(c.Op), it.URL, it.Type, it.Language, it.Canonical} {
			text(s)
		}
		held := byte(0)
		if p.held[it.URL] == it.Digest {
			held = 1
		}
		b = append(b, held)
		h.Write(b)
		b = b[:0]
	}
	return partKey(h.Sum(nil))
}

// A bundleCache caches parts of recently requested bundles. A caller of get must check
// that the pages of the part are still present: see bundles.present. The zero
// bundleCache is ready to use, by many goroutines at once.
type bundleCache struct {
	mu    sync.Mutex
	byKey map[partKey]*list.Element
	order list.List // of cachedPart, the latest first
	bytes int
}

type cachedPart struct {
	key  partKey
	part packed
}

func (c *bundleCache) get(key partKey) (packed, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return packed{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(cachedPart).part, true
}

func (c *bundleCache) put(key partKey, p packed) {
	if len(p.records) > bundleCacheBytes/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.byKey[key]; twice {
		return
	}
	if c.byKey == nil {
		c.byKey = make(map[partKey]*list.Element)
	}
	c.byKey[key] = c.order.PushFront(cachedPart{key, p})
	c.bytes += len(p.records)
	for c.bytes > bundleCacheBytes {
		c.remove(c.order.Back())
	}
}

// drop removes a part: a page in it was withdrawn, or has changed.
func (c *bundleCache) drop(key partKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.remove(e)
	}
}

// forget removes all parts.
func (c *bundleCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.remove(c.order.Back())
	}
}

// remove removes a part. mu is held.
func (c *bundleCache) remove(e *list.Element) {
	old := c.order.Remove(e).(cachedPart)
	delete(c.byKey, old.key)
	c.bytes -= len(old.part.records)
}
