package queue

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// The log bucket holds, by number, the changes that transactions made to the staged buckets.

func appendPageKey(b []byte, key uint64) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(key))
}

func appendDigestKey(b []byte, key uint64) []byte { return binary.BigEndian.AppendUint64(b, key) }

// appendOps appends the number of operations and the operations, which are sorted by site.
func appendOps(b []byte, ops []op) []byte {
	b = binary.AppendUvarint(b, uint64(len(ops)))
	site := frontier.SiteID(0)
	for i := range ops {
		o := &ops[i]
		f := record.Flag(o.gone, 1) | record.Flag(o.e.At > 0, 2)
		b = binary.AppendUvarint(b, uint64(o.e.Site-site)<<2|f)
		site = o.e.Site
		b = record.AppendFloat(b, o.e.Rank)
		b = binary.AppendUvarint(b, uint64(o.e.Page))
		if f&2 != 0 {
			b = binary.AppendUvarint(b, uint64(o.e.At))
		}
	}
	return b
}

func parseOps(d *record.Decoder, f func(*op)) {
	var e frontier.Entry
	for n := d.Uint(); n > 0 && !d.Bad; n-- {
		flags := d.Uint()
		e.Site += frontier.SiteID(flags >> 2)
		e.Rank, e.Page, e.At = Sane(d.Float()), frontier.PageID(d.Uint()), 0
		if flags&2 != 0 {
			e.At = int64(d.Uint())
		}
		if !d.Bad {
			f(&op{e: e, gone: flags&1 != 0})
		}
	}
}

func appendRows(b []byte, list []row) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, x := range list {
		b = append(binary.AppendUvarint(binary.AppendUvarint(b, x.key), uint64(len(x.value))), x.value...)
	}
	return b
}

func parseRows(d *record.Decoder, f func(row)) {
	for n := d.Uint(); n > 0 && !d.Bad; n-- {
		if x := (row{d.Uint(), d.Bytes()}); !d.Bad {
			f(x)
		}
	}
}

// Load makes the stage from the log. For each key the last change counts; it may have been merged
// already, which does not matter.
func (s *Stage) Load(tx *bbolt.Tx) error {
	last := map[frontier.SiteID]map[[2]uint32]staged{}
	var prev uint64
	err := tx.Bucket(Log).ForEach(func(k, v []byte) error {
		body, ok := record.Unseal(k, v)
		if !ok || len(k) != 8 || binary.BigEndian.Uint64(k) <= prev {
			return record.Damaged(Log, k)
		}
		if prev == 0 {
			s.hands.first = binary.BigEndian.Uint64(k)
		}
		prev = binary.BigEndian.Uint64(k)
		d := &record.Decoder{B: body}
		parseOps(d, func(o *op) {
			x := stagedOf(o)
			x.over = true
			if last[o.e.Site] == nil {
				last[o.e.Site] = map[[2]uint32]staged{}
			}
			last[o.e.Site][[2]uint32{x.rank, x.page}] = x
		})
		parseRows(d, func(x row) { s.pages.put([]row{{x.key, bytes.Clone(x.value)}}) })
		parseRows(d, func(x row) { s.digests.put([]row{{x.key, bytes.Clone(x.value)}}) })
		if d.Bad || len(d.B) > 0 {
			return record.Damaged(Log, k)
		}
		s.hands.logged += len(v)
		return nil
	})
	if err != nil {
		return err
	}
	s.seq = prev + 1
	if prev == 0 {
		s.hands.first = 1
	}
	for site, set := range last {
		s.sites[site] = slices.SortedFunc(maps.Values(set), func(a, b staged) int { return a.compare(&b) })
		s.n += len(set)
	}
	return nil
}
