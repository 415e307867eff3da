package collection

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/frontier"
)

// A stage holds back changes of the ready bucket until there are several for
// each page of the file: pages become ready and are visited on many sites
// at once, and to write a page of the file for each would be most of what a
// commit costs. What is held back stands in memory, by site, and in the order
// in which it came in the log bucket, from which it is made anew when the
// collection is opened. It is for one writer and many readers.
type stage struct {
	mu    sync.RWMutex
	sites map[frontier.SiteID][]staged
	n     int // in all sites

	// What follows is the writer's alone.
	hand   frontier.SiteID // sites are merged into the bucket in turn: this one is next
	seq    uint64          // of the next record of the log
	first  uint64          // of its first one
	laps   [2]uint64       // seq when the hand came round last, and the time before
	logged int             // operations in the log, about
	limit  int             // how many are held back; 0: that depends on how many pages there are
}

func newStage() *stage {
	return &stage{sites: map[frontier.SiteID][]staged{}, hand: 1, seq: 1, first: 1, laps: [2]uint64{1, 1}}
}

// A staged is an entry that is not in the bucket yet, or with gone one that
// still is, though it should not be.
type staged struct {
	rank uint32 // rankKey
	page uint32
	at   int64
	gone bool
	over bool // the bucket may have an entry of that key too
}

const (
	leastStage = 20_000
	mostStage  = 500_000
	bigStage   = 4096 // of one site: these stand close together in the bucket, and are merged at once
)

func (a *staged) compare(b *staged) int {
	if c := cmp.Compare(a.rank, b.rank); c != 0 {
		return c
	}
	return cmp.Compare(a.page, b.page)
}

func stagedOf(op *queueOp) staged {
	return staged{rank: rankKey(op.e.Rank), page: uint32(op.e.Page), at: op.e.At, gone: op.gone}
}

func (s *staged) entry(site frontier.SiteID) frontier.Entry {
	return frontier.Entry{Page: frontier.PageID(s.page), Site: site, Rank: keyRank(s.rank), At: s.at}
}

// change returns what is staged of a site after operations, which are in the
// order of their keys.
func change(list []staged, ops []queueOp) []staged {
	out := make([]staged, 0, len(list)+len(ops))
	for len(list) > 0 || len(ops) > 0 {
		if len(ops) == 0 {
			return append(out, list...)
		}
		x := stagedOf(&ops[0])
		if len(list) > 0 {
			if c := list[0].compare(&x); c < 0 {
				out, list = append(out, list[0]), list[1:]
				continue
			} else if c == 0 { // the operation works on that
				out, list = append(out, list[0]), list[1:]
			}
		}
		ops = ops[1:]
		last := len(out) - 1
		is := last >= 0 && out[last].compare(&x) == 0
		switch {
		case !is: // gone: then it is in the bucket
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

// bySite calls f with the operations of each site.
func bySite(ops []queueOp, f func(frontier.SiteID, []queueOp)) {
	for len(ops) > 0 {
		n := 1
		for n < len(ops) && ops[n].e.Site == ops[0].e.Site {
			n++
		}
		f(ops[0].e.Site, ops[:n])
		ops = ops[n:]
	}
}

// after returns what is staged of a site from a place on. The caller holds mu.
func (s *stage) after(site frontier.SiteID, after frontier.Entry) []staged {
	list := s.sites[site]
	if after.Page == 0 {
		return list
	}
	at := staged{rank: rankKey(sane(after.Rank)), page: uint32(after.Page)}
	i, found := slices.BinarySearchFunc(list, at, func(a, b staged) int { return a.compare(&b) })
	if found {
		i++
	}
	return list[i:]
}

// most is how much may be held back with so many pages.
func (s *stage) most(pages frontier.PageID) int {
	if s.limit > 0 {
		return s.limit
	}
	return min(max(int(pages)/20, leastStage), mostStage)
}

// flushStage writes the operations of an update to the log, and merges into the bucket
// what has been held back long enough. It returns the sites that it has merged.
func (u *update) flushStage() ([]frontier.SiteID, error) {
	s := u.c.stage
	log := u.tx.Bucket(logBucket)
	log.FillPercent = 1
	if len(u.readies) > 0 {
		key := binary.BigEndian.AppendUint64(nil, s.seq)
		if err := log.Put(key, seal(appendOps(nil, u.readies), key, 0)); err != nil {
			return nil, err
		}
	}
	most := s.most(u.last)
	var merged []frontier.SiteID
	bySite(u.readies, func(site frontier.SiteID, _ []queueOp) {
		if len(s.sites[site]) >= bigStage {
			merged = append(merged, site)
		}
	})
	if s.n > most || s.logged > 4*most {
		quota := 2*len(u.readies) + 64
		for ; quota > 0 && int(s.hand) <= len(u.sites); s.hand++ {
			if n := len(s.sites[s.hand]); n > 0 {
				merged = append(merged, s.hand)
				quota -= n
			}
		}
		if int(s.hand) > len(u.sites) {
			// Whatever was there when the hand came round the last time is merged.
			s.hand = 1
			for ; s.first < s.laps[0]; s.first++ {
				if err := log.Delete(binary.BigEndian.AppendUint64(nil, s.first)); err != nil {
					return nil, err
				}
			}
			s.laps[1], s.laps[0] = s.laps[0], s.seq
			s.logged = s.n + len(u.readies)
		}
	}
	slices.Sort(merged)
	merged = slices.Compact(merged)
	var key [readyLen]byte
	for _, site := range merged {
		for i := range s.sites[site] {
			x := &s.sites[site][i]
			e := x.entry(site)
			var err error
			if appendReady(key[:0], e); x.gone {
				err = u.ready.Delete(key[:])
			} else {
				err = u.ready.Put(key[:], readyValue(e.At))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return merged, nil
}

// publishStage takes over what an update has committed.
func (u *update) publishStage() {
	s := u.c.stage
	if len(u.readies) == 0 && len(u.merged) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, site := range u.merged {
		s.n -= len(s.sites[site])
		delete(s.sites, site)
	}
	s.change(u.readies)
	if len(u.readies) > 0 {
		s.seq++
		s.logged += len(u.readies)
	}
}

func (s *stage) change(ops []queueOp) {
	bySite(ops, func(site frontier.SiteID, ops []queueOp) {
		old := s.sites[site]
		list := change(old, ops)
		s.n += len(list) - len(old)
		if len(list) == 0 {
			delete(s.sites, site)
		} else {
			s.sites[site] = list
		}
	})
}

// appendOps writes operations, which are in the order of their sites.
func appendOps(b []byte, ops []queueOp) []byte {
	site := frontier.SiteID(0)
	for i := range ops {
		op := &ops[i]
		f := flag(op.gone, 1) | flag(op.e.At > 0, 2)
		b = binary.AppendUvarint(b, uint64(op.e.Site-site)<<2|f)
		site = op.e.Site
		b = appendFloat(b, op.e.Rank)
		b = binary.AppendUvarint(b, uint64(op.e.Page))
		if f&2 != 0 {
			b = binary.AppendUvarint(b, uint64(op.e.At))
		}
	}
	return b
}

func parseOps(key, raw []byte) (ops []queueOp, ok bool) {
	body, ok := unseal(key, raw)
	if !ok {
		return nil, false
	}
	d := decoder{b: body}
	var e frontier.Entry
	for len(d.b) > 0 {
		f := d.uint()
		e.Site += frontier.SiteID(f >> 2)
		e.Rank, e.Page, e.At = d.float(), frontier.PageID(d.uint()), 0
		if f&2 != 0 {
			e.At = int64(d.uint())
		}
		op := queueOp{e: e, gone: f&1 != 0}
		appendReady(op.key[:0], e)
		ops = append(ops, op)
	}
	return ops, !d.bad
}

// loadStage makes the stage from the log. Of each entry the last operation
// holds; whether the bucket has taken it in meanwhile does not matter.
func (c *Collection) loadStage(tx *bbolt.Tx) error {
	s := c.stage
	last := map[frontier.SiteID]map[[2]uint32]staged{}
	var prev uint64
	err := tx.Bucket(logBucket).ForEach(func(k, v []byte) error {
		ops, ok := parseOps(k, v)
		if !ok || len(k) != 8 || binary.BigEndian.Uint64(k) <= prev {
			return damaged(logBucket, k)
		}
		prev = binary.BigEndian.Uint64(k)
		if s.first == 0 {
			s.first = prev
		}
		for i := range ops {
			x := stagedOf(&ops[i])
			x.over = true
			site := ops[i].e.Site
			if last[site] == nil {
				last[site] = map[[2]uint32]staged{}
			}
			last[site][[2]uint32{x.rank, x.page}] = x
		}
		s.logged += len(ops)
		return nil
	})
	if err != nil {
		return err
	}
	s.seq, s.first = prev+1, max(s.first, 1)
	s.laps = [2]uint64{s.first, s.first}
	for site, set := range last {
		s.sites[site] = slices.SortedFunc(maps.Values(set), func(a, b staged) int { return a.compare(&b) })
		s.n += len(set)
	}
	return nil
}

// bytes is about what the stage takes.
func (s *stage) bytes() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return 24*s.n + 64*len(s.sites)
}
