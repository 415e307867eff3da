package rank

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A History has ranks of pages from outside of the crawl, of 0 and more: those of an earlier crawl (L08-L11), or scores of another program
// (V01). It needs 16 bytes a page.
type History struct {
	seed  maphash.Seed
	ranks []earlier // by URL, once read
}

type earlier struct {
	url  uint64 // a hash of it
	rank float32
}

// longestLine is the most bytes of a line of a history.
const longestLine = 1 << 20

// ReadHistory reads the ranks of at most so many pages from a path; nil if that is empty. In a file each line is a URL and its rank, with
// spaces between, or an object of JSON with the fields url and rank, as "crawler pages --format json" prints; empty lines, and those that
// begin with #, are skipped. If a URL comes twice the first line counts. For the directory of a collection, which no other process may
// write to, the ranks are the Pagerank of its pages, 1 for the average page; jump is that of graph.Pagerank. An error names the line.
func ReadHistory(ctx context.Context, path string, most int, jump float64) (*History, error) {
	if path == "" {
		return nil, nil
	}
	h := &History{seed: maphash.MakeSeed()}
	add := func(url string, rank float64) error {
		if len(h.ranks) == most {
			return fmt.Errorf("more than %d pages", most)
		}
		h.ranks = append(h.ranks, earlier{maphash.String(h.seed, url), float32(min(rank, math.MaxFloat32))})
		return nil
	}
	read := readLines
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		read = func(ctx context.Context, dir string, add func(string, float64) error) error {
			return rankAll(ctx, dir, jump, add)
		}
	}
	if err := read(ctx, path, add); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(h.ranks, func(e earlier) bool { return e.rank > 0 }) {
		return nil, fmt.Errorf("%s: no page has a rank above 0", path)
	}
	slices.SortStableFunc(h.ranks, func(a, b earlier) int { return cmp.Compare(a.url, b.url) })
	h.ranks = slices.CompactFunc(h.ranks, func(a, b earlier) bool { return a.url == b.url }) // or a page would be drawn twice as often
	return h, nil
}

// readLines reads a file of ranks.
func readLines(ctx context.Context, path string, add func(url string, rank float64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })() // a pipe may send nothing
	lines, number := bufio.NewScanner(pause.Reader(ctx, f)), 1
	lines.Buffer(nil, longestLine)
	for ; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		url, rank, err := parseRank(line)
		if err == nil {
			err = add(url, rank)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	err = lines.Err()
	switch {
	case err == bufio.ErrTooLong:
		return fmt.Errorf("%s:%d: longer than %d bytes", path, number, longestLine)
	case err != nil:
		return fmt.Errorf("%s:%d: %w", path, number, err)
	}
	return nil
}

var errLine = errors.New(`want a URL and its rank, of 0 or more, such as "https://www.example.org/ 1.5", or a line of "crawler pages --format json"`)

func parseRank(line string) (url string, rank float64, err error) {
	if strings.HasPrefix(line, "{") {
		var row struct {
			URL  string
			Rank float64
		}
		err = json.Unmarshal([]byte(line), &row)
		url, rank = row.URL, row.Rank
	} else if words := strings.Fields(line); len(words) == 2 {
		url = words[0]
		rank, err = strconv.ParseFloat(words[1], 64)
	}
	if err != nil || url == "" || !(rank >= 0) || math.IsInf(rank, 1) {
		return "", 0, errLine
	}
	url, err = protocol.CanonicalURL("", url)
	return url, rank, err
}

// rankAll computes the Pagerank of the pages of a collection.
func rankAll(ctx context.Context, dir string, jump float64, add func(url string, rank float64) error) (err error) {
	col, err := collection.Open(dir, &collection.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, col.Close()) }()
	ranks, err := storedBy(ctx, col).pagerank(jump)
	if err != nil {
		return err
	}
	for p, err := range col.Pages(ctx) {
		if err == nil && int(p.ID) <= len(ranks) {
			err = add(p.URL, float64(ranks[p.ID-1]))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// of returns the rank of a page. A nil History has none.
func (h *History) of(url string) (rank float32, ok bool) {
	if h == nil {
		return 0, false
	}
	i, ok := slices.BinarySearchFunc(h.ranks, maphash.String(h.seed, url), func(e earlier, url uint64) int { return cmp.Compare(e.url, url) })
	if ok {
		rank = h.ranks[i].rank
	}
	return rank, ok
}

// all yields all ranks, as those of pages that have no number yet.
func (h *History) all(yield func(frontier.PageID, float32) bool) {
	for _, e := range h.ranks {
		if !yield(0, e.rank) {
			return
		}
	}
}
