package collection

import (
	"encoding/binary"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/frontier"
)

// The log bucket holds, by number, the changes that transactions made to the staged buckets.

func appendPageKey(b []byte, key uint64) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(key))
}

func appendDigestKey(b []byte, key uint64) []byte { return binary.BigEndian.AppendUint64(b, key) }

// flushStage writes an update's changes to the log, and merges changes that were staged long enough into
// their buckets.
func (u *update) flushStage() (err error) {
	s := u.c.stage
	log := u.tx.Bucket(logBucket)
	log.FillPercent = 1
	if len(u.readies) > 0 || len(u.records) > 0 || len(u.firsts) > 0 {
		key := binary.BigEndian.AppendUint64(nil, s.seq)
		u.firstRows = make([]row, 0, len(u.firsts))
		for _, k := range slices.Sorted(maps.Keys(u.firsts)) {
			u.firstRows = append(u.firstRows, row{k, appendPageKey(nil, uint64(u.firsts[k]))})
		}
		b := appendOps(make([]byte, 0, 16*len(u.readies)+32*len(u.firsts)+400*len(u.records)), u.readies)
		b = record.Seal(appendRows(appendRows(b, u.records), u.firstRows), key, 0)
		if err := log.Put(key, b); err != nil {
			return err
		}
		u.logged = len(b)
	}
	most := s.most(u.last)
	all := s.logged > 4*each*most
	if u.merged.sites, err = u.mergeReady(most, all); err != nil {
		return err
	}
	u.pages.FillPercent = ascending
	last := uint64(u.last) >> s.pages.shift
	if u.merged.pages, err = s.pages.merge(u.pages, appendPageKey, u.records, &u.laps[1], last, s.seq, all || s.pages.n > most/2 || s.pages.size > each*most/2); err != nil {
		return err
	}
	last = ^uint64(0) >> s.digests.shift
	if u.merged.digests, err = s.digests.merge(u.digests, appendDigestKey, u.firstRows, &u.laps[2], last, s.seq, all || s.digests.n > most/2); err != nil {
		return err
	}
	return u.truncate(log)
}

// truncate drops the records of the log that are merged.
func (u *update) truncate(log *bbolt.Bucket) error {
	s := u.c.stage
	floor := s.seq
	for i, n := range []int{s.n, s.pages.n, s.digests.n} {
		if n > 0 {
			floor = min(floor, u.laps[i].seen)
		}
	}
	for ; u.first < floor; u.first++ {
		key := binary.BigEndian.AppendUint64(nil, u.first)
		u.logged -= len(log.Get(key))
		if err := log.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// merged lists what was merged into its bucket, and leaves the stage.
type merged struct {
	sites          []frontier.SiteID
	pages, digests []uint64 // parts
}

// publishStage makes the committed changes of an update visible in the stage.
func (u *update) publishStage() {
	s := u.c.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, site := range u.merged.sites {
		s.n -= len(s.sites[site])
		delete(s.sites, site)
	}
	s.pages.drop(u.merged.pages)
	s.digests.drop(u.merged.digests)
	s.change(u.readies)
	s.pages.put(u.records)
	s.digests.put(u.firstRows)
	if len(u.readies) > 0 || len(u.records) > 0 || len(u.firsts) > 0 {
		s.seq++
	}
	s.logged += u.logged
	s.laps, s.first = u.laps, u.first
}

// appendOps appends the number of operations and the operations, which are sorted by site.
func appendOps(b []byte, ops []queueOp) []byte {
	b = binary.AppendUvarint(b, uint64(len(ops)))
	site := frontier.SiteID(0)
	for i := range ops {
		op := &ops[i]
		f := record.Flag(op.gone, 1) | record.Flag(op.e.At > 0, 2)
		b = binary.AppendUvarint(b, uint64(op.e.Site-site)<<2|f)
		site = op.e.Site
		b = record.AppendFloat(b, op.e.Rank)
		b = binary.AppendUvarint(b, uint64(op.e.Page))
		if f&2 != 0 {
			b = binary.AppendUvarint(b, uint64(op.e.At))
		}
	}
	return b
}

func parseOps(d *record.Decoder, f func(op *queueOp)) {
	var e frontier.Entry
	for n := d.Uint(); n > 0 && !d.Bad; n-- {
		flags := d.Uint()
		e.Site += frontier.SiteID(flags >> 2)
		e.Rank, e.Page, e.At = sane(d.Float()), frontier.PageID(d.Uint()), 0
		if flags&2 != 0 {
			e.At = int64(d.Uint())
		}
		if !d.Bad {
			f(&queueOp{e: e, gone: flags&1 != 0})
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

// loadStage makes the stage from the log. For each key the last change counts; it may have been merged
// already, which does not matter.
func (c *Collection) loadStage(tx *bbolt.Tx) error {
	s := c.stage
	last := map[frontier.SiteID]map[[2]uint32]staged{}
	var prev uint64
	err := tx.Bucket(logBucket).ForEach(func(k, v []byte) error {
		body, ok := record.Unseal(k, v)
		if !ok || len(k) != 8 || binary.BigEndian.Uint64(k) <= prev {
			return record.Damaged(logBucket, k)
		}
		if prev == 0 {
			s.first = binary.BigEndian.Uint64(k)
		}
		prev = binary.BigEndian.Uint64(k)
		d := &record.Decoder{B: body}
		parseOps(d, func(op *queueOp) {
			x := stagedOf(op)
			x.over = true
			if last[op.e.Site] == nil {
				last[op.e.Site] = map[[2]uint32]staged{}
			}
			last[op.e.Site][[2]uint32{x.rank, x.page}] = x
		})
		parseRows(d, func(x row) { s.pages.put([]row{{x.key, clone(x.value)}}) })
		parseRows(d, func(x row) { s.digests.put([]row{{x.key, clone(x.value)}}) })
		if d.Bad || len(d.B) > 0 {
			return record.Damaged(logBucket, k)
		}
		s.logged += len(v)
		return nil
	})
	if err != nil {
		return err
	}
	s.seq = prev + 1
	if prev == 0 {
		s.first = 1
	}
	for site, set := range last {
		s.sites[site] = slices.SortedFunc(maps.Values(set), func(a, b staged) int { return a.compare(&b) })
		s.n += len(set)
	}
	return nil
}
