package graph_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

const (
	fewLinks = "1 2\n2\n\n0 2\n5\n4\n"
	fewPages = "#id\thost\tpath\tbytes\n" +
		"0\ta.example\ta/index.html\t10\n1\ta.example\tlong.html\t20\n2\tb.example\thttp://b.example/x/y\t30\n" +
		"3\ta.example\tb.html\t40\n4\tc.example\thttp://c.example\t50\n5\tc.example\t/index.html\t60\n"
)

// A recorded graph is read, its crawl begins at each host's start page, and what can be reached from some of them is a graph of its own.
func TestReadAndReach(t *testing.T) {
	g := read(t, fewLinks, fewPages)
	if g.Len() != 6 || !slices.Equal(g.Links(3), []uint32{0, 2}) || len(g.Links(2)) != 0 {
		t.Errorf("%d pages, %v", g.Len(), g.To)
	}
	if want := []string{"/a/index.html", "/long.html", "/x/y", "/b.html", "/", "/index.html"}; !slices.Equal(g.Path, want) {
		t.Errorf("paths %q", g.Path)
	}
	if got := g.Starts(); !slices.Equal(got, []uint32{3, 2, 4}) {
		t.Errorf("starts %v", got)
	}
	r := g.Reachable([]uint32{0, 5})
	if !slices.Equal(r.First, []uint32{0, 2, 3, 3, 4, 5}) || !slices.Equal(r.To, []uint32{1, 2, 2, 4, 3}) {
		t.Errorf("reached: %v %v", r.First, r.To)
	}
	if !slices.Equal(r.Host, []uint32{0, 0, 1, 2, 2}) || !slices.Equal(r.Hosts, g.Hosts) || r.Path[3] != "/" || r.Bytes[4] != 60 {
		t.Errorf("reached: %+v", r)
	}
	if r := g.Reachable([]uint32{4}); r.Len() != 2 || !slices.Equal(r.Hosts, []string{"c.example"}) || !slices.Equal(r.Host, []uint32{0, 0}) {
		t.Errorf("reached from c.example: %+v", r)
	}
	if r := g.Reachable(nil); r.Len() != 0 || len(r.Hosts) != 0 {
		t.Errorf("reached from nothing: %+v", r)
	}

	unnamed := read(t, fewLinks, "")
	if unnamed.Path != nil || !slices.Equal(unnamed.Hosts, []string{""}) || !slices.Equal(unnamed.Starts(), []uint32{0}) {
		t.Errorf("without names: %+v", unnamed)
	}
	if empty := read(t, "", ""); empty.Len() != 0 || len(empty.Starts()) != 0 || len(empty.Pagerank(graph.Pagerank{})) != 0 {
		t.Errorf("empty: %+v", empty)
	}
}

// read reads a graph from texts; "" for nodes means none.
func read(t testing.TB, adj, nodes string) *graph.Graph {
	t.Helper()
	g := must.Get(readTexts(adj, nodes))
	valid(t, g)
	return g
}

func readTexts(adj, nodes string) (*graph.Graph, error) {
	var names io.Reader
	if nodes != "" {
		names = strings.NewReader(nodes)
	}
	return graph.Read(strings.NewReader(adj), names)
}

// valid checks what a Graph promises.
func valid(t testing.TB, g *graph.Graph) {
	t.Helper()
	n := g.Len()
	if len(g.Host) != n || g.Path != nil && len(g.Path) != n || g.Bytes != nil && len(g.Bytes) != n || n > 0 && (g.First[0] != 0 || int(g.First[n]) != len(g.To)) {
		t.Fatalf("%d pages, %d hosts of pages, %d paths, %d lengths, First %v, %d links", n, len(g.Host), len(g.Path), len(g.Bytes), g.First[:min(len(g.First), 9)], len(g.To))
	}
	for i := range uint32(n) {
		links := g.Links(i)
		for k, j := range links {
			if int(j) >= n || k > 0 && links[k-1] >= j {
				t.Fatalf("page %d of %d: links %v", i, n, links)
			}
		}
		if int(g.Host[i]) >= len(g.Hosts) {
			t.Fatalf("page %d: host %d of %d", i, g.Host[i], len(g.Hosts))
		}
		if g.Path != nil && !strings.HasPrefix(g.Path[i], "/") {
			t.Fatalf("page %d: path %q", i, g.Path[i])
		}
	}
}

func TestWrongTexts(t *testing.T) {
	for _, c := range []struct{ adj, nodes, want string }{
		{"1\n\n2 x\n", "", `line 3: unexpected 'x'`},
		{"1\n\n2 1\n", "", "line 3: page 1 after page 2"},
		{"1 1\n\n", "", "line 1: page 1 after page 1"},
		{"\n-1\n", "", `line 2: unexpected '-'`},
		{"1\n2\n", "", "line 2: links to page 2, but there are 2 pages"},
		{"99999999999999999999999\n", "", "line 1: number of a page above 4294967295"},
		{"1\n0", "", "line 2: no newline at its end: unexpected EOF"},
		{"1\n0 ", "", "line 2: no newline at its end: unexpected EOF"},
		{"\n\n", "0\ta\n", "line 2: 1 pages are named, but there are 2"},
		{"\n", "0\ta\n1\ta\n", "line 2: names a page more than the 1 that there are"},
		{"\n\n", "0\ta\n0\ta\n", `line 2: page number "0", want 1`},
		{"\n\n", "0\ta\n1\ta\tb\n", "line 2: 3 columns, want"},
		{"\n", "0\n", "line 1: 1 columns, want"},
		{"\n", "0\ta\tb\t4294967296\n", `line 1: length "4294967296" of a page`},
		{"\n", "#id\n0\ta", "line 2: no newline at its end: unexpected EOF"},
		{"\n", "0\t" + strings.Repeat("a", 70_000) + "\n", "line 1: longer than 65536 bytes"},
	} {
		if _, err := readTexts(c.adj, c.nodes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %.40q: %v, want %q", c.adj, c.nodes, err, c.want)
		}
	}
}

// What is read can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(fewLinks, fewPages)
	f.Add("\r\n0  1 \n", "0\t\n1\t\n")
	f.Add("4294967295\n", "#\n")
	f.Add("\n", "0\ta\thttp://a?b/c\t0\n")
	f.Fuzz(func(t *testing.T, adj, nodes string) {
		g, err := readTexts(adj, nodes)
		if err != nil {
			return
		}
		valid(t, g)
		again := must.Get(readTexts(texts(g)))
		same(t, again, g)
	})
}

// texts writes a graph as Read reads it.
func texts(g *graph.Graph) (adj, nodes string) {
	var a, n strings.Builder
	for i := range g.Len() {
		for _, j := range g.Links(uint32(i)) {
			fmt.Fprintf(&a, "%d ", j)
		}
		a.WriteByte('\n')
		fmt.Fprintf(&n, "%d\t%s", i, g.Hosts[g.Host[i]])
		if g.Path != nil {
			n.WriteString("\t" + g.Path[i])
		}
		if g.Bytes != nil {
			fmt.Fprintf(&n, "\t%d", g.Bytes[i])
		}
		n.WriteByte('\n')
	}
	return a.String(), n.String()
}

func same(t testing.TB, g, want *graph.Graph) {
	t.Helper()
	if !slices.Equal(g.First, want.First) || !slices.Equal(g.To, want.To) || !slices.Equal(g.Host, want.Host) || !slices.Equal(g.Hosts, want.Hosts) ||
		!slices.Equal(g.Path, want.Path) || !slices.Equal(g.Bytes, want.Bytes) {
		t.Fatalf("%+v\nwant %+v", g, want)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	var packed bytes.Buffer
	z := coding.NewZstd(&packed)
	must.Get(io.WriteString(z, fewLinks))
	must.OK(t, z.Close())
	write("text.adj", []byte(fewLinks))
	write("packed.adj.zst", packed.Bytes())
	write("packed.nodes.tsv", []byte(fewPages))
	properties, content := encode(read(t, fewLinks, ""), bvOptions{})
	write("bv.properties", []byte(properties))
	write("bv.graph", content)
	write("short.adj.zst", packed.Bytes()[:packed.Len()-4])
	write("wrong.adj", []byte(fewLinks))
	write("wrong.nodes.tsv", []byte("0\n"))
	write("alone.graph", content)
	write("cut.properties", []byte(properties))
	write("cut.graph", content[:len(content)-1])

	for name, nodes := range map[string]string{"text.adj": "", "packed.adj.zst": fewPages, "bv.graph": ""} {
		g := must.Get(graph.Open(filepath.Join(dir, name)))
		same(t, g, read(t, fewLinks, nodes))
	}
	for name, want := range map[string]string{
		"none.adj":      "none.adj: no such file",
		"short.adj.zst": "short.adj.zst: read zstd: unexpected EOF",
		"wrong.adj":     "wrong.nodes.tsv: line 1: 1 columns",
		"alone.graph":   "alone.properties: no such file",
		"cut.graph":     "read graph: " + filepath.Join(dir, "cut.graph") + ": read links of page ",
		"links.txt":     "links.txt: the name of a file of links ends in .adj, .adj.zst or .graph",
	} {
		if _, err := graph.Open(filepath.Join(dir, name)); err == nil || !strings.HasPrefix(err.Error(), "read graph: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// The recorded graphs have as many pages, links and hosts as those who counted them independently say.
func TestRecordedGraphs(t *testing.T) {
	for _, c := range []struct {
		name                string
		pages, links, hosts int
	}{
		{"debian-docs-web", 123_876, 3_899_370, 33},
		{"hollins-edu", 6_012, 23_875, 4}, // two of them real: two URLs of the recording are cut off
		{"epa", 4_772, 8_965, 3_220},
		{"toronto-automobiles", 3_460, 12_796, 1_844},
		{"toronto-cheese", 3_266, 11_660, 1_873},
		{"wb-cs-stanford", 9_914, 35_555, 1},
	} {
		g := must.Get(graph.Open(machine.Data(t, "graphs", c.name+".adj.zst")))
		valid(t, g)
		if g.Len() != c.pages || len(g.To) != c.links || len(g.Hosts) != c.hosts {
			t.Errorf("%s: %d pages, %d links, %d hosts", c.name, g.Len(), len(g.To), len(g.Hosts))
		}
		starts := g.Starts()
		if len(starts) != c.hosts {
			t.Errorf("%s: %d start pages", c.name, len(starts))
		}
		if c.name != "debian-docs-web" {
			continue
		}
		r := g.Reachable(starts)
		valid(t, r)
		dangling := 0
		for i := range uint32(r.Len()) {
			if len(r.Links(i)) == 0 {
				dangling++
			}
		}
		if r.Len() != 91_478 || len(r.To) != 3_445_570 || dangling != 1_419 {
			t.Errorf("reachable: %d pages, %d links, %d pages without links", r.Len(), len(r.To), dangling)
		}
		sum, rank := 0.0, r.Pagerank(graph.Pagerank{})
		for _, x := range rank {
			sum += x
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("ranks sum to %v", sum)
		}
		once := r.Pagerank(graph.Pagerank{Start: rank, Iterations: 1})
		if d := distance(rank, once); d > 1e-9 {
			t.Errorf("one step more changes the ranks by %v", d)
		}
	}
}
