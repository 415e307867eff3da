package collection

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
)

// outgoingBucket has the URLs found of other partitions of the crawl until they are sent: number -> partition, depth, URL, and a line break before
// the next of the same transaction. It is made with the first of them.
var outgoingBucket = []byte("outgoing")

const (
	mostKept     = 1 << 20  // URLs remembered as kept or sent, so that a link on every page of a site is sent once
	mostOutgoing = 64 << 10 // bytes of a record, about
)

// keepFor keeps a URL for the crawler of another partition.
func (u *update) keepFor(f *Find) error {
	x := &u.c.index
	hash := x.urls.Hash(f.URL)
	if f.LogOnly || x.kept[hash] {
		return nil
	}
	if x.kept == nil || len(x.kept) >= mostKept {
		x.kept = map[uint64]bool{}
	}
	x.kept[hash] = true
	if len(u.outgoing) > 0 {
		u.outgoing = append(u.outgoing, '\n')
	}
	u.outgoing = binary.AppendUvarint(u.outgoing, uint64(f.Partition))
	u.outgoing = append(binary.AppendUvarint(u.outgoing, uint64(max(f.Depth, 0))), f.URL...)
	if len(u.outgoing) < mostOutgoing {
		return nil
	}
	return u.putOutgoing()
}

// putOutgoing writes the URLs that keepFor has kept since the last call.
func (u *update) putOutgoing() error {
	if len(u.outgoing) == 0 {
		return nil
	}
	b, err := u.tx.CreateBucketIfNotExists(outgoingBucket)
	if err != nil {
		return err
	}
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint64(nil, n)
	rec := u.outgoing
	u.outgoing = nil
	return b.Put(key, record.Seal(rec, key, 0))
}

// Outgoing returns the oldest URLs that are kept for the crawlers of other partitions, those of whole records until there are so many, and the
// number of the last record for Sent.
func Outgoing(c *Collection, most int) (finds []Find, last uint64, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		b := tx.Bucket(outgoingBucket)
		if b == nil {
			return nil
		}
		at := b.Cursor()
		for k, raw := at.First(); k != nil && len(finds) < most; k, raw = at.Next() {
			rec, ok := record.Unseal(k, raw)
			for more := true; more; {
				partition, n := binary.Uvarint(rec)
				if !ok || n <= 0 || len(k) != 8 {
					return record.Damaged(outgoingBucket, k)
				}
				depth, m := binary.Uvarint(rec[n:])
				if m <= 0 {
					return record.Damaged(outgoingBucket, k)
				}
				var url []byte
				url, rec, more = bytes.Cut(rec[n+m:], []byte{'\n'})
				finds = append(finds, Find{URL: string(url), Depth: int(depth), Partition: int(partition)})
			}
			last = binary.BigEndian.Uint64(k)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("read URLs for other partitions: %w", err)
	}
	return finds, last, err
}

// Sent forgets the URLs that Outgoing has returned up to a number.
func Sent(c *Collection, last uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.update(func(u *update) error {
		b := u.tx.Bucket(outgoingBucket)
		if b == nil {
			return nil
		}
		at := b.Cursor()
		for k, _ := at.First(); len(k) == 8 && binary.BigEndian.Uint64(k) <= last; k, _ = at.First() {
			if err := at.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget URLs that were sent: %w", err)
	}
	return nil
}
