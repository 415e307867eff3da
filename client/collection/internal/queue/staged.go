package queue

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// entries are staged changes of one of the two buckets of the queue, in parts of neighbouring keys, each in the order of the keys.
type entries struct {
	parts  map[uint64][]staged
	n      int
	byTime bool     // of the waiting bucket
	order  []uint64 // its parts; sorting them whenever somebody asks when the next entry is due took longer than the rest of the answer
}

// A staged is an entry that is not in the bucket yet, or, with gone, one to be removed from it.
type staged struct {
	at   int64
	site frontier.SiteID
	rank uint32 // rankKey
	page uint32
	gone bool
	over bool // the bucket may have an entry of that key too
}

const (
	bigPart  = 4096 // staged entries of a part that are merged at once
	timePart = 20   // a part of the waiting bucket is 2^timePart milliseconds, about 17 minutes
)

func stagedOf(e frontier.Entry, gone bool) staged {
	return staged{at: e.At, site: e.Site, rank: rankKey(e.Rank), page: uint32(e.Page), gone: gone}
}

func (x *staged) entry() frontier.Entry {
	return frontier.Entry{Page: frontier.PageID(x.page), Site: x.site, Rank: keyRank(x.rank), At: x.at}
}

// part returns the part of an entry, which is never 0.
func (s *entries) part(x *staged) uint64 {
	if s.byTime {
		return uint64(x.at)>>timePart + 1
	}
	return uint64(x.site)
}

// compare compares the keys of two entries of a part.
func (s *entries) compare(a, b *staged) int {
	if s.byTime {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.page, b.page))
	}
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.page, b.page))
}

// sort sorts operations by key. Where an entry keeps its key, its removal comes before its addition.
func (s *entries) sort(ops []staged) {
	slices.SortFunc(ops, func(a, b staged) int {
		if c := cmp.Or(cmp.Compare(s.part(&a), s.part(&b)), s.compare(&a, &b)); c != 0 || a.gone == b.gone {
			return c
		}
		if a.gone {
			return -1
		}
		return 1
	})
}

// byPart calls f with the operations of each part; they are sorted.
func (s *entries) byPart(ops []staged, f func(part uint64, ops []staged)) {
	for len(ops) > 0 {
		part, n := s.part(&ops[0]), 1
		for n < len(ops) && s.part(&ops[n]) == part {
			n++
		}
		f(part, ops[:n])
		ops = ops[n:]
	}
}

// put stages operations, which are sorted.
func (s *entries) put(ops []staged) {
	s.byPart(ops, func(part uint64, ops []staged) {
		old := s.parts[part]
		list := s.change(old, ops)
		s.n += len(list) - len(old)
		if s.parts[part] = list; len(list) == 0 {
			s.remove(part)
		} else if i, has := slices.BinarySearch(s.order, part); s.byTime && !has {
			s.order = slices.Insert(s.order, i, part)
		}
	})
}

func (s *entries) remove(part uint64) {
	delete(s.parts, part)
	if i, has := slices.BinarySearch(s.order, part); has {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

// change returns the staged entries of a part after operations.
func (s *entries) change(list, ops []staged) []staged {
	out := make([]staged, 0, len(list)+len(ops))
	for len(list) > 0 || len(ops) > 0 {
		if len(ops) == 0 {
			return append(out, list...)
		}
		x := ops[0]
		if len(list) > 0 {
			if c := s.compare(&list[0], &x); c < 0 {
				out, list = append(out, list[0]), list[1:]
				continue
			} else if c == 0 { // the operation applies to this entry
				out, list = append(out, list[0]), list[1:]
			}
		}
		ops = ops[1:]
		last := len(out) - 1
		is := last >= 0 && s.compare(&out[last], &x) == 0
		switch {
		case !is: // if gone, it is in the bucket
			out = append(out, x)
		case x.gone && !out[last].gone && !out[last].over:
			out = out[:last]
		case x.gone:
			out[last] = x
		default:
			x.over = out[last].gone || out[last].over
			out[last] = x
		}
	}
	return out
}

// after returns the staged entries of a part after an entry; all of them for page 0.
func (s *entries) after(x staged) []staged {
	list := s.parts[s.part(&x)]
	if x.page == 0 {
		return list
	}
	i, found := s.find(list, &x)
	if found {
		i++
	}
	return list[i:]
}

func (s *entries) find(list []staged, x *staged) (int, bool) {
	return slices.BinarySearchFunc(list, x, func(a staged, b *staged) int { return s.compare(&a, b) })
}

// from yields the numbers of the parts from one on, in order; of the ready bucket also those of sites without entries, up to last.
func (s *entries) from(part, last uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if s.byTime {
			i, _ := slices.BinarySearch(s.order, part)
			for ; i < len(s.order) && yield(s.order[i]); i++ {
			}
			return
		}
		for ; part <= last && yield(part); part++ {
		}
	}
}

// drop removes parts that were merged.
func (s *entries) drop(parts []uint64) {
	for _, p := range parts {
		s.n -= len(s.parts[p])
		s.remove(p)
	}
}

// merge writes into the bucket the parts with many entries among those that change by ops, those up to past and, if there are too
// many, others that were staged long enough. It returns their numbers. last is the greatest site.
func (s *entries) merge(b *bbolt.Bucket, ops []staged, hand *lap, past, last, seq uint64, over, hurry bool) ([]uint64, error) {
	var merged []uint64
	s.byPart(ops, func(part uint64, _ []staged) {
		if len(s.parts[part]) >= bigPart {
			merged = append(merged, part)
		}
	})
	if past > 0 {
		for part := range s.parts {
			if part <= past {
				merged = append(merged, part)
			}
		}
	}
	if over || hurry {
		quota, was := quota(s.n, len(ops), hurry), *hand
		hand.round(seq)
		for part := range s.from(was.at, last) {
			if quota <= 0 { // it has not come round
				*hand = was
				hand.at = part
				break
			}
			if n := len(s.parts[part]); n > 0 {
				merged = append(merged, part)
				quota -= n
			}
		}
	}
	slices.Sort(merged)
	merged = slices.Compact(merged)
	for _, part := range merged {
		for i := range s.parts[part] {
			x := &s.parts[part][i]
			var buf [12]byte
			e := x.entry()
			key, value := appendReady(buf[:0], e), readyValue(e.At)
			if s.byTime {
				key, value = appendWaiting(buf[:0], e), waitingValue(e)
			}
			var err error
			if x.gone {
				err = b.Delete(key)
			} else {
				err = b.Put(key, value)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return merged, nil
}

func waitingValue(e frontier.Entry) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(e.Site)), math.Float32bits(e.Rank))
}
