package collection

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A QuotaError is Apply's error for a step that was not stored, since the copy would exceed Options.MaxPages
// or MaxState.
type QuotaError struct {
	Pages int   // allowed; 0: State was exceeded
	State int64 // bytes allowed
}

func (e *QuotaError) Error() string {
	if e.Pages > 0 {
		return fmt.Sprintf("the site names more than %d pages", e.Pages)
	}
	return fmt.Sprintf("the stored state of the site exceeds %d bytes", e.State)
}

// room returns a *QuotaError if a copy may have no more pages. isNew is true for an unknown page: a known
// page that is gone has its space in the state already.
func (s *applying) room(isNew bool) error {
	u := s.u
	if u.copied == nil || s.source == nil {
		return nil
	}
	site, o := u.sites.at(s.source.Site), &u.c.opts
	most := o.MaxPages
	if s.names != nil { // pages that the snapshot omits are dropped only at its end
		most *= 2
	}
	if site.Pages-site.Gone+s.grown >= most || s.names != nil && s.names.count >= o.MaxPages {
		return &QuotaError{Pages: o.MaxPages}
	}
	if isNew && o.MaxState > 0 {
		if s.used == 0 {
			s.used = u.used()
		}
		if s.used > o.MaxState {
			return &QuotaError{State: o.MaxState}
		}
	}
	s.grown++
	return nil
}

// used returns how many bytes of the state count for MaxState: the history of events does not, and has a bound of its own.
// Measuring it reads its pages, so this is done only above the bound, where a result of the last minute does for admitting.
func (u *update) used() int64 {
	k, most := &u.c.sinks, u.c.opts.MaxState
	used := u.c.db.Used(u.tx)
	if used <= most {
		return used
	}
	if used-k.size > most || u.now.Sub(k.measured) >= time.Minute {
		k.size, k.measured = k.log.Journal().Size(u.tx), u.now
	}
	return used - k.size
}

// Pages named only by an unfinished snapshot are marked with its number: one more than the number of its
// source's finished snapshots. So finishing it writes nothing to them, and the next process knows them.

// wholeKey is the key, in the meta bucket, of the number of finished snapshots of a source.
func wholeKey(source uint64) []byte { return append([]byte("whole"), sourceKey(source)...) }

func wholes(tx *bbolt.Tx, source uint64) uint64 {
	n, _ := binary.Uvarint(tx.Bucket(metaBucket).Get(wholeKey(source)))
	return n
}

// countWhole counts a finished snapshot of a source.
func (u *update) countWhole(source uint64) error {
	if u.copied == nil {
		return nil
	}
	n := wholes(u.tx, source) + 1
	return u.tx.Bucket(metaBucket).Put(wholeKey(source), binary.AppendUvarint(nil, n))
}

// dropUnfinished drops the pages of a copy that only an unfinished snapshot names.
func (e *ending) dropUnfinished() error {
	var gone []frontier.PageID
	err := e.c.reading(func(tx *bbolt.Tx) error {
		whole := wholes(tx, e.source)
		return eachNamed(tx.Bucket(namedBucket), e.source, func(id frontier.PageID, n named) error {
			if n.by > whole {
				gone = append(gone, id)
			}
			return nil
		})
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	return e.drop(gone)
}
