// Package urls is the index of a collection's URLs: a set of their hashes in memory, and in the state blocks of 32
// URLs, each without the prefix that it shares with the one before.
package urls

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// Bucket is the bucket of state.db with the blocks: block number -> known URLs.
var Bucket = []byte("urls")

// BlockLen is how many URLs share one record of the urls bucket. Pages are numbered in the order in which
// they were found, so that blocks are filled one after the other, and URLs found together, which have much
// in common, are neighbours.
const BlockLen = 32

// A Known is the permanent part of a page, stored for every URL: how it was found.
type Known struct {
	ID      frontier.PageID
	Site    frontier.SiteID
	Depth   int
	By      byte // signal code
	Dynamic bool
	Found   int64 // milliseconds
	Rank    float32
	Path    []byte // the URL without its origin
}

func blockKey(id frontier.PageID) [4]byte { return record.PageKey(id / BlockLen) }

const (
	byMask   = 0x0f
	isDyn    = 0x10 // dynamic
	sameSite = 0x20 // same site as the one before
	sameRank = 0x40
)

// appendKnown appends k after prev, the one before it in the block.
func appendKnown(b []byte, prev, k *Known) []byte {
	flags := k.By & byMask
	if k.Dynamic {
		flags |= isDyn
	}
	if k.Site == prev.Site {
		flags |= sameSite
	}
	if k.Rank == prev.Rank {
		flags |= sameRank
	}
	b = append(b, flags)
	if flags&sameSite == 0 {
		b = binary.AppendUvarint(b, uint64(k.Site))
	}
	if flags&sameRank == 0 {
		b = record.AppendFloat(b, k.Rank)
	}
	b = binary.AppendUvarint(b, uint64(max(0, k.Depth)))
	b = binary.AppendVarint(b, k.Found-prev.Found)
	n := 0
	for n < len(k.Path) && n < len(prev.Path) && k.Path[n] == prev.Path[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(k.Path)-n))
	return append(b, k.Path[n:]...)
}

// next reads the next known into k. The path is k's own memory.
func (k *Known) next(d *record.Decoder) bool {
	if len(d.B) == 0 {
		return false
	}
	flags := d.Byte()
	k.By, k.Dynamic = flags&byMask, flags&isDyn != 0
	if flags&sameSite == 0 {
		k.Site = frontier.SiteID(d.Uint())
	}
	if flags&sameRank == 0 {
		k.Rank = d.Float()
	}
	k.Depth = d.Count()
	k.Found += d.Int()
	n := d.Uint()
	if n > uint64(len(k.Path)) {
		d.Fail()
		return false
	}
	k.Path = append(k.Path[:n], d.Bytes()...)
	k.ID++
	if len(k.Path) > protocol.MaxURL {
		d.Fail()
	}
	return !d.Bad
}

// A Block is a record of the bucket that is being read, and the Known that was read last. It is for one goroutine.
type Block struct {
	Known
	d record.Decoder
}

// Damaged returns the error for a Known that makes no sense.
func (b *Block) Damaged() error {
	key := blockKey(b.ID)
	return record.Damaged(Bucket, key[:])
}

// open starts reading the block of a key. It reuses the memory of b.Path.
func (b *Block) open(key, raw []byte) error {
	body, ok := record.Unseal(key, raw)
	if !ok || len(key) != 4 {
		return record.Damaged(Bucket, key)
	}
	b.Known = Known{Path: b.Path[:0], ID: max(record.KeyPage(key)*BlockLen, 1) - 1} // the page before the first
	b.d = record.Decoder{B: body}
	return nil
}

// Seek reads up to the Known of a page, and reports whether there is one. It goes on from the one before if that is in the same block.
func (b *Block) Seek(urls *bbolt.Bucket, id frontier.PageID) (bool, error) {
	key := blockKey(id)
	if b.ID == 0 || b.ID > id || b.d.Bad || blockKey(b.ID) != key {
		raw := urls.Get(key[:])
		if raw == nil {
			return false, nil
		}
		if err := b.open(key[:], raw); err != nil {
			return false, err
		}
	}
	for b.ID < id {
		if !b.next(&b.d) {
			if b.d.Bad {
				return false, record.Damaged(Bucket, key[:])
			}
			return false, nil
		}
	}
	return true, nil
}

// From reads the Knowns from a page on, and calls f after each, until it returns false or an error.
func (b *Block) From(urls *bbolt.Bucket, id frontier.PageID, f func() (more bool, err error)) error {
	key := blockKey(id)
	cur := urls.Cursor()
	for k, raw := cur.Seek(key[:]); k != nil; k, raw = cur.Next() {
		if err := b.open(k, raw); err != nil {
			return err
		}
		for b.next(&b.d) {
			if b.ID < id {
				continue
			}
			if more, err := f(); err != nil || !more {
				return err
			}
		}
		if b.d.Bad {
			return record.Damaged(Bucket, k)
		}
	}
	return nil
}

// Find reads up to the Known of a URL, and reports whether there is one. The origins are those of the sites, by
// ID - 1.
func (b *Block) Find(urls *bbolt.Bucket, set *Set, hash uint64, url string, origins []string) (bool, error) {
	var buf [4]frontier.PageID
	for _, id := range set.Find(buf[:0], hash) {
		ok, err := b.Seek(urls, id)
		if err != nil {
			return false, err
		}
		if !ok || b.Site == 0 || int(b.Site) > len(origins) {
			continue
		}
		origin := origins[b.Site-1]
		if len(url) == len(origin)+len(b.Path) && url[:len(origin)] == origin && url[len(origin):] == string(b.Path) {
			return true, nil
		}
	}
	return false, nil
}

// Load adds all URLs to a set, calls each for them unless that is nil, and returns the last page.
func Load(urls *bbolt.Bucket, origins []string, to *Set, each func(url string)) (last frontier.PageID, err error) {
	var b Block
	var url []byte
	err = b.From(urls, 0, func() (bool, error) {
		if b.ID != last+1 {
			return false, fmt.Errorf("state is %w: urls after %d are missing", boltfile.ErrDamaged, last)
		}
		if b.Site == 0 || int(b.Site) > len(origins) {
			return false, b.Damaged()
		}
		url = append(append(url[:0], origins[b.Site-1]...), b.Path...)
		to.Add(to.hashBytes(url), b.ID)
		if each != nil {
			each(string(url))
		}
		last = b.ID
		return true, nil
	})
	return last, err
}

// Append appends the URLs of new pages, which are in the order of their numbers.
func Append(urls *bbolt.Bucket, list []Known) error {
	if len(list) == 0 {
		return nil
	}
	urls.FillPercent = 1
	var prev Known
	var b []byte
	key := blockKey(list[0].ID)
	if raw := urls.Get(key[:]); raw != nil {
		var last Block
		if err := last.open(key[:], raw); err != nil {
			return err
		}
		for last.next(&last.d) {
		}
		if last.d.Bad || last.ID != list[0].ID-1 {
			return record.Damaged(Bucket, key[:])
		}
		prev = last.Known
		body, _ := record.Unseal(key[:], raw)
		b = append(make([]byte, 0, 2048), body...)
	}
	for i := range list {
		if k := blockKey(list[i].ID); k != key {
			if err := urls.Put(key[:], record.Seal(b, key[:], 0)); err != nil {
				return err
			}
			b, prev, key = make([]byte, 0, 2048), Known{}, k
		}
		b = appendKnown(b, &prev, &list[i])
		prev = list[i]
	}
	return urls.Put(key[:], record.Seal(b, key[:], 0))
}
