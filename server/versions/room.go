package versions

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/protocol"
)

// keepEach is the number of old versions of a page that outlast all further ones:
// a page that changes every minute must not displace the versions of other pages.
const keepEach = 8

// A candidate is a version that may be deleted.
type candidate struct {
	id      pageID
	version version
	rank    int  // among the old versions of its page, the newest being 0
	present bool // it is the current version of its page
}

// makeRoom reserves size bytes. If they are not free it deletes versions until a
// tenth of the space is free. Old versions go before current ones: those of pages
// with many first, then the least recently used. Of current ones the largest go
// first: they leave the most room for others.
func (s *Store) makeRoom(size int64) {
	if s.setAside(size) {
		return
	}
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if s.setAside(0) {
		return // another goroutine has made room
	}
	s.sweep(s.maxBytes() - s.maxBytes()/10)
}

// spare reports whether size bytes can be written without using the Reserve. If
// not, it first deletes versions to restore the Reserve.
func (s *Store) spare(size int64) bool {
	free, known := atomicfile.Spare(s.Dir, s.Reserve)
	s.mu.Lock()
	first := known && free < size && !s.tight
	if first {
		s.tight = true
	} else if free > size+s.maxBytes()/10 {
		s.tight = false
	}
	s.mu.Unlock()
	if !known || free >= size {
		return true
	}
	s.giveBack(size - free)
	if free, _ = atomicfile.Spare(s.Dir, s.Reserve); free < size {
		s.inTrouble(errFull)
		return false
	}
	if first {
		s.log().Warn("the file system is nearly full: fewer old versions of pages are stored", "dir", s.Dir)
	}
	return true
}

var errFull = errors.New("the file system is nearly full")

// giveBack deletes size bytes of versions, and a tenth of the rest, since each
// sweep has to examine all of them.
func (s *Store) giveBack(size int64) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	s.mu.Lock()
	goal := max(0, s.bytes-size) / 10 * 9
	s.mu.Unlock()
	s.sweep(goal)
}

// sweep deletes the least valuable versions until at most goal bytes are stored.
// sweeping is held.
func (s *Store) sweep(goal int64) {
	if s.Stats().Versions == 0 {
		return
	}
	present, err := s.present()
	if err != nil {
		s.log().Warn("old versions of pages: cannot determine which are current", "err", err)
	}
	list := s.candidates(present)
	slices.SortFunc(list, func(a, b candidate) int {
		switch {
		case a.present != b.present:
			return toInt(a.present) - toInt(b.present)
		case a.present:
			return cmp.Compare(b.version.size, a.version.size)
		}
		return cmp.Or(toInt(a.rank < keepEach)-toInt(b.rank < keepEach), cmp.Compare(a.version.used, b.version.used))
	})
	var out []candidate
	s.mu.Lock()
	for _, c := range list {
		if s.bytes <= goal {
			break
		}
		s.forget(c.id, c.version.digest)
		out = append(out, c)
	}
	s.mu.Unlock()
	for _, c := range out {
		os.Remove(s.path(c.id, c.version.digest))
	}
	s.log().Debug("deleted old versions of pages to make room", "gone", len(out), "kept", len(list)-len(out))
}

// setAside counts size bytes as used, and reports whether the total is within the bound.
func (s *Store) setAside(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += size
	return s.bytes <= s.maxBytes()
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// present returns the current digests of the public pages that have stored versions.
func (s *Store) present() (map[pageID]protocol.Digest, error) {
	if s.Journal == nil {
		return nil, nil
	}
	v, err := s.Journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	now := make(map[pageID]protocol.Digest)
	for e, err := range v.Entries() {
		if err != nil {
			return now, err
		}
		id := idOf(e.Item.URL)
		s.mu.Lock()
		kept := len(s.pages[id]) > 0
		s.mu.Unlock()
		if kept && s.public(e.Item.URL) {
			now[id] = e.Item.Digest
		}
	}
	return now, nil
}

func (s *Store) candidates(present map[pageID]protocol.Digest) []candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]candidate, 0, s.count)
	for id, versions := range s.pages {
		slices.SortFunc(versions, func(a, b version) int { return cmp.Compare(b.used, a.used) })
		now, ok := present[id]
		rank := 0
		for _, v := range versions {
			c := candidate{id: id, version: v, present: ok && v.digest == now}
			if !c.present {
				c.rank, rank = rank, rank+1
			}
			list = append(list, c)
		}
	}
	return list
}
