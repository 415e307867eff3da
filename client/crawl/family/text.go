package family

import "math/bits"

// A Text remembers which pairs of words were seen of late at a site: of the last 16,000 to 32,000 different ones, in 32 KiB.
// One pair in ten or fewer that is new is taken for one that was seen.
type Text struct {
	// Fill is of how many pages it is to remember the text before it compares others with that.
	Fill int

	now, before *[1 << 11]uint64
	count       int
}

const mostPairs = 16_000

// Share returns which share of pairs of words is new, and remembers them. 40 new ones are a new page, however
// much stands around them. Negative: too little was remembered to compare it with.
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
