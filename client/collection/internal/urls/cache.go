package urls

import (
	"math/bits"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A Cache holds the URLs of a transaction: pages of a site have the same links again and again, and verifying
// a known URL costs a read of the file. Its memory is reused for the next transaction.
// It is for one goroutine.
type Cache struct {
	slots []int32 // 1 + index into rows
	rows  []Row
	shift int
}

// A Row is what a Cache knows of a URL.
type Row struct {
	Hash  uint64
	URL   string
	ID    frontier.PageID // 0: refused
	Depth int             // as it was at the lookup
	Out   bool            // it was excluded
}

// Reset empties the table and makes it ready for n URLs.
func (t *Cache) Reset(n int) {
	clear(t.rows) // frees the URLs
	t.rows = t.rows[:0]
	size := 1 << bits.Len(uint(2*n+64))
	if size > len(t.slots) || size < len(t.slots)/16 {
		t.slots = make([]int32, size)
	} else {
		clear(t.slots)
	}
	t.shift = 64 - bits.TrailingZeros(uint(len(t.slots)))
}

// Find returns the row of a URL, or nil and the slot for one.
func (t *Cache) Find(hash uint64, url string) (*Row, int) {
	mask := len(t.slots) - 1
	for i := int(hash >> t.shift); ; i++ {
		n := t.slots[i&mask]
		if n == 0 {
			return nil, i & mask
		}
		if r := &t.rows[n-1]; r.Hash == hash && r.URL == url {
			return r, 0
		}
	}
}

// Add puts a row into the slot that Find returned.
func (t *Cache) Add(slot int, r Row) *Row {
	if 2*len(t.rows) >= len(t.slots) { // more URLs than Reset was called for
		t.slots = make([]int32, 2*len(t.slots))
		t.shift--
		for i := range t.rows {
			_, at := t.Find(t.rows[i].Hash, t.rows[i].URL)
			t.slots[at] = int32(i + 1)
		}
		_, slot = t.Find(r.Hash, r.URL)
	}
	t.rows = append(t.rows, r)
	t.slots[slot] = int32(len(t.rows))
	return &t.rows[len(t.rows)-1]
}
