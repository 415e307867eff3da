package urls

import (
	"hash/maphash"
	"math/bits"
	"sync"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A Set is the set of known URLs in memory: 64 bits of a keyed hash and a page number each, 14 to 17 bytes.
// Every process has its own key, so that nobody can make URLs that collide. It is rebuilt whenever the
// collection is opened. It is safe for concurrent use.
//
// Each shard is an open table whose slots follow the order of the hashes (ordered linear probing): a table
// can be filled to seven eighths, since the search for an absent hash ends at the first greater one, and
// grown by a sixth in one sweep.
type Set struct {
	seed   maphash.Seed
	shards [shards]shard
}

const (
	shards = 256
	slack  = 16 // slots after the last home, and a sixty-fourth more
)

type shard struct {
	mu     sync.RWMutex
	hashes []uint64
	ids    []uint32 // 0: the slot is free
	n      int
	homes  int
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{seed: maphash.MakeSeed()} }

// Hash returns the hash of a URL.
func (s *Set) Hash(url string) uint64      { return maphash.String(s.seed, url) }
func (s *Set) hashBytes(url []byte) uint64 { return maphash.Bytes(s.seed, url) }

// home returns the slot of a hash in an empty table. It never falls as the hash grows.
func (t *shard) home(h uint64) int {
	hi, _ := bits.Mul64(h<<8, uint64(t.homes))
	return int(hi)
}

// Find appends the pages whose URLs have a hash: nearly always none or one.
func (s *Set) Find(dst []frontier.PageID, h uint64) []frontier.PageID {
	t := &s.shards[h>>56]
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.homes == 0 {
		return dst
	}
	for i := t.home(h); i < len(t.ids) && t.ids[i] != 0 && t.hashes[i] <= h; i++ {
		if t.hashes[i] == h {
			dst = append(dst, frontier.PageID(t.ids[i]))
		}
	}
	return dst
}

// Add adds a page by the hash of its URL.
func (s *Set) Add(h uint64, id frontier.PageID) {
	t := &s.shards[h>>56]
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.n*8 >= t.homes*7 || !t.insert(h, uint32(id)) {
		t.grow()
	}
	t.n++
}

// insert reports whether there was room after the last home.
func (t *shard) insert(h uint64, id uint32) bool {
	i := t.home(h)
	for i < len(t.ids) && t.ids[i] != 0 && t.hashes[i] <= h {
		i++
	}
	end := i
	for end < len(t.ids) && t.ids[end] != 0 {
		end++
	}
	if end == len(t.ids) {
		return false
	}
	copy(t.hashes[i+1:end+1], t.hashes[i:end])
	copy(t.ids[i+1:end+1], t.ids[i:end])
	t.hashes[i], t.ids[i] = h, id
	return true
}

func (t *shard) grow() {
	hashes, ids := t.hashes, t.ids
	for fits := false; !fits; {
		t.homes += t.homes/6 + 8
		size := t.homes + t.homes/64 + slack
		t.hashes, t.ids = make([]uint64, size), make([]uint32, size)
		next := 0
		fits = true
		for i, id := range ids {
			if id == 0 {
				continue
			}
			next = max(next, t.home(hashes[i]))
			if next == size {
				fits = false
				break
			}
			t.hashes[next], t.ids[next] = hashes[i], id
			next++
		}
	}
}

// Bytes returns the size of the tables.
func (s *Set) Bytes() (n int) {
	for i := range s.shards {
		t := &s.shards[i]
		t.mu.RLock()
		n += 8*cap(t.hashes) + 4*cap(t.ids)
		t.mu.RUnlock()
	}
	return n
}
