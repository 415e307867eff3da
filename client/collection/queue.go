package collection

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
)

// The queue has two buckets: ready, ordered by site, rank (high to low) and page; and waiting, ordered by
// time and page. A page's own record, or that of its URL, says which entry it has.

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

// sane replaces a rank that cannot be ordered by 0.
func sane(f float32) float32 {
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

// A queueOp adds an entry to one of the buckets, or removes it.
type queueOp struct {
	key  [12]byte
	e    frontier.Entry
	gone bool
}

// sortOps sorts operations by key. Where an entry keeps its key, its removal comes before its addition.
func sortOps(ops []queueOp) {
	slices.SortFunc(ops, func(a, b queueOp) int {
		if c := bytes.Compare(a.key[:], b.key[:]); c != 0 || a.gone == b.gone {
			return c
		}
		if a.gone {
			return -1
		}
		return 1
	})
}

// enqueue replaces a page's entry by another; zero means none. The update's time decides between ready and waiting.
func (u *update) enqueue(old, e frontier.Entry, visited bool) error {
	if old == e {
		return nil
	}
	if old.Page != 0 {
		op := queueOp{e: old, gone: true}
		appendWaiting(op.key[:0], old)
		if old.At > 0 && u.waiting.Get(op.key[:]) != nil {
			u.waits = append(u.waits, op)
		} else {
			appendReady(op.key[:0], old)
			u.readies = append(u.readies, op)
			if err := u.ready1(old.Site, -1); err != nil {
				return err
			}
			if !visited && (e.Page == 0 || e.At > u.nowMilli) {
				u.dropped = append(u.dropped, old)
			}
		}
	}
	if e.Page == 0 {
		return nil
	}
	op := queueOp{e: e}
	if e.At <= u.nowMilli {
		appendReady(op.key[:0], e)
		u.readies = append(u.readies, op)
		u.queue = append(u.queue, e)
		return u.ready1(e.Site, 1)
	}
	appendWaiting(op.key[:0], e)
	u.waits = append(u.waits, op)
	return nil
}

func (u *update) ready1(id frontier.SiteID, by int) error {
	s, err := u.site(id)
	if err != nil {
		return err
	}
	s.Ready += by
	return nil
}

// flushQueue sorts the operations that enqueue has collected, and writes those of the waiting bucket.
func (u *update) flushQueue() error {
	sortOps(u.readies)
	sortOps(u.waits)
	for i := range u.waits {
		op := &u.waits[i]
		if op.gone {
			if err := u.waiting.Delete(op.key[:]); err != nil {
				return err
			}
			continue
		}
		value := make([]byte, 8)
		binary.BigEndian.PutUint32(value, uint32(op.e.Site))
		binary.BigEndian.PutUint32(value[4:], math.Float32bits(op.e.Rank))
		if err := u.waiting.Put(op.key[:], value); err != nil {
			return err
		}
	}
	return nil
}

// Queue returns the queue of pages to fetch. Commit and Apply change its entries.
func (c *Collection) Queue() frontier.Store { return (*queue)(c) }

type queue Collection

func (q *queue) Sites(f func(frontier.SiteID, int) error) error {
	type row struct {
		site  frontier.SiteID
		ready int
	}
	var list []row
	q.mem.RLock()
	for _, s := range q.sites {
		if s.Ready > 0 {
			list = append(list, row{s.ID, s.Ready})
		}
	}
	q.mem.RUnlock()
	for _, r := range list {
		if err := f(r.site, r.ready); err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) Head(site frontier.SiteID, after frontier.Entry, n int) ([]frontier.Entry, error) {
	c := (*Collection)(q)
	var list []frontier.Entry
	after.Site, after.Rank = site, sane(after.Rank)
	err := c.reading(func(tx *bbolt.Tx) error {
		held := c.stage.after(site, after)
		var buf [readyLen]byte
		from := record.SiteKey(site)
		if after.Page != 0 {
			from = appendReady(buf[:0], after)
		}
		cur := tx.Bucket(readyBucket).Cursor()
		k, v := cur.Seek(from)
		for len(list) < n {
			e, ok := frontier.Entry{}, false
			if k != nil {
				if e, ok = parseReady(k, v); !ok {
					return record.Damaged(readyBucket, k)
				}
				ok = e.Site == site
			}
			if ok && e.Page == after.Page && e.Rank == after.Rank {
				k, v = cur.Next()
				continue
			}
			if !ok && len(held) == 0 {
				return nil
			}
			c := -1
			x := staged{rank: rankKey(e.Rank), page: uint32(e.Page), at: e.At}
			if !ok {
				c = 1
			} else if len(held) > 0 {
				c = x.compare(&held[0])
			}
			if c <= 0 {
				k, v = cur.Next()
			}
			if c >= 0 { // a staged entry overrides the bucket's
				x, held = held[0], held[1:]
			}
			if !x.gone {
				list = append(list, x.entry(site))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read queue of site %d: %w", site, err)
	}
	return list, nil
}

func (q *queue) Promote(now int64, n int) ([]frontier.Entry, error) {
	c := (*Collection)(q)
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []frontier.Entry
	err := c.reading(func(tx *bbolt.Tx) error {
		cur := tx.Bucket(waitingBucket).Cursor()
		for k, v := cur.First(); k != nil && len(list) < n; k, v = cur.Next() {
			e, ok := parseWaiting(k, v)
			if !ok {
				return record.Damaged(waitingBucket, k)
			}
			if e.At > now {
				break
			}
			list = append(list, e)
		}
		return nil
	})
	if err == nil && len(list) > 0 {
		err = c.update(func(u *update) error {
			for _, e := range list {
				out := queueOp{e: e, gone: true}
				appendWaiting(out.key[:0], e)
				in := queueOp{e: e}
				appendReady(in.key[:0], e)
				u.waits, u.readies = append(u.waits, out), append(u.readies, in)
				if err := u.ready1(e.Site, 1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("promote queue: %w", err)
	}
	return list, nil
}

// Waits reports whether a page waits for its At. A page that was due stays due even if the clock is set back.
func (c *Collection) Waits(p *Page) (waits bool, err error) {
	e, ok := p.Entry()
	if !ok {
		return true, nil
	}
	err = c.reading(func(tx *bbolt.Tx) error {
		waits = tx.Bucket(waitingBucket).Get(appendWaiting(nil, e)) != nil
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read queue: %w", err)
	}
	return waits, nil
}

func (q *queue) Next() (at int64, err error) {
	err = (*Collection)(q).reading(func(tx *bbolt.Tx) error {
		if k, v := tx.Bucket(waitingBucket).Cursor().First(); k != nil {
			e, ok := parseWaiting(k, v)
			if !ok {
				return record.Damaged(waitingBucket, k)
			}
			at = e.At
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read queue: %w", err)
	}
	return at, nil
}

// Denied returns when a page was fetched last, computed from its next visit, if the answer was that it is
// gone, moved or refused, or it has failed too often to be retried soon. It returns the zero time for any
// other page, and while a first 404 waits for the second.
func (c *Collection) Denied(p *Page) time.Time {
	a := &c.opts.Again
	switch {
	case p.At.IsZero() || p.At.Equal(Never):
	case p.State == Gone:
		return p.At.Add(-a.Gone)
	case p.State == Moved:
		return p.At.Add(-a.Moved)
	case p.State == Refused && p.missing.IsZero():
		return p.At.Add(-a.Refused)
	case p.State == Failing && p.missing.IsZero() && p.Fails > len(a.Failing):
		return p.At.Add(-a.Lost)
	}
	return time.Time{}
}

// farthest returns the longest wait of any visit that is planned now.
func (c *Collection) farthest() time.Duration {
	a := &c.opts.Again
	most := max(longestAgain, a.Lost, a.Missing, a.Refused, a.Gone, a.Moved, slices.Max(a.Failing))
	switch p := c.Policy().(type) { // aging pages are left alone below, but would have to be read
	case fresh.Priced:
		most = max(most, p.Longest, 90*24*time.Hour)
	case fresh.Thesis:
		most = max(most, p.MaxPeriod, 90*24*time.Hour)
	}
	return most
}

// waitAnew repairs times computed while the clock was ahead: a page that waits for longer than any visit
// planned now, and not by its age (Aging), is due now. In a copy, where few pages wait, so is one whose
// failures began after now.
func (c *Collection) waitAnew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, farthest := c.opts.Now(), c.farthest()
	ahead := func(p *Page) bool {
		return !c.Aging(p) && (p.Failed.After(now) || p.At.After(now.Add(farthest)))
	}
	from := now.Add(farthest)
	if c.opts.Site != "" {
		from = now
	}
	var list []frontier.PageID
	err := c.reading(func(tx *bbolt.Tx) error {
		pages := c.view(tx)
		cur := tx.Bucket(waitingBucket).Cursor()
		for k, v := cur.Last(); k != nil; k, v = cur.Prev() {
			e, ok := parseWaiting(k, v)
			if !ok {
				return record.Damaged(waitingBucket, k)
			}
			if e.At <= record.Milli(from) {
				break
			}
			var p Page
			if ok, err := pages.page(e.Page, &p); err != nil {
				return err
			} else if ok && ahead(&p) {
				list = append(list, p.ID)
			}
		}
		return nil
	})
	for turn := range slices.Chunk(list, 10_000) {
		if err != nil {
			break
		}
		err = c.update(func(u *update) error {
			for _, id := range turn {
				w, err := u.get(id)
				if err != nil {
					return err
				}
				if w.At, w.planned = u.now, true; w.Failed.After(u.now) {
					w.Failed = u.now
				}
				u.place(w)
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("recompute queue: %w", err)
	}
	return nil
}

func (q *queue) Rerank(old, new []frontier.Entry) error {
	c := (*Collection)(q)
	if len(old) != len(new) {
		return fmt.Errorf("rerank queue: %d new entries for %d old ones", len(new), len(old))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.update(func(u *update) error {
		var key [waitingLen]byte
		for i, o := range old {
			e := new[i]
			rank := sane(e.Rank)
			if o.Page != e.Page || o.Site != e.Site || o.Rank == rank {
				continue
			}
			w, err := u.get(o.Page)
			if err != nil {
				return err
			}
			if w == nil {
				continue
			}
			own, ok := w.Entry()
			if !ok || own.Site != o.Site || own.Rank != o.Rank {
				continue
			}
			if appendWaiting(key[:0], own); own.At > 0 && u.waiting.Get(key[:]) != nil {
				continue
			}
			w.rank, w.dirty = rank, true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rerank queue: %w", err)
	}
	return nil
}
