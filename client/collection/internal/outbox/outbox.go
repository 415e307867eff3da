// Package outbox keeps the URLs that a crawl has found of its other partitions, until they are sent.
package outbox

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/partition"
)

// bucket has a record for each transaction with such URLs: number -> partition, depth, URL, and a line break before the next one. It is made
// with the first of them.
var bucket = []byte("outgoing")

// mostKept bounds how many URLs are remembered.
const mostKept = 1 << 20

// A Box is what the writer remembers of the URLs. After a failed transaction, replace it by an empty one.
type Box struct {
	kept map[uint64]bool // hashes of the URLs, also of those that were sent, so that a link on every page of a site is sent once
	new  []byte          // what Flush will write
}

// Keep keeps a URL, if it is not remembered.
func (x *Box) Keep(hash uint64, f partition.Find) {
	if x.kept[hash] {
		return
	}
	if x.kept == nil || len(x.kept) >= mostKept {
		x.kept = map[uint64]bool{}
	}
	if x.kept[hash] = true; len(x.new) > 0 {
		x.new = append(x.new, '\n')
	}
	x.new = binary.AppendUvarint(binary.AppendUvarint(x.new, uint64(f.Partition)), uint64(max(f.Depth, 0)))
	x.new = append(x.new, f.URL...)
}

// Flush writes the URLs that were kept since the last call.
func (x *Box) Flush(tx *bbolt.Tx) error {
	if len(x.new) == 0 {
		return nil
	}
	b, err := tx.CreateBucketIfNotExists(bucket)
	if err != nil {
		return err
	}
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint64(nil, n)
	rec := record.Seal(x.new, key, 0)
	x.new = nil
	return b.Put(key, rec)
}

// List returns whole records, the oldest first, until they have at least so many URLs, and the number of the last record.
func List(tx *bbolt.Tx, most int) (finds []partition.Find, last uint64, err error) {
	b := tx.Bucket(bucket)
	if b == nil {
		return nil, 0, nil
	}
	at := b.Cursor()
	for k, raw := at.First(); k != nil && len(finds) < most; k, raw = at.Next() {
		rec, ok := record.Unseal(k, raw)
		for more := true; more; {
			number, n := binary.Uvarint(rec)
			if !ok || n <= 0 || len(k) != 8 {
				return nil, 0, record.Damaged(bucket, k)
			}
			depth, m := binary.Uvarint(rec[n:])
			if m <= 0 {
				return nil, 0, record.Damaged(bucket, k)
			}
			var url []byte
			url, rec, more = bytes.Cut(rec[n+m:], []byte{'\n'})
			finds = append(finds, partition.Find{Partition: int(number), URL: string(url), Depth: int(depth)})
		}
		last = binary.BigEndian.Uint64(k)
	}
	return finds, last, nil
}

// Drop removes the records up to a number.
func Drop(tx *bbolt.Tx, last uint64) error {
	b := tx.Bucket(bucket)
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
}
