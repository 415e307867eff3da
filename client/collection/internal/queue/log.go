package queue

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// The log bucket holds, by number, the changes that transactions made to the staged buckets. A record is stored in pieces: bbolt
// does not divide a page of up to four values, however long, so that each record would be written again with the next three. Two
// pieces are just below the size of a page of the file, or of eight.
const logPiece = 16<<10 - 64

// logKey returns the key of a piece of a record; of the first it is the number alone, as in earlier versions, whose records are whole.
func logKey(seq uint64, piece int) []byte {
	key := binary.BigEndian.AppendUint64(nil, seq)
	if piece > 0 {
		key = binary.BigEndian.AppendUint32(key, uint32(piece))
	}
	return key
}

func appendPageKey(b []byte, key uint64) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(key))
}

func appendDigestKey(b []byte, key uint64) []byte { return binary.BigEndian.AppendUint64(b, key) }

// appendOps appends the number of operations and the operations. It is shortest if they are sorted by site.
func appendOps(b []byte, ops []staged) []byte {
	b = binary.AppendUvarint(b, uint64(len(ops)))
	site := frontier.SiteID(0)
	for i := range ops {
		o := &ops[i]
		f := record.Flag(o.gone, 1) | record.Flag(o.at > 0, 2)
		b = binary.AppendUvarint(b, uint64(o.site-site)<<2|f)
		site = o.site
		b = record.AppendFloat(b, keyRank(o.rank))
		b = binary.AppendUvarint(b, uint64(o.page))
		if f&2 != 0 {
			b = binary.AppendUvarint(b, uint64(o.at))
		}
	}
	return b
}

func parseOps(d *record.Decoder, f func(staged)) {
	var e frontier.Entry
	for n := d.Uint(); n > 0 && !d.Bad; n-- {
		flags := d.Uint()
		e.Site += frontier.SiteID(flags >> 2)
		e.Rank, e.Page, e.At = Sane(d.Float()), frontier.PageID(d.Uint()), 0
		if flags&2 != 0 {
			e.At = int64(d.Uint())
		}
		if !d.Bad {
			f(stagedOf(e, flags&1 != 0))
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
	var prev uint64
	cur := tx.Bucket(Log).Cursor()
	for k, v := cur.First(); k != nil; {
		key, raw := k, v
		if len(key) != 8 || binary.BigEndian.Uint64(key) <= prev {
			return record.Damaged(Log, key)
		}
		for k, v = cur.Next(); len(k) > 8 && bytes.HasPrefix(k, key); k, v = cur.Next() {
			raw = append(raw[:len(raw):len(raw)], v...)
		}
		body, ok := record.Unseal(key, raw)
		if !ok {
			return record.Damaged(Log, key)
		}
		if prev == 0 {
			s.hands.first = binary.BigEndian.Uint64(key)
		}
		prev = binary.BigEndian.Uint64(key)
		d := &record.Decoder{B: body}
		ops := func(to *entries) {
			var list []staged
			parseOps(d, func(x staged) {
				x.over = true
				list = append(list, x)
			})
			to.sort(list)
			to.put(list)
		}
		rows := func(to *rows) {
			parseRows(d, func(x row) { to.put([]row{{x.key, bytes.Clone(x.value)}}) })
		}
		ops(&s.ready)
		rows(&s.pages)
		rows(&s.digests)
		if len(d.B) > 0 { // earlier versions did not stage these
			ops(&s.waiting)
			rows(&s.counts)
		}
		if d.Bad || len(d.B) > 0 {
			return record.Damaged(Log, key)
		}
		s.hands.logged += len(raw)
	}
	s.seq = prev + 1
	if prev == 0 {
		s.hands.first = 1
	}
	return nil
}
