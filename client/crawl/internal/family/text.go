package family

import "math/bits"

// A Text remembers the word pairs seen lately at a site: the last 16,000 to 32,000 different ones, in 32 KiB.
// At most one new pair in ten is taken for a known one.
type Text struct {
	// Fill is the number of pages that are remembered before others are compared with them.
	Fill int

	now, before *[1 << 11]uint64
	count       int
}

const mostPairs = 16_000

// Share returns the share of new pairs, and remembers all. 40 new pairs make a new page (1), whatever the
// share. It is negative while too little is remembered to compare with.
func (t *Text) Share(pairs []uint32) float64 {
	if t.now == nil {
		t.now, t.before = new([1 << 11]uint64), new([1 << 11]uint64)
	}
	fresh := 0
	for _, p := range pairs {
		h := uint64(p) * 0x9e3779b97f4a7c15
		i, a := h>>53, uint64(1)<<(h>>47&63)
		j, b := bits.Reverse64(h)>>53, uint64(1)<<(h>>20&63)
		if t.now[i]&a != 0 && t.now[j]&b != 0 {
			continue
		}
		if t.before[i]&a == 0 || t.before[j]&b == 0 {
			fresh++
		}
		t.now[i] |= a
		t.now[j] |= b
		if t.count++; t.count == mostPairs {
			t.now, t.before, t.count = t.before, t.now, 0
			clear(t.now[:])
		}
	}
	switch {
	case t.Fill > 0:
		t.Fill--
		return -1
	case fresh >= 40:
		return 1
	case len(pairs) == 0:
		return 0
	}
	return float64(fresh) / float64(len(pairs))
}
