package seed

import "encoding/binary"

// A shape is how many pages of a site were found at which depth, static and
// dynamic ones apart. It decides how deep a site is read beyond the base depth
// (B11): see doc.go for the rule, and for what it costs at most.
type shape [2]levels

// Levels are by depth. What is deeper than the last is counted there.
type levels []level

type level struct{ fresh, seen, duplicates uint64 }

const (
	// maxLevels is enough for any site that ends: beyond the base, every three
	// levels have half as many pages as the three before.
	maxLevels = 1024

	// A site may have so many pages beyond its base depth whatever its shape,
	// and a quarter as many as within. It pays for chains that do end.
	slack      = 100
	slackShare = 4

	// band is how many levels are compared with as many before.
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

// found is how many pages there are from one depth to before another.
// Duplicates are none: whoever meets one has gone back (B13).
func (l levels) found(from, to int) uint64 {
	n := uint64(0)
	for d := max(from, 0); d < min(to, len(l)); d++ {
		if l[d].fresh > l[d].duplicates {
			n += l[d].fresh - l[d].duplicates
		}
	}
	return n
}

// deeper reports whether one more page may be taken at a depth beyond base.
func (s *shape) deeper(depth, base int, dyn bool) bool {
	l := *s.of(dyn)
	if depth >= maxLevels {
		return false
	}
	if l.found(base+1, len(l)) < slack+l.found(0, base+1)/slackShare {
		return true
	}
	begin := depth - (depth-base-1)%band // of the band of levels that depth is in
	return 2*(l.found(begin, begin+band)+1) <= l.found(begin-band, begin)
}

// bytes is a version, and then for both kinds how many levels, and the levels.
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

// restore reads what bytes wrote. Anything else is a site of no shape: it is
// learned again.
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
