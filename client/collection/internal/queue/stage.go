package queue

import (
	"encoding/binary"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A Stage holds back changes of five buckets until there are several for each page of the file that they
// change: pages of many sites are found and visited at once, and writing one page of the file for each would
// be most of the cost of a commit. Staged changes are in memory, and, in the order in which they came, in
// the log bucket, from which the stage is rebuilt when the collection is opened. It has one writer and many readers.
//
// Each bucket has a hand that goes round its keys, and merges the changes it passes: a record of the log is
// needed until all hands have passed its changes.
type Stage struct {
	mu      sync.RWMutex
	ready   entries // changes of the ready bucket, by site
	waiting entries // of the waiting bucket, by time
	pages   rows    // of the pages bucket, by page
	digests rows    // of the digests bucket
	counts  rows    // of the counts bucket, by site

	// Only the writer uses the fields below.
	hands hands
	seq   uint64 // of the next record of the log
	limit int    // bound of the staged changes of each kind; 0: it depends on the number of pages
}

// hands is how far the log is merged.
type hands struct {
	laps   [5]lap // of ready, waiting, pages, digests and counts
	first  uint64 // of the first record of the log
	logged int    // approximate bytes in the log
}

// NewStage returns an empty stage.
func NewStage() *Stage {
	return &Stage{ready: entries{parts: map[uint64][]staged{}}, waiting: entries{parts: map[uint64][]staged{}, byTime: true},
		pages: rows{shift: 10}, digests: rows{shift: 52}, counts: rows{shift: 8}, seq: 1, hands: hands{first: 1}}
}

// A lap is the position of a hand, and the number of the next record of the log when it came round last.
type lap struct {
	at   uint64
	last uint64
	seen uint64 // the hand has passed all changes in records before this one
}

func (l *lap) round(seq uint64) { l.at, l.seen, l.last = 0, l.last, seq }

// floor returns the number of the first record of the log that is still needed, as the hands stand.
func (s *Stage) floor(h *hands) uint64 {
	floor := s.seq
	for i, n := range []int{s.ready.n, s.waiting.n, s.pages.n, s.digests.n, s.counts.n} {
		if n > 0 {
			floor = min(floor, h.laps[i].seen)
		}
	}
	return floor
}

// quota returns how many of n staged changes a hand passes in a transaction that makes some more: it keeps up with them, and comes
// round soon if it must hurry.
func quota(n, more int, hurry bool) int {
	if hurry {
		return max(n/16, 2*more+64)
	}
	return 2*more + 64
}

const (
	leastStage = 20_000
	mostStage  = 500_000
)

// most returns the number of staged entries of each bucket of the queue above which some are merged, in a collection with so
// many pages. Of page records, digests and counts, half as many may be staged.
func (s *Stage) most(pages frontier.PageID) int {
	if s.limit > 0 {
		return s.limit
	}
	return min(max(int(pages)/8, leastStage), mostStage)
}

// each is how many bytes of page records may be staged for each such record, and of the log, which holds
// them too, for each change.
const each = 100

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

// Count returns the record of a site's counts, nil if it has none. The collection is being opened.
func (s *Stage) Count(counts *bbolt.Bucket, site []byte) []byte {
	if raw := s.counts.get(uint64(binary.BigEndian.Uint32(site))); raw != nil {
		return raw
	}
	return counts.Get(site)
}

// HoldBack sets how many changes of each kind are staged, in place of a number that depends on that of the pages.
func (s *Stage) HoldBack(n int) { s.limit = n }
