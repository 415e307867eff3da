package maintext

import (
	"encoding/binary"
	"iter"
	"slices"
	"unicode/utf8"
)

// A sketch summarizes the words of a text, a multiset. Every word adds 1 to, or subtracts 1 from, one of 128
// counters, chosen by its hash; the second "the" has another hash than the first. In the difference of the
// counters of two texts, common words cancel out; the squares of the rest sum up, on average, to the number
// of words that are in only one text. (Charikar, Chen and Farach-Colton 2002 have the sketch; Thorup and
// Zhang 2004 this use of it.) The error is relative to that number and not to the texts, with a standard
// deviation of sqrt(2/128), an eighth: one changed word on a long page is seen as one word.
//
// It is encoded as
//
//	1 byte   the version, 1
//	1 to 5   the number of words, a varint
//	4        the beginning of the text's digest, so that equal sketches mean equal texts
//	1        k
//	n        the counters, each as a Rice code with k low bits, the last byte filled with zeros
//
// A counter is a random walk: it takes 3 bits on a page of a few hundred words, 7 on one of 100,000. It is
// limited to 12 bits, which only a text made for that exceeds. Since that much always fits, a sketch has at
// most 219 bytes.
type sketch struct {
	words    uint64
	check    [4]byte
	counters [counters]int16
}

const (
	version    = 1
	counters   = 128
	maxCounter = 1<<11 - 1
	maxWords   = 1<<32 - 1
	maxK       = 11
)

func newSketch(text []byte, digest [32]byte) *sketch {
	hashes := make([]uint64, 0, len(text)/5)
	for w := range words(text) {
		hashes = append(hashes, hash(w))
	}
	hashes = together(hashes)
	s := &sketch{words: min(uint64(len(hashes)), maxWords), check: [4]byte(digest[:])}
	var sums [counters]int
	var last, nth uint64
	for _, h := range hashes {
		if h != last {
			last, nth = h, 0
		}
		nth++
		x := mix(h + nth*0x9e3779b97f4a7c15)
		sums[x%counters] += 1 - 2*int(x>>63)
	}
	for i, c := range sums {
		s.counters[i] = int16(min(max(c, -maxCounter), maxCounter))
	}
	return s
}

// together orders hashes so that equal ones are neighbours. It sorts 256 parts of them, which is faster than to sort all.
func together(hashes []uint64) []uint64 {
	const parts = 1 << 8
	var ends [parts]int
	for _, h := range hashes {
		ends[h%parts]++
	}
	sum := 0
	for i, n := range ends {
		ends[i], sum = sum, sum+n
	}
	list := make([]uint64, len(hashes))
	for _, h := range hashes {
		list[ends[h%parts]] = h
		ends[h%parts]++
	}
	start := 0
	for _, end := range ends {
		if end-start > 1 {
			slices.Sort(list[start:end])
		}
		start = end
	}
	return list
}

// distance estimates how many words are in only one of two texts.
func (s *sketch) distance(o *sketch) uint64 {
	var sum uint64
	for i := range s.counters {
		d := int64(s.counters[i]) - int64(o.counters[i])
		sum += uint64(d * d)
	}
	return sum
}

func (s *sketch) append(b []byte) []byte {
	b = append(b, version)
	b = binary.AppendUvarint(b, s.words)
	b = append(b, s.check[:]...)
	best, size := 0, s.size(0)
	for best < maxK { // beyond the best k, sizes only grow
		next := s.size(best + 1)
		if next >= size {
			break
		}
		best, size = best+1, next
	}
	w := bitWriter{b: append(b, byte(best))}
	for _, c := range s.counters {
		u := zigzag(c)
		for n := int(u >> best); n > 0; n -= 32 {
			w.write(1<<min(n, 32)-1, min(n, 32))
		}
		w.write(0, 1)
		w.write(u&(1<<best-1), best)
	}
	return w.end()
}

// size returns the number of bits that the counters take with k low bits each.
func (s *sketch) size(k int) (n int) {
	for _, c := range s.counters {
		n += int(zigzag(c)>>k) + 1 + k
	}
	return n
}

// parseSketch parses the output of append, and nothing else.
func parseSketch(b []byte) (*sketch, bool) {
	if len(b) == 0 || b[0] != version {
		return nil, false
	}
	s := new(sketch)
	words, n := binary.Uvarint(b[1:])
	if n <= 0 || words > maxWords || len(b) < 1+n+len(s.check)+1 {
		return nil, false
	}
	s.words, b = words, b[1+n:]
	copy(s.check[:], b)
	k := int(b[len(s.check)])
	if k > maxK {
		return nil, false
	}
	r := bitReader{b: b[len(s.check)+1:]}
	for i := range s.counters {
		var u uint
		for r.read(1) == 1 {
			if u++; u > (2*maxCounter)>>k {
				return nil, false
			}
		}
		u = u<<k | r.read(k)
		if u > 2*maxCounter {
			return nil, false
		}
		s.counters[i] = unzigzag(u)
	}
	return s, r.done()
}

// zigzag maps 0, -1, 1, -2, 2 ... to 0, 1, 2, 3, 4 ...
func zigzag(c int16) uint { return uint(uint16(c<<1 ^ c>>15)) }

func unzigzag(u uint) int16 { return int16(u>>1) ^ -int16(u&1) }

// A bitWriter appends bits, the highest of a byte first.
type bitWriter struct {
	b    []byte
	bits uint64 // not yet in b, the lowest n
	n    int    // fewer than 8 between two calls
}

// write appends the n lowest bits, at most 32.
func (w *bitWriter) write(bits uint, n int) {
	w.bits, w.n = w.bits<<n|uint64(bits), w.n+n
	for ; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.bits>>(w.n-8)))
	}
}

// end returns all bytes. Zeros fill the last one.
func (w *bitWriter) end() []byte {
	w.write(0, -w.n&7)
	return w.b
}

// A bitReader reads the output of a bitWriter. After the end it reads zeros, and is never done.
type bitReader struct {
	b  []byte
	at int
}

func (r *bitReader) read(n int) (bits uint) {
	for range n {
		bits <<= 1
		if r.at < 8*len(r.b) {
			bits |= uint(r.b[r.at/8]>>(7-r.at%8)) & 1
		}
		r.at++
	}
	return bits
}

// done reports whether all bits were read, except for the zeros that fill the last byte.
func (r *bitReader) done() bool {
	if (r.at+7)/8 != len(r.b) {
		return false
	}
	return r.read(len(r.b)*8-r.at) == 0
}

// words yields the words separated by white space. In scripts without it every character is a word.
func words(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		begin := 0
		cut := func(i int) bool { return begin == i || yield(text[begin:i]) }
		for i := 0; i < len(text); {
			c := text[i]
			switch {
			case c == ' ' || c == '\n':
				if !cut(i) {
					return
				}
				i++
				begin = i
				continue
			case c >= 0xe0:
				if r, n := utf8.DecodeRune(text[i:]); alone(r) {
					if !cut(i) || !yield(text[i:i+n]) {
						return
					}
					i += n
					begin = i
					continue
				}
			}
			i++
		}
		cut(len(text))
	}
}

// alone reports whether a character is of a script without spaces: Thai and
// Lao, Burmese, Khmer, Chinese and Japanese.
func alone(r rune) bool {
	switch {
	case r < 0x0e00:
	case r < 0x0f00, 0x1000 <= r && r < 0x10a0, 0x1780 <= r && r < 0x1800,
		0x2e80 <= r && r < 0xa4d0, 0xf900 <= r && r < 0xfb00, 0xff00 <= r && r < 0xfff0, 0x20000 <= r && r < 0x40000:
		return true
	}
	return false
}

// hash is FNV-1a. Sketches are stored for longer than a program version lives, so neither hash nor mix may
// ever change without the version.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// mix makes every bit of a hash depend on every other (splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
