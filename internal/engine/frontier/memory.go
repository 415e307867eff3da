package frontier

import (
	"cmp"
	"slices"
	"sort"
)

// A MemoryStore is a Store in memory, for the simulator and for tests. PageIDs must be dense: it needs 24
// bytes for every one up to the greatest. The zero value is empty. It is not safe for concurrent use.
type MemoryStore struct {
	places  []Entry // by page; Page 0: it has none
	ready   map[SiteID]*sorted
	waiting sorted
}

func ready(a, b Entry) int {
	if c := cmp.Compare(b.Rank, a.Rank); c != 0 {
		return c
	}
	return cmp.Compare(a.Page, b.Page)
}

func waiting(a, b Entry) int {
	if c := cmp.Compare(a.At, b.At); c != 0 {
		return c
	}
	return cmp.Compare(a.Page, b.Page)
}

// Put sets a page's entry, replacing an old one: a ready entry if At is 0.
func (m *MemoryStore) Put(e Entry) {
	m.Remove(e.Page)
	if n := int(e.Page) + 1 - len(m.places); n > 0 {
		m.places = append(m.places, make([]Entry, n)...)
	}
	e.Rank = number(e.Rank)
	m.places[e.Page] = e
	if e.At != 0 {
		m.waiting.insert(e, waiting)
		return
	}
	q := m.ready[e.Site]
	if q == nil {
		if m.ready == nil {
			m.ready = map[SiteID]*sorted{}
		}
		q = &sorted{}
		m.ready[e.Site] = q
	}
	q.insert(e, ready)
}

// Remove removes a page's entry: it is not to be fetched any more.
func (m *MemoryStore) Remove(p PageID) {
	e, ok := m.Entry(p)
	if !ok {
		return
	}
	m.places[p] = Entry{}
	if e.At != 0 {
		m.waiting.remove(e, waiting)
		return
	}
	q := m.ready[e.Site]
	if q.remove(e, ready); q.n == 0 {
		delete(m.ready, e.Site)
	}
}

// Entry returns a page's entry, if it has one.
func (m *MemoryStore) Entry(p PageID) (Entry, bool) {
	if p >= PageID(len(m.places)) || m.places[p].Page == 0 {
		return Entry{}, false
	}
	return m.places[p], true
}

func (m *MemoryStore) Sites(f func(SiteID, int) error) error {
	for id, q := range m.ready {
		if err := f(id, q.n); err != nil {
			return err
		}
	}
	return nil
}

func (m *MemoryStore) Ready(site SiteID) (int, error) {
	if q := m.ready[site]; q != nil {
		return q.n, nil
	}
	return 0, nil
}

func (m *MemoryStore) Head(site SiteID, after Entry, n int) ([]Entry, error) {
	q := m.ready[site]
	if q == nil {
		return nil, nil
	}
	return q.head(after, n, ready), nil
}

func (m *MemoryStore) Promote(now int64, n int) (list []Entry, err error) {
	const bite = 64 // mostly few are due, whatever n is
	for len(list) < n {
		some := m.waiting.head(Entry{}, min(n-len(list), bite), waiting)
		due := sort.Search(len(some), func(i int) bool { return some[i].At > now })
		for _, e := range some[:due] {
			e.At = 0
			m.Put(e)
			list = append(list, e)
		}
		if due < bite {
			break
		}
	}
	return list, nil
}

func (m *MemoryStore) Next() (int64, error) {
	if m.waiting.n == 0 {
		return 0, nil
	}
	return m.waiting.blocks[0][0].At, nil
}

func (m *MemoryStore) Rerank(old, new []Entry) error {
	for i, e := range old {
		if now, ok := m.Entry(e.Page); ok && now == e {
			m.Put(new[i])
		}
	}
	return nil
}

// sorted is a sorted list in blocks, so that changes of a long one are cheap.
type sorted struct {
	blocks [][]Entry // none is empty
	n      int
}

const blockSize = 512

// block returns the index of the block that contains e, or would.
func (q *sorted) block(e Entry, order func(a, b Entry) int) int {
	i := sort.Search(len(q.blocks), func(i int) bool { return order(q.blocks[i][0], e) > 0 })
	return max(0, i-1)
}

func (q *sorted) insert(e Entry, order func(a, b Entry) int) {
	q.n++
	if len(q.blocks) == 0 {
		q.blocks = append(q.blocks, []Entry{e})
		return
	}
	b := q.block(e, order)
	i, _ := slices.BinarySearchFunc(q.blocks[b], e, order)
	list := slices.Insert(q.blocks[b], i, e)
	q.blocks[b] = list
	if len(list) < blockSize {
		return
	}
	half := len(list) / 2
	if i == len(list)-1 { // entries added in order fill their blocks
		half = i
	}
	q.blocks = slices.Insert(q.blocks, b+1, slices.Clone(list[half:]))
	q.blocks[b] = list[:half:half]
}

func (q *sorted) remove(e Entry, order func(a, b Entry) int) {
	b := q.block(e, order)
	i, ok := slices.BinarySearchFunc(q.blocks[b], e, order)
	if !ok {
		return
	}
	q.n--
	if q.blocks[b] = slices.Delete(q.blocks[b], i, i+1); len(q.blocks[b]) == 0 {
		q.blocks = slices.Delete(q.blocks, b, b+1)
	}
}

// head returns up to n entries after one; the zero Entry means from the first.
func (q *sorted) head(after Entry, n int, order func(a, b Entry) int) []Entry {
	b, i := 0, 0
	if after.Page != 0 && len(q.blocks) > 0 {
		b = q.block(after, order)
		var found bool
		if i, found = slices.BinarySearchFunc(q.blocks[b], after, order); found {
			i++
		}
	}
	list := make([]Entry, 0, min(n, q.n))
	for ; b < len(q.blocks) && len(list) < n; b, i = b+1, 0 {
		list = append(list, q.blocks[b][i:min(len(q.blocks[b]), i+n-len(list))]...)
	}
	return list
}
