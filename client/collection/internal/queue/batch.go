package queue

import (
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A Batch is what one transaction changes in the queue and in the other staged buckets. It belongs to the writer.
type Batch struct {
	Ready   []frontier.Entry // that became ready
	Dropped []frontier.Entry // no longer ready, of pages that were not visited

	stage          *Stage
	tx             *bbolt.Tx
	now            int64
	readies, waits []staged

	pages, digests, counts []row

	merged merged
	hands  hands // after this transaction
}

// merged lists the parts that were merged into their buckets, and leave the stage.
type merged struct{ ready, waiting, pages, digests, counts []uint64 }

// Begin begins the changes of a transaction at a time.
func (s *Stage) Begin(tx *bbolt.Tx, now int64) *Batch {
	return &Batch{stage: s, tx: tx, now: now, hands: s.hands}
}

// Waits reports whether an entry was in the waiting bucket before this transaction.
func (b *Batch) Waits(e frontier.Entry) bool { return b.stage.waits(b.tx.Bucket(Waiting), e) }

// Record stages the record of a page. Records come in the order of their pages.
func (b *Batch) Record(id frontier.PageID, value []byte) {
	b.pages = append(b.pages, row{uint64(id), value})
}

// Count stages the record of a site's counts. Records come in the order of their sites.
func (b *Batch) Count(id frontier.SiteID, value []byte) {
	b.counts = append(b.counts, row{uint64(id), value})
}

// Replace replaces a page's entry by another of the same site; zero means none. The time of the transaction decides
// between ready and waiting. It returns by how many the ready entries of the site grow.
func (b *Batch) Replace(old, e frontier.Entry, visited bool) (by int) {
	if old == e {
		return 0
	}
	if old.Page != 0 {
		if b.Waits(old) {
			b.wait(old, true)
		} else {
			b.ready(old, true)
			by--
			if !visited && (e.Page == 0 || e.At > b.now) {
				b.Dropped = append(b.Dropped, old)
			}
		}
	}
	switch {
	case e.Page == 0:
	case e.At <= b.now:
		b.ready(e, false)
		b.Ready = append(b.Ready, e)
		by++
	default:
		b.wait(e, false)
	}
	return by
}

// Promote makes a waiting entry ready.
func (b *Batch) Promote(e frontier.Entry) {
	b.wait(e, true)
	b.ready(e, false)
}

func (b *Batch) ready(e frontier.Entry, gone bool) { b.readies = append(b.readies, stagedOf(e, gone)) }
func (b *Batch) wait(e frontier.Entry, gone bool)  { b.waits = append(b.waits, stagedOf(e, gone)) }

// Len returns how many changes of the ready bucket there are.
func (b *Batch) Len() int { return len(b.readies) }

// Flush writes the changes to the log, and merges changes that were staged long enough into their buckets. pages and
// sites are their numbers in the collection; firsts are the changes of the digests bucket.
func (b *Batch) Flush(pages frontier.PageID, sites int, firsts map[uint64]frontier.PageID) (err error) {
	s := b.stage
	s.ready.sort(b.readies)
	s.waiting.sort(b.waits)
	log := b.tx.Bucket(Log)
	log.FillPercent = 1
	b.digests = make([]row, 0, len(firsts))
	for _, k := range slices.Sorted(maps.Keys(firsts)) {
		b.digests = append(b.digests, row{k, appendPageKey(nil, uint64(firsts[k]))})
	}
	if b.logs() {
		raw := appendOps(make([]byte, 0, 16*(len(b.readies)+len(b.waits))+32*len(firsts)+400*len(b.pages)+80*len(b.counts)), b.readies)
		raw = appendRows(appendRows(raw, b.pages), b.digests)
		raw = record.Seal(appendRows(appendOps(raw, b.waits), b.counts), logKey(s.seq, 0), 0)
		b.hands.logged += len(raw)
		for i := 0; len(raw) > 0; i++ {
			n := min(len(raw), logPiece)
			if err := log.Put(logKey(s.seq, i), raw[:n:n]); err != nil {
				return err
			}
			raw = raw[n:]
		}
	}
	most := s.most(pages)
	m, laps, last := &b.merged, &b.hands.laps, uint64(sites)
	hurry := func(i int) bool { return s.hands.logged > 4*each*most && laps[i].seen == s.floor(&s.hands) } // the log waits for this hand
	if m.ready, err = s.ready.merge(b.tx.Bucket(Ready), b.readies, &laps[0], 0, last, s.seq, s.ready.n > most, hurry(0)); err != nil {
		return err
	}
	past := s.waiting.part(&staged{at: b.now})
	if m.waiting, err = s.waiting.merge(b.tx.Bucket(Waiting), b.waits, &laps[1], past, 0, s.seq, s.waiting.n > most, hurry(1)); err != nil {
		return err
	}
	const ascending = 0.9 // the fill of pages whose keys are written in order
	bucket := b.tx.Bucket(Pages)
	bucket.FillPercent = ascending
	if m.pages, err = s.pages.merge(bucket, appendPageKey, b.pages, &laps[2], uint64(pages)>>s.pages.shift, s.seq, s.pages.n > most/2 || s.pages.size > each*most/2, hurry(2)); err != nil {
		return err
	}
	if m.digests, err = s.digests.merge(b.tx.Bucket(Digests), appendDigestKey, b.digests, &laps[3], ^uint64(0)>>s.digests.shift, s.seq, s.digests.n > most/2, hurry(3)); err != nil {
		return err
	}
	bucket = b.tx.Bucket(Counts)
	bucket.FillPercent = ascending
	if m.counts, err = s.counts.merge(bucket, appendPageKey, b.counts, &laps[4], last>>s.counts.shift, s.seq, s.counts.n > most/2, hurry(4)); err != nil {
		return err
	}
	return b.truncate(log)
}

// logs reports whether the transaction has a record in the log.
func (b *Batch) logs() bool {
	return len(b.readies)+len(b.waits)+len(b.pages)+len(b.digests)+len(b.counts) > 0
}

// truncate drops the records of the log that are merged.
func (b *Batch) truncate(log *bbolt.Bucket) error {
	floor := b.stage.floor(&b.hands)
	for h := &b.hands; h.first < floor; h.first++ {
		for i := 0; ; i++ {
			key := logKey(h.first, i)
			raw := log.Get(key)
			if raw == nil {
				break
			}
			h.logged -= len(raw)
			if err := log.Delete(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Publish makes the committed changes visible in the stage.
func (b *Batch) Publish() {
	s := b.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready.drop(b.merged.ready)
	s.waiting.drop(b.merged.waiting)
	s.pages.drop(b.merged.pages)
	s.digests.drop(b.merged.digests)
	s.counts.drop(b.merged.counts)
	s.ready.put(b.readies)
	s.waiting.put(b.waits)
	s.pages.put(b.pages)
	s.digests.put(b.digests)
	s.counts.put(b.counts)
	if b.logs() {
		s.seq++
	}
	s.hands = b.hands
}
