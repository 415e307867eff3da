package queue

import (
	"encoding/binary"
	"maps"
	"math"
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
	waiting        *bbolt.Bucket
	now            int64
	readies, waits []op
	pages, digests []row
	merged         merged
	hands          hands // after this transaction
}

// merged lists what was merged into its bucket, and leaves the stage.
type merged struct {
	sites          []frontier.SiteID
	pages, digests []uint64 // parts
}

// Begin begins the changes of a transaction at a time.
func (s *Stage) Begin(tx *bbolt.Tx, now int64) *Batch {
	return &Batch{stage: s, tx: tx, waiting: tx.Bucket(Waiting), now: now, hands: s.hands}
}

// Waits reports whether an entry was in the waiting bucket before this transaction.
func (b *Batch) Waits(e frontier.Entry) bool { return waits(b.waiting, e) }

// Record stages the record of a page. Records come in the order of their pages.
func (b *Batch) Record(id frontier.PageID, value []byte) {
	b.pages = append(b.pages, row{uint64(id), value})
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

func (b *Batch) ready(e frontier.Entry, gone bool) {
	o := op{e: e, gone: gone}
	appendReady(o.key[:0], e)
	b.readies = append(b.readies, o)
}

func (b *Batch) wait(e frontier.Entry, gone bool) {
	o := op{e: e, gone: gone}
	appendWaiting(o.key[:0], e)
	b.waits = append(b.waits, o)
}

// Len returns how many changes of the ready bucket there are.
func (b *Batch) Len() int { return len(b.readies) }

// Flush writes the changes of the waiting bucket, and the others to the log, and merges changes that were staged
// long enough into their buckets. pages and sites are their numbers in the collection; firsts are the changes of the
// digests bucket.
func (b *Batch) Flush(pages frontier.PageID, sites int, firsts map[uint64]frontier.PageID) (err error) {
	sortOps(b.readies)
	sortOps(b.waits)
	for i := range b.waits {
		o := &b.waits[i]
		if o.gone {
			err = b.waiting.Delete(o.key[:])
		} else {
			value := make([]byte, 8)
			binary.BigEndian.PutUint32(value, uint32(o.e.Site))
			binary.BigEndian.PutUint32(value[4:], math.Float32bits(o.e.Rank))
			err = b.waiting.Put(o.key[:], value)
		}
		if err != nil {
			return err
		}
	}
	s := b.stage
	log := b.tx.Bucket(Log)
	log.FillPercent = 1
	b.digests = make([]row, 0, len(firsts))
	for _, k := range slices.Sorted(maps.Keys(firsts)) {
		b.digests = append(b.digests, row{k, appendPageKey(nil, uint64(firsts[k]))})
	}
	if b.logs() {
		key := binary.BigEndian.AppendUint64(nil, s.seq)
		raw := appendOps(make([]byte, 0, 16*len(b.readies)+32*len(firsts)+400*len(b.pages)), b.readies)
		raw = record.Seal(appendRows(appendRows(raw, b.pages), b.digests), key, 0)
		if err := log.Put(key, raw); err != nil {
			return err
		}
		b.hands.logged += len(raw)
	}
	most := s.most(pages)
	all := s.hands.logged > 4*each*most
	if b.merged.sites, err = b.mergeReady(sites, all || s.n > most); err != nil {
		return err
	}
	const ascending = 0.9 // the fill of pages whose keys are written in order
	bucket := b.tx.Bucket(Pages)
	bucket.FillPercent = ascending
	last := uint64(pages) >> s.pages.shift
	if b.merged.pages, err = s.pages.merge(bucket, appendPageKey, b.pages, &b.hands.laps[1], last, s.seq, all || s.pages.n > most/2 || s.pages.size > each*most/2); err != nil {
		return err
	}
	last = ^uint64(0) >> s.digests.shift
	if b.merged.digests, err = s.digests.merge(b.tx.Bucket(Digests), appendDigestKey, b.digests, &b.hands.laps[2], last, s.seq, all || s.digests.n > most/2); err != nil {
		return err
	}
	return b.truncate(log)
}

// logs reports whether the transaction has a record in the log.
func (b *Batch) logs() bool { return len(b.readies) > 0 || len(b.pages) > 0 || len(b.digests) > 0 }

// mergeReady merges into the bucket the changes of a site with many, and, if there are too many, those of sites
// staged long enough. It returns the sites.
func (b *Batch) mergeReady(sites int, over bool) ([]frontier.SiteID, error) {
	s := b.stage
	var merged []frontier.SiteID
	bySite(b.readies, func(site frontier.SiteID, _ []op) {
		if len(s.sites[site]) >= s.big() {
			merged = append(merged, site)
		}
	})
	if over {
		quota := 2*len(b.readies) + 64
		hand := &b.hands.laps[0]
		for ; quota > 0 && hand.at < uint64(sites); hand.at++ {
			site := frontier.SiteID(hand.at + 1)
			if n := len(s.sites[site]); n > 0 {
				merged = append(merged, site)
				quota -= n
			}
		}
		if hand.at >= uint64(sites) {
			hand.round(s.seq)
		}
	}
	slices.Sort(merged)
	merged = slices.Compact(merged)
	ready := b.tx.Bucket(Ready)
	var key [readyLen]byte
	for _, site := range merged {
		for i := range s.sites[site] {
			x := &s.sites[site][i]
			e := x.entry(site)
			var err error
			if appendReady(key[:0], e); x.gone {
				err = ready.Delete(key[:])
			} else {
				err = ready.Put(key[:], readyValue(e.At))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return merged, nil
}

// truncate drops the records of the log that are merged.
func (b *Batch) truncate(log *bbolt.Bucket) error {
	s := b.stage
	floor := s.seq
	for i, n := range []int{s.n, s.pages.n, s.digests.n} {
		if n > 0 {
			floor = min(floor, b.hands.laps[i].seen)
		}
	}
	for h := &b.hands; h.first < floor; h.first++ {
		key := binary.BigEndian.AppendUint64(nil, h.first)
		h.logged -= len(log.Get(key))
		if err := log.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// Publish makes the committed changes visible in the stage.
func (b *Batch) Publish() {
	s := b.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, site := range b.merged.sites {
		s.n -= len(s.sites[site])
		delete(s.sites, site)
	}
	s.pages.drop(b.merged.pages)
	s.digests.drop(b.merged.digests)
	s.change(b.readies)
	s.pages.put(b.pages)
	s.digests.put(b.digests)
	if b.logs() {
		s.seq++
	}
	s.hands = b.hands
}
