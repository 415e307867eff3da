package collection

import (
	"cmp"
	"slices"
	"sync"

	"github.com/parleyweb/parley/client/frontier"
)

// A stage holds back changes of three buckets until there are several for each page of the file that they
// change: pages of many sites are found and visited at once, and writing one page of the file for each would
// be most of the cost of a commit. Staged changes are in memory, and, in the order in which they came, in
// the log bucket, from which the stage is rebuilt when the collection is opened. It has one writer and many readers.
//
// Each bucket has a hand that goes round its keys, and merges the changes it passes: a record of the log is
// needed until all hands have passed its changes.
type stage struct {
	mu      sync.RWMutex
	sites   map[frontier.SiteID][]staged // changes of the ready bucket
	n       int                          // of them
	pages   rows                         // of the pages bucket, by page
	digests rows                         // of the digests bucket

	// Only the writer uses the fields below.
	laps   [3]lap // of ready, pages and digests
	seq    uint64 // of the next record of the log
	first  uint64 // of the first record of the log
	logged int    // approximate bytes in the log
	limit  int    // bound of the staged changes of each kind; 0: it depends on the number of pages
}

func newStage() *stage {
	return &stage{sites: map[frontier.SiteID][]staged{}, seq: 1, first: 1,
		pages: rows{shift: 10}, digests: rows{shift: 52}}
}

// A lap is the position of a hand, and the number of the next record of the log when it came round last.
type lap struct {
	at   uint64
	last uint64
	seen uint64 // the hand has passed all changes in records before this one
}

func (l *lap) round(seq uint64) { l.at, l.seen, l.last = 0, l.last, seq }

// A staged is an entry that is not in the bucket yet, or, with gone, one to be removed from it.
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
	bigStage   = 4096 // of one site: these are neighbours in the bucket, and are merged at once
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

// change returns the staged entries of a site after operations, which are sorted by key.
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
			} else if c == 0 { // the operation applies to this entry
				out, list = append(out, list[0]), list[1:]
			}
		}
		ops = ops[1:]
		last := len(out) - 1
		is := last >= 0 && out[last].compare(&x) == 0
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

// after returns the staged entries of a site after an entry. The caller holds mu.
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

// most returns the number of staged entries of the queue above which some are merged, in a collection with so
// many pages. Of page records and of digests, half as many may be staged.
func (s *stage) most(pages frontier.PageID) int {
	if s.limit > 0 {
		return s.limit
	}
	return min(max(int(pages)/20, leastStage), mostStage)
}

// each is how many bytes of page records may be staged for each such record, and of the log, which holds
// them too, for each change.
const each = 100

// big returns how many staged changes of one site are merged at once.
func (s *stage) big() int {
	if s.limit > 0 {
		return s.limit / 2
	}
	return bigStage
}

// mergeReady merges into the bucket the changes of sites staged long enough, or of a site with many. It
// returns the sites.
func (u *update) mergeReady(most int, all bool) ([]frontier.SiteID, error) {
	s := u.c.stage
	var merged []frontier.SiteID
	bySite(u.readies, func(site frontier.SiteID, _ []queueOp) {
		if len(s.sites[site]) >= s.big() {
			merged = append(merged, site)
		}
	})
	if s.n > most || all {
		quota := 2*len(u.readies) + 64
		hand := &u.laps[0]
		for ; quota > 0 && hand.at < uint64(len(u.names)); hand.at++ {
			site := frontier.SiteID(hand.at + 1)
			if n := len(s.sites[site]); n > 0 {
				merged = append(merged, site)
				quota -= n
			}
		}
		if hand.at >= uint64(len(u.names)) {
			hand.round(s.seq)
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
