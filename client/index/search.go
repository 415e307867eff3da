package index

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sort"
)

// An Index is open for searching. It reads as much as a query needs, and caches nothing. It may be used by
// many goroutines at once, if its file can be read so.
type Index struct {
	Docs, Gone, Words, Terms uint64

	from            io.ReaderAt
	docsAt, termsAt uint64
}

// Open opens an index of a number of bytes. It reads all of it once, sequentially, for its checksum, and does
// not verify the format beyond that.
func Open(from io.ReaderAt, size int64) (*Index, error) {
	if size < int64(len(magic)+trailer+2) {
		return nil, fmt.Errorf("open index: %w", malformed("only %d bytes", size))
	}
	b := make([]byte, max(len(magic), trailer))
	if _, err := from.ReadAt(b[:len(magic)], 0); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("open index: %w", malformed("begins with %q", b[:len(magic)]))
	}
	if _, err := from.ReadAt(b[:trailer], size-trailer); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	x := &Index{from: from}
	for i, to := range []*uint64{&x.Docs, &x.Gone, &x.Words, &x.Terms, &x.docsAt, &x.termsAt} {
		*to = binary.LittleEndian.Uint64(b[8*i:])
	}
	places := func(n uint64) uint64 { return (n + every - 1) / every * 8 }
	whole := uint64(size - trailer)
	if x.Docs > mostDocs || x.Gone > x.Docs || x.Terms > whole || x.docsAt > whole || x.termsAt > whole ||
		x.docsAt+places(x.Docs) != x.termsAt || x.termsAt+places(x.Terms) != whole {
		return nil, fmt.Errorf("open index: %w", malformed("inconsistent trailer"))
	}
	sum := crc32.NewIEEE()
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(from, 0, size-8), make([]byte, 256<<10))
	if err == nil && n != size-8 {
		err = malformed("truncated")
	}
	if err == nil && binary.LittleEndian.Uint64(b[trailer-8:]) != uint64(sum.Sum32()) {
		err = malformed("wrong checksum")
	}
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	return x, nil
}

// at returns a reader positioned at the i-th of the offsets that begin at places, with the counts of entries
// before it.
func (x *Index) at(places, i uint64) (*reader, error) {
	var b [8]byte
	if _, err := x.from.ReadAt(b[:], int64(places+8*i)); err != nil {
		return nil, err
	}
	place := binary.LittleEndian.Uint64(b[:])
	if place >= x.docsAt {
		return nil, malformed("offset out of range")
	}
	r := &reader{r: bufio.NewReaderSize(io.NewSectionReader(x.from, int64(place), int64(x.docsAt-place)), 16<<10), sum: nowhere{}}
	r.w.docs, r.w.terms = x.Docs, i*every
	if places == x.docsAt {
		r.w.docs = i * every
	}
	return r, nil
}

// nowhere replaces the checksum of a file that is not read from its beginning.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Sum(b []byte) []byte         { return b }
func (nowhere) Reset()                      {}
func (nowhere) Size() int                   { return 0 }
func (nowhere) BlockSize() int              { return 1 }
func (nowhere) Sum32() uint32               { return 0 }

// postings returns the postings of a term, in the order of documents: none if no document has it.
func (x *Index) postings(term string) (list []posting, err error) {
	if x.Terms == 0 {
		return nil, nil
	}
	groups := int((x.Terms + every - 1) / every)
	// The last group whose first term is not after this one.
	i := sort.Search(groups, func(i int) bool {
		var r *reader
		if err == nil {
			r, err = x.at(x.termsAt, uint64(i))
		}
		if err == nil {
			_, err = r.nextTerm()
		}
		return err != nil || r.term > term
	})
	if err != nil || i == 0 {
		return nil, wrapAsk(err)
	}
	r, err := x.at(x.termsAt, uint64(i-1))
	for n := uint64(i-1) * every; err == nil && n < min(x.Terms, uint64(i)*every); n++ {
		var ok bool
		if ok, err = r.nextTerm(); err != nil || !ok || r.term > term {
			break
		}
		if r.term == term {
			for p, err := range r.postings() {
				if err != nil {
					return nil, wrapAsk(err)
				}
				list = append(list, p)
			}
			return list, nil
		}
	}
	return nil, wrapAsk(err)
}

func wrapAsk(err error) error {
	if err != nil {
		return fmt.Errorf("query index: %w", err)
	}
	return nil
}

// docs calls f with the documents of ascending numbers.
func (x *Index) docs(numbers []uint32, f func(i int, d *Doc)) error {
	var r *reader
	var d Doc
	var err error
	for i, n := range numbers {
		if group := uint64(n) / every; r == nil || r.w.docs > uint64(n) || r.w.docs/every < group {
			if r, err = x.at(x.docsAt, group); err != nil {
				return wrapAsk(err)
			}
		}
		for r.w.docs <= uint64(n) {
			var ok bool
			if d, ok, err = r.doc(); err != nil || !ok {
				return wrapAsk(cmp.Or(err, malformed("missing document")))
			}
		}
		f(i, &d)
	}
	return nil
}

// A Hit is a document that has all words of a query.
type Hit struct {
	URL   string
	Score float64
}

// Search returns the documents that have all words of a query, the most relevant first by BM25 (k1 = 1.2, b =
// 0.75), and by URL if equal; and their number. It returns at most limit; zero is all.
func (x *Index) Search(question string, limit int) (hits []Hit, found int, err error) {
	terms, _ := count([]byte(question))
	words := make([]string, 0, len(terms))
	for t := range terms {
		words = append(words, t)
	}
	slices.Sort(words) // for a reproducible order of floating-point additions
	if len(words) == 0 {
		return nil, 0, nil
	}
	lists := make([][]posting, len(words))
	for i, w := range words {
		if lists[i], err = x.postings(w); err != nil || len(lists[i]) == 0 {
			return nil, 0, err
		}
	}
	numbers, counts := intersect(lists)
	mean := float64(x.Words) / float64(max(1, x.Docs-x.Gone))
	hits = make([]Hit, len(numbers))
	err = x.docs(numbers, func(i int, d *Doc) {
		const k1, b = 1.2, 0.75
		hits[i].URL = d.URL
		for k := range words {
			df, n, docs := float64(len(lists[k])), float64(counts[i][k]), float64(x.Docs-x.Gone)
			idf := math.Log(1 + (docs-df+0.5)/(df+0.5))
			hits[i].Score += idf * n * (k1 + 1) / (n + k1*(1-b+b*float64(d.Words)/mean))
		}
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.URL, b.URL)) })
	found = len(hits)
	if limit > 0 && found > limit {
		hits = hits[:limit]
	}
	return hits, found, nil
}

// intersect returns the documents that are in all lists, and the counts of each term there.
func intersect(lists [][]posting) (numbers []uint32, counts [][]uint32) {
	at := make([]int, len(lists))
	for _, p := range lists[0] {
		c := []uint32{p.N}
		for k := 1; k < len(lists); k++ {
			for at[k] < len(lists[k]) && lists[k][at[k]].Doc < p.Doc {
				at[k]++
			}
			if at[k] == len(lists[k]) || lists[k][at[k]].Doc != p.Doc {
				break
			}
			c = append(c, lists[k][at[k]].N)
		}
		if len(c) == len(lists) {
			numbers, counts = append(numbers, p.Doc), append(counts, c)
		}
	}
	return numbers, counts
}

// Sole returns the document of an index that has exactly one, after reading all of it.
func Sole(from io.Reader) (d Doc, err error) {
	r, err := newReader(from)
	if err != nil {
		return d, err
	}
	d, ok, err := r.doc()
	if err != nil {
		return d, err
	}
	if _, more, err := r.doc(); err != nil {
		return d, err
	} else if !ok || more {
		return d, errors.New("not the index of exactly one document")
	}
	for ok := true; ok && err == nil; {
		ok, err = r.nextTerm()
	}
	return d, err
}
