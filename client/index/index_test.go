package index_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/index"
	"github.com/parleyweb/parley/internal/must"
)

type document struct {
	doc  index.Doc
	text string
}

// words of a small language, the common ones first.
func someText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "w%d ", int(math.Pow(r.Float64(), 4)*500))
	}
	return b.String()
}

func someDocs(r *rand.Rand, n int) (list []document) {
	for range n {
		d := document{index.Doc{URL: fmt.Sprintf("https://s%d.example/%d/p%d.html", r.IntN(3), r.IntN(5), r.IntN(400))}, ""}
		if r.IntN(10) == 0 {
			d.doc.Gone = true
		} else {
			d.text = someText(r, r.IntN(60))
			d.doc.Digest[r.IntN(32)] = byte(r.IntN(256))
		}
		list = append(list, d)
	}
	return list
}

func build(t testing.TB, b *index.Builder, docs []document) []byte {
	t.Helper()
	defer b.Close()
	for _, d := range docs {
		must.OK(t, b.AddPage(d.doc, "text/plain", []byte(d.text)))
	}
	var out bytes.Buffer
	must.OK(t, b.Write(context.Background(), &out))
	return out.Bytes()
}

func opener(b []byte) index.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func merge(t testing.TB, list ...[]byte) []byte {
	t.Helper()
	var openers []index.Opener
	for _, b := range list {
		openers = append(openers, opener(b))
	}
	var out bytes.Buffer
	must.OK(t, index.Merge(t.Context(), &out, openers...))
	return out.Bytes()
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		"The quick, brown\nFOX-trot": {"the", "quick", "brown", "fox", "trot"},
		"Çédille naïve 3.14 e\u0301": {"çédille", "naïve", "3", "14", "e\u0301"},
		"東京 tower":                   {"東", "京", "tower"},
		"a\xffb \xff":                {"a", "b"},
		strings.Repeat("x", 64) + " " + strings.Repeat("y", 65) + " z": {strings.Repeat("x", 64), "z"},
	} {
		if got := slices.Collect(index.Words([]byte(text))); !slices.Equal(got, want) {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

// Pages in other encodings than UTF-8 are indexed by the same words.
func TestTextIsDecoded(t *testing.T) {
	for _, c := range []struct{ mediaType, page string }{
		{"text/html; charset=windows-1251", "<p>\xcf\xee\xe3\xee\xe4\xe0"},
		{"text/html", "<meta charset=koi8-r><p>\xf0\xcf\xc7\xcf\xc4\xc1"},
		{"text/html", strings.Repeat(" ", 2000) + "<p>Погода"},
		{"text/plain;charset=iso-8859-5", "\xbf\xde\xd3\xde\xd4\xd0"},
	} {
		text := index.Text("https://a.example/", c.mediaType, []byte(c.page))
		if got := slices.Collect(index.Words(text)); !slices.Equal(got, []string{"погода"}) {
			t.Errorf("%s %.40q: %q", c.mediaType, c.page, got)
		}
	}
}

// A merged index equals, to the byte, the index built of everything; however it was divided,
// and however often it was saved in between.
func TestMergeIsUnion(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 15))
		docs := someDocs(r, r.IntN(300))
		want := build(t, &index.Builder{}, docs)
		must.OK(t, index.Check(bytes.NewReader(want)))
		if got := build(t, &index.Builder{Memory: 1 + r.IntN(20_000), Dir: t.TempDir()}, docs); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the index differs if parts are saved in between", seed)
		}
		var parts [][]byte
		for rest := docs; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			parts = append(parts, build(t, &index.Builder{}, rest[:n]))
			rest = rest[n:]
		}
		if got := merge(t, parts...); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the index merged from %d parts differs", seed, len(parts))
		}
		for len(parts) > 1 { // in any grouping
			i := r.IntN(len(parts) - 1)
			parts = slices.Replace(parts, i, i+2, merge(t, parts[i], parts[i+1]))
		}
		if len(parts) == 1 && !bytes.Equal(parts[0], want) {
			t.Fatalf("seed %d: merging is not associative", seed)
		}
		var b index.Builder
		for _, d := range docs { // as a site sends them
			one := build(t, &index.Builder{}, []document{d})
			must.OK(t, b.AddIndex(bytes.NewReader(one)))
		}
		if got := build(t, &b, nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the index merged from indexes of one page differs", seed)
		}
	}
}

func TestMergeFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	docs := someDocs(r, 200)
	dir := t.TempDir()
	var files []string
	for i, d := range docs {
		files = append(files, filepath.Join(dir, fmt.Sprint(i)))
		must.OK(t, os.WriteFile(files[i], build(t, &index.Builder{}, []document{d}), 0o600))
	}
	var got bytes.Buffer
	must.OK(t, index.MergeFiles(t.Context(), &got, dir, files...))
	if !bytes.Equal(got.Bytes(), build(t, &index.Builder{}, docs)) {
		t.Error("the index merged from 200 files differs")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "parley-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// search computes the expected result of Search by counting.
func search(docs []document, question string) []index.Hit {
	pages := make(map[string]document)
	for _, d := range docs {
		pages[d.doc.URL] = d
	}
	maps.DeleteFunc(pages, func(_ string, d document) bool { return d.doc.Gone })
	all, df := 0, make(map[string]int)
	words := slices.Compact(slices.Sorted(slices.Values(strings.Fields(question))))
	for _, d := range pages {
		on := strings.Fields(d.text)
		all += len(on)
		for _, w := range words {
			if slices.Contains(on, w) {
				df[w]++
			}
		}
	}
	var hits []index.Hit
	for url, d := range pages {
		on, score, every := strings.Fields(d.text), 0.0, len(words) > 0
		for _, w := range words {
			n := 0
			for _, x := range on {
				if x == w {
					n++
				}
			}
			every = every && n > 0
			score += math.Log(1+(float64(len(pages)-df[w])+.5)/(float64(df[w])+.5)) * float64(n) * 2.2 /
				(float64(n) + 1.2*(.25+.75*float64(len(on))*float64(len(pages))/float64(all)))
		}
		if every {
			hits = append(hits, index.Hit{URL: url, Score: score})
		}
	}
	slices.SortFunc(hits, func(a, b index.Hit) int { return cmp.Compare(a.URL, b.URL) })
	return hits
}

func TestSearch(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		docs := someDocs(r, r.IntN(600))
		b := build(t, &index.Builder{}, docs)
		x := must.Get(index.Open(bytes.NewReader(b), int64(len(b))))
		found := 0
		for range 200 {
			question := someText(r, r.IntN(4))
			want := search(docs, question)
			got, n, err := x.Search(question, 0)
			if err != nil || n != len(got) {
				t.Fatalf("Search(%q): %d of %d, %v", question, len(got), n, err)
			}
			if !slices.IsSortedFunc(got, func(a, b index.Hit) int { return cmp.Compare(b.Score, a.Score) }) {
				t.Errorf("Search(%q) is not sorted by score", question)
			}
			if few, n, _ := x.Search(question, 3); n != len(got) || !slices.Equal(few, got[:min(3, len(got))]) {
				t.Errorf("Search(%q) with a limit: %d, %v", question, n, few)
			}
			slices.SortFunc(got, func(a, b index.Hit) int { return cmp.Compare(a.URL, b.URL) })
			if !slices.EqualFunc(got, want, func(a, b index.Hit) bool { return a.URL == b.URL && math.Abs(a.Score-b.Score) < 1e-9 }) {
				t.Fatalf("Search(%q) = %v, want %v", question, got, want)
			}
			found += len(got)
		}
		if len(docs) > 100 && found == 0 {
			t.Error("no search found anything")
		}
	}
}

func TestManyPostings(t *testing.T) {
	var b index.Builder
	const n = 10_000 // more than two blocks
	for i := range n {
		must.OK(t, b.Add(index.Doc{URL: fmt.Sprintf("https://example.org/%05d", i), Words: uint64(i) + 1}, map[string]uint32{"all": uint32(i) + 1}))
	}
	out := build(t, &b, nil)
	x, err := index.Open(bytes.NewReader(out), int64(len(out)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := x.Postings("all")
	if err != nil || len(list) != n || list[n-1] != (index.Posting{Doc: n - 1, N: n}) {
		t.Fatalf("%d postings, %v", len(list), err)
	}
	if list, err := x.Postings("alm"); err != nil || list != nil {
		t.Errorf("of another term: %v, %v", list, err)
	}
	if err := index.Check(bytes.NewReader(out)); err != nil {
		t.Error(err)
	}
}

func TestMalformedIndexIsRefused(t *testing.T) {
	good := build(t, &index.Builder{}, someDocs(rand.New(rand.NewPCG(5, 5)), 70))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x41
		if err := index.Check(bytes.NewReader(bad)); err == nil {
			t.Fatalf("a changed byte %d is not detected", i)
		}
		if _, err := index.Open(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Fatalf("an index with a changed byte %d can be searched", i)
		}
		if _, err := index.Open(bytes.NewReader(good), int64(i)); err == nil {
			t.Fatalf("an index cut at %d can be searched", i)
		}
		if err := index.Check(bytes.NewReader(good[:i])); err == nil {
			t.Fatalf("an index cut at %d is not detected", i)
		}
	}
	if err := index.Check(bytes.NewReader(append(bytes.Clone(good), 0))); err == nil {
		t.Error("a byte after the end is not detected")
	}
	var b index.Builder
	for _, d := range []index.Doc{{}, {URL: strings.Repeat("u", index.MaxURL+1)}} {
		if err := b.Add(d, nil); err == nil {
			t.Errorf("a URL of %d bytes is accepted", len(d.URL))
		}
	}
	for _, terms := range []map[string]uint32{{"": 1}, {"a": 0}, {strings.Repeat("t", index.MaxTerm+1): 1}} {
		if err := b.Add(index.Doc{URL: "u"}, terms); err == nil {
			t.Errorf("%v is accepted", terms)
		}
	}
}

// Accepted bytes come out of a merge unchanged; rejected ones do no harm.
func FuzzIndex(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(build(f, &index.Builder{}, someDocs(rand.New(rand.NewPCG(seed, 9)), int(seed)*3)), "w1 w2")
	}
	f.Fuzz(func(t *testing.T, b []byte, question string) {
		whole := bytes.Clone(b) // with a valid checksum
		if len(whole) > 8 {
			binary.LittleEndian.PutUint64(whole[len(whole)-8:], uint64(crc32.ChecksumIEEE(whole[:len(whole)-8])))
		}
		if x, err := index.Open(bytes.NewReader(whole), int64(len(whole))); err == nil {
			x.Search(question, 10)
		}
		err := index.Check(bytes.NewReader(b))
		var out bytes.Buffer
		merged := index.Merge(t.Context(), &out, opener(b))
		if (err == nil) != (merged == nil) {
			t.Fatalf("Check: %v; Merge: %v", err, merged)
		}
		if err == nil && !bytes.Equal(out.Bytes(), b) {
			t.Errorf("an index of %d bytes is rewritten as a different one of %d", len(b), out.Len())
		}
		var builder index.Builder
		if added := builder.AddIndex(bytes.NewReader(b)); (added == nil) != (err == nil) {
			t.Errorf("Check: %v; AddIndex: %v", err, added)
		}
	})
}
