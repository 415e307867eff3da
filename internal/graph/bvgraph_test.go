package graph_test

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/must"
)

// bvOptions are those of the WebGraph framework. The zero value has its codes, without references and intervals.
type bvOptions struct {
	window, leastRun, zetaK int
	flags                   string
}

// A bvWriter is the writer that the package lacks. It shares no code with the reader.
type bvWriter struct {
	strings.Builder // "0" and "1"
	bvOptions
}

func (w *bvWriter) code(part string, n uint64) {
	name := map[string]string{"REFERENCES": "UNARY", "RESIDUALS": "ZETA"}[part]
	for _, flag := range strings.Split(w.flags, " | ") {
		if code, ok := strings.CutPrefix(flag, part+"_"); ok {
			name = code
		}
	}
	switch name {
	case "UNARY":
		w.unary(n)
	case "DELTA":
		length := bits.Len64(n+1) - 1
		w.gamma(uint64(length))
		w.low(n+1, length)
	case "ZETA":
		w.zeta(n)
	case "NIBBLE":
		groups := max(bits.Len64(n)+2, 3) / 3
		for i := groups - 1; i >= 0; i-- {
			w.WriteString(map[bool]string{true: "1", false: "0"}[i == 0])
			w.low(n>>(3*i), 3)
		}
	default:
		w.gamma(n)
	}
}

// low writes the lowest bits of n.
func (w *bvWriter) low(n uint64, count int) {
	for i := count - 1; i >= 0; i-- {
		w.WriteByte('0' + byte(n>>i&1))
	}
}

func (w *bvWriter) unary(n uint64) { w.WriteString(strings.Repeat("0", int(n)) + "1") }

func (w *bvWriter) gamma(n uint64) {
	length := bits.Len64(n+1) - 1
	w.unary(uint64(length))
	w.low(n+1, length)
}

// zeta is as the paper defines it: x = n+1 lies in [2^hk, 2^(h+1)k), and x-2^hk is in minimal binary code there.
func (w *bvWriter) zeta(n uint64) {
	k := w.zetaK
	x, h := n+1, 0
	for x >= 1<<((h+1)*k) {
		h++
	}
	w.unary(uint64(h))
	rest, size := x-1<<(h*k), uint64(1)<<((h+1)*k)-1<<(h*k)
	length := bits.Len64(size - 1)    // bits of the long words
	short := uint64(1)<<length - size // as many numbers have words one bit shorter
	if rest < short {
		w.low(rest, length-1)
	} else {
		w.low(rest+short, length)
	}
}

func (w *bvWriter) bytes() []byte {
	text := w.String() + strings.Repeat("0", (8-w.Len()%8)%8)
	b := make([]byte, len(text)/8)
	for i, c := range []byte(text) {
		b[i/8] |= (c - '0') << (7 - i%8)
	}
	return b
}

// zigzag is how a difference is written that may be negative.
func zigzag(d int) uint64 {
	if d < 0 {
		return uint64(-2*d - 1)
	}
	return uint64(2 * d)
}

// list writes the links of a page, referring to the list of the page ref before it; 0 means to none.
func (w *bvWriter) list(page, ref int, links, referred []uint32) {
	w.code("OUTDEGREES", uint64(len(links)))
	if len(links) == 0 {
		return
	}
	if w.window > 0 {
		w.code("REFERENCES", uint64(ref))
	}
	extra := links
	if ref > 0 {
		extra = nil
		for _, j := range links {
			if !slices.Contains(referred, j) {
				extra = append(extra, j)
			}
		}
		var blocks []int
		copying := true
		run := 0
		for _, j := range referred {
			if slices.Contains(links, j) != copying {
				blocks = append(blocks, run)
				copying, run = !copying, 0
			}
			run++
		}
		w.code("BLOCK_COUNT", uint64(len(blocks)))
		for i, n := range blocks {
			w.code("BLOCKS", uint64(n-min(i, 1)))
		}
	}
	if len(extra) == 0 {
		return
	}
	if w.leastRun > 0 {
		var residuals []uint32
		var runs [][2]int // first, length
		for i := 0; i < len(extra); {
			n := 1
			for i+n < len(extra) && extra[i+n] == extra[i]+uint32(n) {
				n++
			}
			if n >= w.leastRun {
				runs = append(runs, [2]int{int(extra[i]), n})
			} else {
				residuals = append(residuals, extra[i:i+n]...)
			}
			i += n
		}
		w.gamma(uint64(len(runs)))
		for i, r := range runs {
			if i == 0 {
				w.gamma(zigzag(r[0] - page))
			} else {
				w.gamma(uint64(r[0] - runs[i-1][0] - runs[i-1][1] - 1))
			}
			w.gamma(uint64(r[1] - w.leastRun))
		}
		extra = residuals
	}
	for i, j := range extra {
		if i == 0 {
			w.code("RESIDUALS", zigzag(int(j)-page))
		} else {
			w.code("RESIDUALS", uint64(j-extra[i-1]-1))
		}
	}
}

func (o bvOptions) properties(pages, links int) string {
	return fmt.Sprintf("#BVGraph properties\n#a comment\ngraphclass=it.unimi.dsi.webgraph.BVGraph\nversion=0\nnodes=%d\narcs=%d\nwindowsize=%d\nminintervallength=%d\n"+
		"maxrefcount=3\nzetak=%d\ncompressionflags=%s\nbitsperlink=2.3\n", pages, links, o.window, o.leastRun, o.zetaK, o.flags)
}

// encode writes a graph, with references to lists that lie 0, 1, 2 ... pages back in turn.
func encode(g *graph.Graph, o bvOptions) (properties string, content []byte) {
	o.zetaK = max(o.zetaK, 1)
	w := &bvWriter{bvOptions: o}
	for i := range g.Len() {
		ref := min(i%(o.window+1), i)
		w.list(i, ref, g.Links(uint32(i)), g.Links(uint32(i-ref)))
	}
	return o.properties(g.Len(), len(g.To)), w.bytes()
}

// randomGraph has lists with stretches of neighbours, parts of earlier lists, and single links.
func randomGraph(rng *rand.Rand, pages int) *graph.Graph {
	g := &graph.Graph{First: []uint32{0}, Host: make([]uint32, pages), Hosts: []string{""}}
	for i := range pages {
		var list []uint32
		for range rng.IntN(4) {
			list = append(list, rng.Uint32N(uint32(pages)))
		}
		if rng.IntN(2) == 0 {
			from := rng.Uint32N(uint32(pages))
			for j := from; j < min(from+rng.Uint32N(12), uint32(pages)); j++ {
				list = append(list, j)
			}
		}
		if i > 0 && rng.IntN(2) == 0 {
			for _, j := range g.Links(uint32(rng.IntN(i))) {
				if rng.IntN(4) > 0 {
					list = append(list, j)
				}
			}
		}
		if rng.IntN(8) == 0 {
			list = nil
		}
		slices.Sort(list)
		g.To = append(g.To, slices.Compact(list)...)
		g.First = append(g.First, uint32(len(g.To)))
	}
	return g
}

// Every graph is read as it was written, with every code and every way to shorten a list.
func TestBVGraphRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for _, o := range []bvOptions{
		{},
		{window: 7, leastRun: 4, zetaK: 3},
		{window: 1, leastRun: 2, zetaK: 5, flags: "OUTDEGREES_DELTA | REFERENCES_GAMMA | BLOCKS_DELTA"},
		{window: 3, leastRun: 1, zetaK: 1, flags: "REFERENCES_DELTA | BLOCK_COUNT_DELTA | RESIDUALS_DELTA | OFFSETS_DELTA"},
		{window: 70, leastRun: 3, zetaK: 2, flags: "BLOCK_COUNT_UNARY | RESIDUALS_NIBBLE"},
		{window: 2, zetaK: 7, flags: "RESIDUALS_GAMMA"},
		{leastRun: 3, zetaK: 4, flags: "RESIDUALS_ZETA"},
	} {
		for pages := range 60 {
			g := randomGraph(rng, pages*pages/8+1)
			properties, content := encode(g, o)
			got, err := graph.ReadBV(strings.NewReader(properties), bytes.NewReader(content))
			if err != nil {
				t.Fatalf("%+v, %d pages: %v", o, g.Len(), err)
			}
			same(t, got, g)
		}
	}
}

// The example of Boldi and Vigna's paper, in the numbers of its tables: links, references, blocks, intervals and residuals of pages 15 to
// 18, of which the 17th has none.
func TestBVGraphOfThePaper(t *testing.T) {
	const pages = 3042
	w := &bvWriter{bvOptions: bvOptions{window: 3, leastRun: 2, zetaK: 3}}
	for range 15 {
		w.gamma(0)
	}
	w.gamma(11)
	w.unary(0)
	for _, n := range []uint64{2, 0, 3, 2, 0} {
		w.gamma(n)
	}
	for _, n := range []uint64{3, 189, 111, 718} {
		w.zeta(n)
	}
	w.gamma(10)
	w.unary(1)
	for _, n := range []uint64{7, 0, 0, 2, 1, 1, 0, 0, 1, 600, 0} {
		w.gamma(n)
	}
	w.zeta(12)
	w.zeta(3018)
	w.gamma(0)
	w.gamma(5)
	w.unary(3)
	for _, n := range []uint64{1, 4, 0} {
		w.gamma(n)
	}
	w.zeta(64)
	for range pages - 19 {
		w.gamma(0)
	}
	g := must.Get(graph.ReadBV(strings.NewReader(w.properties(pages, 26)), bytes.NewReader(w.bytes())))
	valid(t, g)
	for page, want := range map[uint32][]uint32{
		14: {},
		15: {13, 15, 16, 17, 18, 19, 23, 24, 203, 315, 1034},
		16: {15, 16, 17, 22, 23, 24, 315, 316, 317, 3041},
		17: {},
		18: {13, 15, 16, 17, 50},
	} {
		if got := g.Links(page); !slices.Equal(got, want) {
			t.Errorf("page %d: %v, want %v", page, got, want)
		}
	}
}

func TestWrongBVGraphs(t *testing.T) {
	g := read(t, "1 2 3\n1 2 3\n0\n\n", "")
	o := bvOptions{window: 3, leastRun: 2, zetaK: 3}
	properties, content := encode(g, o)
	set := func(old, new string) string { return strings.Replace(properties, old, new, 1) }
	stream := func(f func(w *bvWriter)) []byte {
		w := &bvWriter{bvOptions: o}
		f(w)
		return w.bytes()
	}
	numbers := func(w *bvWriter, list ...uint64) {
		for _, n := range list {
			w.gamma(n)
		}
	}
	for _, c := range []struct {
		properties string
		content    []byte
		want       string
	}{
		{set("nodes=4", "nodes=-1"), content, `read properties: nodes="-1": want a number from 0 to 4294967295`},
		{set("nodes=4", ""), content, `read properties: nodes="": want a number`},
		{set("windowsize=3", "windowsize=x"), content, `windowsize="x": want a number`},
		{set("zetak=3", "zetak=0"), content, `zetak="0": want a number from 1 to 16`},
		{set("version=0", "version=1"), content, `version "1", endianness "big": want`},
		{set("version=0", "version=0\nendianness=little"), content, `endianness "little": want`},
		{set("webgraph.BVGraph", "webgraph.EFGraph"), content, `graph of class "it.unimi.dsi.webgraph.EFGraph"`},
		{set("flags=", "flags=RESIDUALS_GOLOMB"), content, `compressionflags: "RESIDUALS_GOLOMB" is not supported`},
		{set("flags=", "flags=GAMMA"), content, `compressionflags: "GAMMA" is not supported`},
		{set("arcs=7", "arcs=8"), content, "read links: 7, but the properties say 8"},
		{set("arcs=7", "arcs=5"), content, "page 1: 3 links: more than the properties say"},
		{set("nodes=4", "nodes=3"), content, "page 0: interval from 1, of 3 pages"},
		{set("nodes=4", "nodes=1000000000"), content, "unexpected EOF"},
		{properties, content[:1], "unexpected EOF"},
		{properties, append(make([]byte, 100), 255), "number of more than 40 bits"},
		{properties, stream(func(w *bvWriter) { numbers(w, 5) }), "page 0: 5 links, to 4 pages"},
		{properties, stream(func(w *bvWriter) { numbers(w, 2); w.unary(1); numbers(w, 0, 0, 0) }), "page 0: refers to the list 1 pages before"},
		{properties, stream(func(w *bvWriter) { numbers(w, 1); w.unary(0); numbers(w, 0); w.zeta(8) }), "page 0: link to page 4 of 4"},
		{properties, stream(func(w *bvWriter) { numbers(w, 1); w.unary(0); numbers(w, 0); w.zeta(1) }), "page 0: link to page -1 of 4"},
		{properties, stream(func(w *bvWriter) { numbers(w, 2); w.unary(0); numbers(w, 1, 0, 1) }), "page 0: interval from 0, of 3 pages"},
		{properties, stream(func(w *bvWriter) { numbers(w, 3); w.unary(0); numbers(w, 1, 0, 0); w.zeta(0) }), "page 0: link to page 0 twice"},
		{properties, stream(func(w *bvWriter) { numbers(w, 2); w.unary(0); numbers(w, 1, 0, 0, 1); w.unary(1); numbers(w, 1, 3) }), "page 1: block of 3 links, of 2"},
		{properties, stream(func(w *bvWriter) { numbers(w, 2); w.unary(0); numbers(w, 1, 0, 0, 1); w.unary(1); numbers(w, 0) }), "page 1: copies 2 links, but has 1"},
	} {
		if _, err := graph.ReadBV(strings.NewReader(c.properties), bytes.NewReader(c.content)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x of %q: %v, want %q", c.content[:min(len(c.content), 20)], c.properties, err, c.want)
		}
	}

	// A few bytes that claim billions of links: every list is a copy of the first, an interval of 2^20 pages.
	const run = 1 << 20
	bomb := stream(func(w *bvWriter) {
		numbers(w, run)
		w.unary(0)
		numbers(w, 1, 0, run-2)
		for range 1999 {
			numbers(w, run)
			w.unary(1)
			numbers(w, 0)
		}
	})
	_, err := graph.ReadBV(strings.NewReader(o.properties(run, 2000*run)), bytes.NewReader(bomb))
	if err == nil || !strings.Contains(err.Error(), "or than a graph of this length has") {
		t.Errorf("bomb of %d bytes: %v", len(bomb), err)
	}
}

func FuzzReadBV(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, o := range []bvOptions{{}, {window: 7, leastRun: 4, zetaK: 3}, {window: 3, leastRun: 1, zetaK: 2, flags: "REFERENCES_DELTA | RESIDUALS_NIBBLE"}} {
		properties, content := encode(randomGraph(rng, 30), o)
		f.Add(properties, content)
	}
	f.Fuzz(func(t *testing.T, properties string, content []byte) {
		g, err := graph.ReadBV(strings.NewReader(properties), bytes.NewReader(content))
		if err != nil {
			return
		}
		valid(t, g)
		if most := 1<<20 + 1000*len(content); len(g.To) > most || g.Len() > 8*len(content) {
			t.Errorf("%d pages and %d links of %d bytes", g.Len(), len(g.To), len(content))
		}
	})
}
