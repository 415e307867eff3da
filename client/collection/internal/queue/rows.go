package queue

import (
	"maps"
	"slices"

	"go.etcd.io/bbolt"
)

// rows are staged records of a bucket, see stage, in parts of neighbouring keys.
type rows struct {
	parts map[uint64]map[uint64][]byte
	shift uint // a key without its last shift bits is the number of its part
	n     int
	size  int // bytes of the records
}

// A row is one record to be written.
type row struct {
	key   uint64
	value []byte // not to be changed
}

const fullPart = 512 // records of a part: this many share the pages of the file, and are merged at once

// get returns a record, nil if it is not staged.
func (r *rows) get(key uint64) []byte { return r.parts[key>>r.shift][key] }

func (r *rows) put(list []row) {
	for _, x := range list {
		part := r.parts[x.key>>r.shift]
		if part == nil {
			if r.parts == nil {
				r.parts = map[uint64]map[uint64][]byte{}
			}
			part = map[uint64][]byte{}
			r.parts[x.key>>r.shift] = part
		}
		if old, ok := part[x.key]; ok {
			r.size -= len(old)
		} else {
			r.n++
		}
		r.size += len(x.value)
		part[x.key] = x.value
	}
}

func (r *rows) drop(parts []uint64) {
	for _, p := range parts {
		for _, v := range r.parts[p] {
			r.n--
			r.size -= len(v)
		}
		delete(r.parts, p)
	}
}

// merge writes parts that have been staged long enough, or are full, into their bucket, and returns their
// numbers. list is the next records to stage; last is the greatest possible part.
func (r *rows) merge(b *bbolt.Bucket, appendKey func([]byte, uint64) []byte, list []row, hand *lap, last, seq uint64, over, hurry bool) ([]uint64, error) {
	var merged []uint64
	for _, x := range list {
		if p := x.key >> r.shift; len(r.parts[p]) >= fullPart && (len(merged) == 0 || merged[len(merged)-1] != p) {
			merged = append(merged, p)
		}
	}
	if over || hurry {
		quota := quota(r.n, len(list), hurry)
		for ; quota > 0 && hand.at <= last; hand.at++ {
			if n := len(r.parts[hand.at]); n > 0 {
				merged = append(merged, hand.at)
				quota -= n
			}
		}
		if hand.at > last {
			hand.round(seq)
		}
	}
	slices.Sort(merged)
	merged = slices.Compact(merged)
	for _, p := range merged {
		part := r.parts[p]
		for _, key := range slices.Sorted(maps.Keys(part)) {
			if err := b.Put(appendKey(nil, key), part[key]); err != nil {
				return nil, err
			}
		}
	}
	return merged, nil
}
