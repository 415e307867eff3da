package graph

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A graph of a few bytes can claim any number of links, since a list may be a copy of another, and an interval as long as one likes. The
// links of real graphs take one to twenty bits each; one that needs less than a hundredth of a bit is refused beyond the first million.
const (
	freeLinks    = 1 << 20
	linksPerByte = 1000
)

// ReadBV reads a graph in the format of Boldi and Vigna ("The WebGraph Framework I: Compression Techniques", WWW 2004), version 0, as
// the WebGraph framework writes it in Java: X.properties and X.graph. The offsets of its lists are not needed. All codes of the
// framework are read but Golomb's. All pages are of one host whose name is unknown. Memory is bounded by the length of the graph.
//
// It was tested with the example of that paper and with a writer of our own, not yet with a file that the framework wrote.
func ReadBV(properties, graph io.Reader) (*Graph, error) {
	d := &bvReader{in: bitReader{r: bufio.NewReaderSize(graph, 64<<10)}, g: &Graph{First: []uint32{0}}}
	if err := d.configure(properties); err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	for i := range d.pages {
		if err := d.page(i); err != nil {
			return nil, fmt.Errorf("read links of page %d: %w", i, err)
		}
		d.g.First = append(d.g.First, uint32(len(d.g.To)))
	}
	if int64(len(d.g.To)) != d.links {
		return nil, fmt.Errorf("read links: %d, but the properties say %d", len(d.g.To), d.links)
	}
	return d.g.oneHost(), nil
}

// A bvReader reads one list of links after the other. What the format calls nodes and arcs are pages and links.
type bvReader struct {
	in           bitReader
	g            *Graph
	pages, links int64
	window       int64 // how far back a list may refer to another, in pages
	leastRun     int64 // the length of the shortest interval; 0: there are none

	degree, reference, blockCount, block, residual code
}

// configure reads the properties: lines of "key=value".
func (d *bvReader) configure(r io.Reader) error {
	values := map[string]string{"version": "0", "endianness": "big", "zetak": "3", "graphclass": "BVGraph"}
	in := bufio.NewScanner(r) // lines of 64 KiB at most
	for in.Scan() {
		if key, value, ok := strings.Cut(in.Text(), "="); ok {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	if c := values["graphclass"]; !strings.HasSuffix(c, "BVGraph") || values["version"] != "0" || values["endianness"] != "big" {
		return fmt.Errorf("graph of class %.80q, version %.20q, endianness %.20q: want BVGraph, 0, big", c, values["version"], values["endianness"])
	}
	for _, p := range []struct {
		key         string
		to          *int64
		least, most int64
	}{
		{"nodes", &d.pages, 0, math.MaxUint32},
		{"arcs", &d.links, 0, math.MaxUint32},
		{"windowsize", &d.window, 0, math.MaxInt32},
		{"minintervallength", &d.leastRun, 0, math.MaxInt32},
		{"zetak", &d.in.zetaK, 1, 16},
	} {
		n, err := strconv.ParseInt(values[p.key], 10, 64)
		if err != nil || n < p.least || n > p.most {
			return fmt.Errorf("%s=%.20q: want a number from %d to %d", p.key, values[p.key], p.least, p.most)
		}
		*p.to = n
	}

	d.degree, d.reference, d.blockCount, d.block, d.residual = gamma, unary, gamma, gamma, zeta
	var offsets code // they are in another file
	parts := map[string]*code{
		"OUTDEGREES": &d.degree, "REFERENCES": &d.reference, "BLOCK_COUNT": &d.blockCount, "BLOCKS": &d.block,
		"RESIDUALS": &d.residual, "OFFSETS": &offsets,
	}
	codes := map[string]code{"UNARY": unary, "GAMMA": gamma, "DELTA": delta, "ZETA": zeta, "NIBBLE": nibble}
	for flag := range strings.SplitSeq(values["compressionflags"], "|") {
		flag = strings.TrimSpace(flag)
		if flag == "" {
			continue
		}
		at := max(strings.LastIndexByte(flag, '_'), 0)
		part, code := parts[flag[:at]], codes[strings.TrimPrefix(flag[at:], "_")]
		if part == nil || code == nil {
			return fmt.Errorf("compressionflags: %.40q is not supported", flag)
		}
		*part = code
	}
	return nil
}

// page reads the list of the next page, i: what it copies of an earlier list, then intervals, then single links.
func (d *bvReader) page(i int64) error {
	g, start := d.g, len(d.g.To)
	degree := d.in.number(d.degree)
	room := min(d.links, freeLinks+linksPerByte*d.in.bytes) - int64(start)
	switch {
	case d.in.err != nil || degree == 0:
		return d.in.err
	case degree > d.pages:
		return fmt.Errorf("%d links, to %d pages", degree, d.pages)
	case degree > room:
		return fmt.Errorf("%d links: more than the properties say, or than a graph of this length has", degree)
	}
	if err := d.copied(i, degree); err != nil {
		return err
	}
	if left := degree - int64(len(g.To)-start); left > 0 && d.leastRun > 0 {
		if err := d.intervals(i, left); err != nil {
			return err
		}
	}
	next := i
	for k := range degree - int64(len(g.To)-start) {
		next = d.in.follow(next, k == 0, d.residual)
		if d.in.err != nil || next < 0 || next >= d.pages {
			return errorOr(d.in.err, "link to page %d of %d", next, d.pages)
		}
		g.To = append(g.To, uint32(next))
		next++
	}
	list := g.To[start:]
	slices.Sort(list)
	for k := 1; k < len(list); k++ {
		if list[k-1] == list[k] {
			return fmt.Errorf("link to page %d twice", list[k])
		}
	}
	return d.in.err
}

// copied appends what the list of page i, of so many links, has in common with that of an earlier page: blocks of it, every other one.
func (d *bvReader) copied(i, degree int64) error {
	if d.window == 0 {
		return nil
	}
	back := d.in.number(d.reference)
	if d.in.err != nil || back == 0 {
		return d.in.err
	}
	if back > d.window || back > i {
		return fmt.Errorf("refers to the list %d pages before, beyond the window of %d", back, d.window)
	}
	from, start := d.g.Links(uint32(i-back)), len(d.g.To)
	blocks := d.in.number(d.blockCount)
	for k := int64(0); k <= blocks; k++ {
		n := int64(len(from)) // the last block goes to the end
		if k < blocks {
			n = d.in.number(d.block)
			if k > 0 {
				n++ // only the first may be empty
			}
		}
		if d.in.err != nil || n > int64(len(from)) {
			return errorOr(d.in.err, "block of %d links, of %d", n, len(from))
		}
		if k%2 == 0 {
			d.g.To = append(d.g.To, from[:n]...)
		}
		from = from[n:]
	}
	if n := int64(len(d.g.To) - start); n > degree {
		return fmt.Errorf("copies %d links, but has %d", n, degree)
	}
	return nil
}

// intervals appends links of page i to stretches of pages, at most left of them.
func (d *bvReader) intervals(i, left int64) error {
	next := i
	for k := range d.in.number(gamma) {
		next = d.in.follow(next, k == 0, gamma)
		run := d.in.number(gamma) + d.leastRun
		if d.in.err != nil || run > left || next < 0 || next+run > d.pages {
			return errorOr(d.in.err, "interval from %d, of %d pages", next, run)
		}
		left -= run
		for range run {
			d.g.To = append(d.g.To, uint32(next))
			next++
		}
		next++ // the page after an interval is in none, else they were one
	}
	return d.in.err
}

// errorOr returns err, or an error with a text if it is nil.
func errorOr(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}

// A bitReader reads codes of numbers, bit by bit, the highest of a byte first. After an error all numbers are 0.
type bitReader struct {
	r     *bufio.Reader
	word  uint64 // its lowest have bits are the next
	have  int
	bytes int64 // that were read
	err   error
	zetaK int64
}

// A code is a way to write a number.
type code func(*bitReader) uint64

const maxBits = 40 // of a number; none above 2^33 has a meaning

// number reads a number in a code; it is below 2^57, so that sums of two fit.
func (b *bitReader) number(c code) int64 {
	n := c(b)
	if b.err != nil {
		return 0
	}
	return int64(n)
}

// follow reads how far the next page is from where one was expected: the first of a list may lie before it.
func (b *bitReader) follow(expected int64, first bool, c code) int64 {
	n := b.number(c)
	if !first {
		return expected + n
	}
	return expected + (n>>1 ^ -(n & 1)) // 0, -1, 1, -2, 2 ...
}

func (b *bitReader) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// bits reads n bits, at most 56.
func (b *bitReader) bits(n int) uint64 {
	for b.have < n {
		c, err := b.r.ReadByte()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			b.fail(err)
			return 0
		}
		b.bytes++
		b.word, b.have = b.word<<8|uint64(c), b.have+8
	}
	b.have -= n
	return b.word >> b.have & (1<<n - 1)
}

// unary is as many 0 as the number says, and a 1.
func unary(b *bitReader) (n uint64) {
	for b.bits(1) == 0 && b.err == nil {
		n++
	}
	return n
}

// after reads the n bits of a number that follow its highest, which is not written.
func (b *bitReader) after(n uint64) uint64 {
	if n > maxBits {
		b.fail(errors.New("number of more than 40 bits"))
		return 1
	}
	return 1<<n | b.bits(int(n))
}

func gamma(b *bitReader) uint64 { return b.after(unary(b)) - 1 }
func delta(b *bitReader) uint64 { return b.after(gamma(b)) - 1 }

// zeta is a unary number of groups of k bits, then the rest in minimal binary code.
func zeta(b *bitReader) uint64 {
	groups := unary(b)
	if groups > uint64(maxBits/b.zetaK) {
		b.fail(errors.New("number of more than 40 bits"))
		return 0
	}
	low := int64(groups) * b.zetaK
	n := b.bits(int(low + b.zetaK - 1))
	if n < 1<<low {
		return n + 1<<low - 1
	}
	return n<<1 + b.bits(1) - 1
}

// nibble is groups of 3 bits, each after a bit that is 1 for the last.
func nibble(b *bitReader) (n uint64) {
	for last := uint64(0); last == 0 && b.err == nil; {
		if n >= 1<<maxBits {
			b.fail(errors.New("number of more than 40 bits"))
		}
		last = b.bits(1)
		n = n<<3 | b.bits(3)
	}
	return n
}
