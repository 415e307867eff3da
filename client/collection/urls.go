package collection

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// blockLen is how many URLs share one record of the urls bucket. Pages are numbered in the order in which
// they were found, so that blocks are filled one after the other, and URLs found together, which have much
// in common, are neighbours.
const blockLen = 32

// A known is the permanent part of a page, stored for every URL: how it was found.
type known struct {
	id      frontier.PageID
	site    frontier.SiteID
	depth   int
	by      byte // signal code
	dynamic bool
	found   int64 // milliseconds
	rank    float32
	path    []byte // the URL without its origin
}

func blockKey(id frontier.PageID) [4]byte { return record.PageKey(id / blockLen) }

const (
	byMask   = 0x0f
	isDyn    = 0x10 // dynamic
	sameSite = 0x20 // same site as the one before
	sameRank = 0x40
)

// appendKnown appends k after prev, the one before it in the block.
func appendKnown(b []byte, prev, k *known) []byte {
	flags := k.by & byMask
	if k.dynamic {
		flags |= isDyn
	}
	if k.site == prev.site {
		flags |= sameSite
	}
	if k.rank == prev.rank {
		flags |= sameRank
	}
	b = append(b, flags)
	if flags&sameSite == 0 {
		b = binary.AppendUvarint(b, uint64(k.site))
	}
	if flags&sameRank == 0 {
		b = record.AppendFloat(b, k.rank)
	}
	b = binary.AppendUvarint(b, uint64(max(0, k.depth)))
	b = binary.AppendVarint(b, k.found-prev.found)
	n := 0
	for n < len(k.path) && n < len(prev.path) && k.path[n] == prev.path[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(k.path)-n))
	return append(b, k.path[n:]...)
}

// next reads the next known into k. The path is k's own memory.
func (k *known) next(d *record.Decoder) bool {
	if len(d.B) == 0 {
		return false
	}
	flags := d.Byte()
	k.by, k.dynamic = flags&byMask, flags&isDyn != 0
	if flags&sameSite == 0 {
		k.site = frontier.SiteID(d.Uint())
	}
	if flags&sameRank == 0 {
		k.rank = d.Float()
	}
	k.depth = d.Count()
	k.found += d.Int()
	n := d.Uint()
	if n > uint64(len(k.path)) {
		d.Fail()
		return false
	}
	k.path = append(k.path[:n], d.Bytes()...)
	k.id++
	if len(k.path) > protocol.MaxURL {
		d.Fail()
	}
	return !d.Bad
}

// A block is a record of the urls bucket that is being read.
type block struct {
	known
	d record.Decoder
}

// firstOf returns the number of the page before the first of a block.
func firstOf(key []byte) frontier.PageID {
	return max(record.KeyPage(key)*blockLen, 1) - 1
}

// open starts reading the block of a key. It reuses the memory of b.path.
func (b *block) open(key, raw []byte) error {
	body, ok := record.Unseal(key, raw)
	if !ok || len(key) != 4 {
		return record.Damaged(urlsBucket, key)
	}
	b.known = known{path: b.path[:0], id: firstOf(key)}
	b.d = record.Decoder{B: body}
	return nil
}

// seek reads up to the known of a page.
func (b *block) seek(urls *bbolt.Bucket, id frontier.PageID) (bool, error) {
	key := blockKey(id)
	raw := urls.Get(key[:])
	if raw == nil {
		return false, nil
	}
	if err := b.open(key[:], raw); err != nil {
		return false, err
	}
	for b.id < id {
		if !b.next(&b.d) {
			if b.d.Bad {
				return false, record.Damaged(urlsBucket, key[:])
			}
			return false, nil
		}
	}
	return true, nil
}

// loadURLs builds the set of known URLs from the file.
func (c *Collection) loadURLs(tx *bbolt.Tx) error {
	var (
		b   block
		url []byte
	)
	cur := tx.Bucket(urlsBucket).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if err := b.open(k, v); err != nil {
			return err
		}
		if b.id != c.last {
			return fmt.Errorf("state is %w: urls after %d are missing", ErrDamaged, c.last)
		}
		for b.next(&b.d) {
			if b.site == 0 || int(b.site) > len(c.sites) {
				return record.Damaged(urlsBucket, k)
			}
			url = append(append(url[:0], c.names[b.site-1]...), b.path...)
			c.seen.add(c.seen.hashBytes(url), b.id)
			c.last = b.id
		}
		if b.d.Bad {
			return record.Damaged(urlsBucket, k)
		}
	}
	return nil
}
