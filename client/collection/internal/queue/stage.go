package queue

import (
	"cmp"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A Stage holds back changes of three buckets until there are several for each page of the file that they
// change: pages of many sites are found and visited at once, and writing one page of the file for each would
// be most of the cost of a commit. Staged changes are in memory, and, in the order in which they came, in
// the log bucket, from which the stage is rebuilt when the collection is opened. It has one writer and many readers.
//
// Each bucket has a hand that goes round its keys, and merges the changes it passes: a record of the log is
// needed until all hands have passed its changes.
type Stage struct {
	mu      sync.RWMutex
	sites   map[frontier.SiteID][]staged // changes of the ready bucket
	n       int                          // of them
	pages   rows                         // of the pages bucket, by page
	digests rows                         // of the digests bucket

	// Only the writer uses the fields below.
	hands hands
	seq   uint64 // of the next record of the log
	limit int    // bound of the staged changes of each kind; 0: it depends on the number of pages
}

// hands is how far the log is merged.
type hands struct {
	laps   [3]lap // of ready, pages and digests
	first  uint64 // of the first record of the log
	logged int    // approximate bytes in the log
}

// NewStage returns an empty stage.
func NewStage() *Stage {
	return &Stage{sites: map[frontier.SiteID][]staged{}, seq: 1, hands: hands{first: 1},
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

func stagedOf(o *op) staged {
	return staged{rank: rankKey(o.e.Rank), page: uint32(o.e.Page), at: o.e.At, gone: o.gone}
}

func (s *staged) entry(site frontier.SiteID) frontier.Entry {
	return frontier.Entry{Page: frontier.PageID(s.page), Site: site, Rank: keyRank(s.rank), At: s.at}
}

// change returns the staged entries of a site after operations, which are sorted by key.
func change(list []staged, ops []op) []staged {
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
func bySite(ops []op, f func(frontier.SiteID, []op)) {
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
func (s *Stage) after(site frontier.SiteID, after frontier.Entry) []staged {
	list := s.sites[site]
	if after.Page == 0 {
		return list
	}
	at := staged{rank: rankKey(Sane(after.Rank)), page: uint32(after.Page)}
	i, found := slices.BinarySearchFunc(list, at, func(a, b staged) int { return a.compare(&b) })
	if found {
		i++
	}
	return list[i:]
}

// most returns the number of staged entries of the queue above which some are merged, in a collection with so
// many pages. Of page records and of digests, half as many may be staged.
func (s *Stage) most(pages frontier.PageID) int {
	if s.limit > 0 {
		return s.limit
	}
	return min(max(int(pages)/20, leastStage), mostStage)
}

// each is how many bytes of page records may be staged for each such record, and of the log, which holds
// them too, for each change.
const each = 100

// big returns how many staged changes of one site are merged at once.
func (s *Stage) big() int {
	if s.limit > 0 {
		return s.limit / 2
	}
	return bigStage
}

func (s *Stage) change(ops []op) {
	bySite(ops, func(site frontier.SiteID, ops []op) {
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

// RLock makes the stage stay as it is until RUnlock is called: merged entries leave it only after a reader's
// transaction.
func (s *Stage) RLock() { s.mu.RLock() }

// RUnlock undoes RLock.
func (s *Stage) RUnlock() { s.mu.RUnlock() }

// Page returns the record of a page, staged or in the bucket; nil if it has none. The caller is the writer, or has
// called RLock.
func (s *Stage) Page(pages *bbolt.Bucket, id frontier.PageID) []byte {
	if raw := s.pages.get(uint64(id)); raw != nil {
		return raw
	}
	key := record.PageKey(id)
	return pages.Get(key[:])
}

// Digest returns the page under a key of the digests bucket, 0 if there is none. The caller is the writer, or has
// called RLock.
func (s *Stage) Digest(digests *bbolt.Bucket, key uint64) frontier.PageID {
	raw := s.digests.get(key)
	if raw == nil {
		raw = digests.Get(appendDigestKey(nil, key))
	}
	if len(raw) != 4 {
		return 0
	}
	return record.KeyPage(raw)
}

// HoldBack sets how many changes of each kind are staged, in place of a number that depends on that of the pages.
func (s *Stage) HoldBack(n int) { s.limit = n }
