// Package queue is the queue of pages to fetch, in two buckets of state.db: ready, ordered by site, rank (high to
// low) and page; and waiting, ordered by time and page. Of a page it knows only the [frontier.Entry].
//
// Changes of both, and of three other buckets whose keys come in as random an order, are held back in a
// [Stage] until there are several for each page of the file.
package queue

import (
	"encoding/binary"
	"iter"
	"math"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// The buckets of the queue, and those that are staged with it.
var (
	Ready   = []byte("ready")   // site, rank, page -> at
	Waiting = []byte("waiting") // at, page -> site, rank
	Log     = []byte("log")     // number -> staged changes of the others
	Pages   = []byte("pages")   // page -> record
	Digests = []byte("digests") // start of a digest -> page
	Counts  = []byte("counts")  // site -> counts
)

const (
	readyLen   = 12
	waitingLen = 12
)

// rankKey orders ranks from high to low.
func rankKey(f float32) uint32 {
	v := math.Float32bits(f)
	if v>>31 != 0 {
		return v // below zero: greater bits mean a lower number
	}
	return ^(v | 1<<31)
}

func keyRank(k uint32) float32 {
	if k>>31 != 0 {
		return math.Float32frombits(k)
	}
	return math.Float32frombits(^k &^ (1 << 31))
}

// Sane replaces a rank that cannot be ordered by 0.
func Sane(f float32) float32 {
	if f != f || f == 0 { // NaN, or negative zero
		return 0
	}
	return f
}

func appendReady(b []byte, e frontier.Entry) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(e.Site))
	b = binary.BigEndian.AppendUint32(b, rankKey(e.Rank))
	return binary.BigEndian.AppendUint32(b, uint32(e.Page))
}

func readyValue(at int64) []byte {
	if at == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(at))
}

func parseReady(k, v []byte) (e frontier.Entry, ok bool) {
	if len(k) != readyLen || len(v) != 0 && len(v) != 8 {
		return e, false
	}
	e.Site = frontier.SiteID(binary.BigEndian.Uint32(k))
	e.Rank = keyRank(binary.BigEndian.Uint32(k[4:]))
	e.Page = frontier.PageID(binary.BigEndian.Uint32(k[8:]))
	if len(v) == 8 {
		e.At = int64(binary.BigEndian.Uint64(v))
	}
	return e, true
}

func appendWaiting(b []byte, e frontier.Entry) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.At))
	return binary.BigEndian.AppendUint32(b, uint32(e.Page))
}

func parseWaiting(k, v []byte) (e frontier.Entry, ok bool) {
	if len(k) != waitingLen || len(v) != 8 {
		return e, false
	}
	e.At = int64(binary.BigEndian.Uint64(k))
	e.Page = frontier.PageID(binary.BigEndian.Uint32(k[8:]))
	e.Site = frontier.SiteID(binary.BigEndian.Uint32(v))
	e.Rank = math.Float32frombits(binary.BigEndian.Uint32(v[4:]))
	return e, true
}

// Waits reports whether an entry is in the waiting bucket. The caller has called RLock.
func (s *Stage) Waits(tx *bbolt.Tx, e frontier.Entry) bool { return s.waits(tx.Bucket(Waiting), e) }

func (s *Stage) waits(waiting *bbolt.Bucket, e frontier.Entry) bool {
	if e.At <= 0 {
		return false
	}
	x := stagedOf(e, false)
	list := s.waiting.parts[s.waiting.part(&x)]
	if i, ok := s.waiting.find(list, &x); ok {
		return !list[i].gone
	}
	var key [waitingLen]byte
	return waiting.Get(appendWaiting(key[:0], e)) != nil
}

// Next returns when the next waiting entry is due, 0 if none waits. The caller has called RLock.
func (s *Stage) Next(tx *bbolt.Tx) (at int64, err error) {
	for e, err := range s.Later(tx, 0) {
		return e.At, err
	}
	return 0, nil
}

// Later yields the waiting entries that are due later than a time, 0 for all, in the order of their times. The caller has called RLock.
func (s *Stage) Later(tx *bbolt.Tx, than int64) iter.Seq2[frontier.Entry, error] {
	return func(yield func(frontier.Entry, error) bool) {
		first := staged{at: than + 1}
		cur := tx.Bucket(Waiting).Cursor()
		k, v := cur.Seek(appendWaiting(nil, first.entry()))
		// stored yields the entries of the bucket before an entry, and its own, which the staged one overrides, not at all.
		stored := func(before *staged) (more bool) {
			for ; k != nil; k, v = cur.Next() {
				e, ok := parseWaiting(k, v)
				if !ok {
					yield(e, record.Damaged(Waiting, k))
					return false
				}
				x := stagedOf(e, false)
				c := -1
				if before != nil {
					c = s.waiting.compare(&x, before)
				}
				if c > 0 {
					return true
				}
				if c < 0 && !yield(e, nil) {
					return false
				}
			}
			return true
		}
		for part := range s.waiting.from(s.waiting.part(&first), 0) {
			list := s.waiting.parts[part]
			i, _ := s.waiting.find(list, &first) // of all parts but the first 0
			list = list[i:]
			for i := range list {
				if x := &list[i]; !stored(x) || !x.gone && !yield(x.entry(), nil) {
					return
				}
			}
		}
		stored(nil)
	}
}

// Head returns the next n ready entries of a site after an entry, with those that are staged. The caller has
// called RLock.
func (s *Stage) Head(tx *bbolt.Tx, site frontier.SiteID, after frontier.Entry, n int) ([]frontier.Entry, error) {
	var list []frontier.Entry
	after.Site, after.Rank = site, Sane(after.Rank)
	held := s.ready.after(stagedOf(after, false))
	var buf [readyLen]byte
	from := record.SiteKey(site)
	if after.Page != 0 {
		from = appendReady(buf[:0], after)
	}
	cur := tx.Bucket(Ready).Cursor()
	k, v := cur.Seek(from)
	for len(list) < n {
		e, ok := frontier.Entry{}, false
		if k != nil {
			if e, ok = parseReady(k, v); !ok {
				return nil, record.Damaged(Ready, k)
			}
			ok = e.Site == site
		}
		if ok && e.Page == after.Page && e.Rank == after.Rank {
			k, v = cur.Next()
			continue
		}
		if !ok && len(held) == 0 {
			break
		}
		c := -1
		x := stagedOf(e, false)
		if !ok {
			c = 1
		} else if len(held) > 0 {
			c = s.ready.compare(&x, &held[0])
		}
		if c <= 0 {
			k, v = cur.Next()
		}
		if c >= 0 { // a staged entry overrides the bucket's
			x, held = held[0], held[1:]
		}
		if !x.gone {
			list = append(list, x.entry())
		}
	}
	return list, nil
}
