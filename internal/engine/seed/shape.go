package seed

import "encoding/binary"

// A shape counts the pages of a site by depth, static and dynamic ones
// separately. It decides how deep a site is crawled beyond the base depth (B11):
// see doc.go for the rule and its bound.
type shape [2]levels

// levels are indexed by depth. Deeper pages are counted in the last one.
type levels []level

type level struct{ fresh, seen, duplicates uint64 }

const (
	// maxLevels is enough for any site that ends: beyond the base, every three
	// levels have half as many pages as the three before.
	maxLevels = 1024

	// The credit of a site beyond its base depth, whatever its shape: slack pages, and
	// a quarter as many as within the base. It is for chains that do end.
	slack      = 100
	slackShare = 4

	// band is how many levels are compared with the same number before.
	band = 3
)

func (s *shape) of(dyn bool) *levels {
	if dyn {
		return &s[1]
	}
	return &s[0]
}

func (s *shape) count(t Tally) {
	l := s.of(t.Dynamic)
	d := min(t.Depth, maxLevels-1)
	for len(*l) <= d {
		*l = append(*l, level{})
	}
	at := &(*l)[d]
	at.fresh += uint64(max(t.New, 0))
	at.seen += uint64(max(t.Seen, 0))
	at.duplicates += uint64(max(t.Duplicates, 0))
}

// found returns how many pages there are at depths from (inclusive) to to (exclusive).
// Duplicates do not count: a link to one leads back (B13).
func (l levels) found(from, to int) uint64 {
	n := uint64(0)
	for d := max(from, 0); d < min(to, len(l)); d++ {
		if l[d].fresh > l[d].duplicates {
			n += l[d].fresh - l[d].duplicates
		}
	}
	return n
}

// deeper reports whether one more page may be admitted at a depth beyond base.
func (s *shape) deeper(depth, base int, dyn bool) bool {
	l := *s.of(dyn)
	if depth >= maxLevels {
		return false
	}
	if l.found(base+1, len(l)) < slack+l.found(0, base+1)/slackShare {
		return true
	}
	begin := depth - (depth-base-1)%band // of depth's band
	return 2*(l.found(begin, begin+band)+1) <= l.found(begin-band, begin)
}

// bytes returns the stored form: a version, and then for both kinds the number of levels, and the levels.
func (s *shape) bytes() []byte {
	if len(s[0])+len(s[1]) == 0 {
		return nil
	}
	b := []byte{1}
	for _, l := range s {
		b = binary.AppendUvarint(b, uint64(len(l)))
		for _, v := range l {
			b = binary.AppendUvarint(b, v.fresh)
			b = binary.AppendUvarint(b, v.seen)
			b = binary.AppendUvarint(b, v.duplicates)
		}
	}
	return b
}

// restore reads what bytes wrote. Anything else gives an empty shape, to be learned
// again.
func (s *shape) restore(b []byte) {
	*s = shape{}
	if len(b) == 0 || b[0] != 1 {
		return
	}
	b = b[1:]
	next := func() (v uint64) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	for i := range s {
		n := next()
		if n > maxLevels {
			*s = shape{}
			return
		}
		for range n {
			s[i] = append(s[i], level{next(), next(), next()})
		}
	}
}
