package versions

import (
	"cmp"
	"errors"
	"slices"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// keepEach is the number of old versions of a page that outlast all further ones:
// a page that changes every minute must not displace the versions of other pages.
const keepEach = 8

// makeRoom reserves size bytes. If they are not free it deletes versions until a
// tenth of the space is free. Old versions go before current ones: those of pages
// with many first, then the least recently used. Of current ones the largest go
// first: they leave the most room for others.
func (k *disk) makeRoom(size int64) {
	if k.index.reserve(size) <= k.maxBytes {
		return
	}
	k.sweeping.Lock()
	defer k.sweeping.Unlock()
	if k.index.reserve(0) <= k.maxBytes {
		return // another goroutine has made room
	}
	k.sweep(k.maxBytes - k.maxBytes/10)
}

// spare reports whether size bytes can be written without using the reserve. If
// not, it first deletes versions to restore the reserve.
func (k *disk) spare(size int64) bool {
	free, known := atomicfile.Spare(k.dir, k.reserve)
	if free > size+k.maxBytes/10 {
		k.health.tight.Store(false)
	}
	if !known || free >= size {
		return true
	}
	was := k.health.tight.Swap(true)
	k.giveBack(size - free)
	if free, _ = atomicfile.Spare(k.dir, k.reserve); free < size {
		k.failed(errFull)
		return false
	}
	if !was {
		k.log.Warn("the file system is nearly full: fewer old versions of pages are stored", "dir", k.dir)
	}
	return true
}

var errFull = errors.New("the file system is nearly full")

// filled reports whether there is little room left: one current version does not
// displace another.
func (k *disk) filled() bool {
	return k.index.reserve(0) > k.maxBytes-k.maxBytes/10 || k.health.failed.Load() != nil || k.health.tight.Load()
}

// giveBack deletes size bytes of versions, and a tenth of the rest, since each
// sweep has to examine all of them.
func (k *disk) giveBack(size int64) {
	k.sweeping.Lock()
	defer k.sweeping.Unlock()
	k.sweep(max(0, k.index.reserve(0)-size) / 10 * 9)
}

// sweep deletes the least valuable versions until at most goal bytes are stored.
// The caller holds sweeping.
func (k *disk) sweep(goal int64) {
	if n, _ := k.index.size(); n == 0 {
		return
	}
	present, err := k.current()
	if err != nil {
		k.log.Warn("old versions of pages: cannot determine which are current", "err", err)
	}
	list := k.index.candidates(present)
	slices.SortFunc(list, func(a, b candidate) int {
		if a.present && b.present {
			return cmp.Compare(b.size, a.size)
		}
		return cmp.Or(cmp.Compare(a.worth(), b.worth()), cmp.Compare(a.used, b.used))
	})
	gone := k.remove(list, goal)
	k.log.Debug("deleted old versions of pages to make room", "gone", gone, "kept", len(list)-gone)
}

// worth is higher for versions that are deleted later.
func (c candidate) worth() int {
	switch {
	case c.present:
		return 2
	case c.rank < keepEach:
		return 1
	}
	return 0
}
