package rank_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// movements counts the pages that move in a queue, and in how many transactions.
type movements struct {
	frontier.Store
	pages, times int
}

func (m *movements) Rerank(old, new []frontier.Entry) error {
	m.pages, m.times = m.pages+len(old), m.times+1
	return m.Store.Rerank(old, new)
}

// The pages of a large queue move while Pagerank is computed, a few at a time: a batch, for which the whole crawl waits, moves none.
func TestBatchWaitsForNoRanks(t *testing.T) {
	const n = 12_000
	s, err := frontier.Named("batch-pagerank", 0)
	if err != nil {
		t.Fatal(err)
	}
	col, err := collection.Open(filepath.Join(t.TempDir(), "crawl"), &collection.Options{Strategy: s})
	if err != nil {
		t.Fatal(err)
	}
	defer col.Close()
	var finds []collection.Find
	for i := range n {
		finds = append(finds, collection.Find{URL: fmt.Sprintf("https://www.example.org/%d", i), Depth: 1})
	}
	done, err := col.Commit(&collection.Commit{Finds: finds})
	if err != nil {
		t.Fatal(err)
	}
	best := finds[n-1]
	for i := range 2 {
		v := collection.Visit{Page: done.New[i].ID, Status: 200, Type: "text/html", Body: fmt.Append(nil, i), Links: []collection.Find{best}}
		if _, err := col.Commit(&collection.Commit{Visits: []collection.Visit{v}}); err != nil {
			t.Fatal(err)
		}
	}
	moved := &movements{Store: col.Queue()}
	front, err := frontier.New(s, moved, nil)
	if err != nil {
		t.Fatal(err)
	}
	ranks, err := rank.New(t.Context(), col, front, rank.Settings{Strategy: s, Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ranks.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	pages, times := moved.pages, moved.times
	list, err := front.Batch(1, frontier.BatchOptions{Size: 1})
	if err != nil || len(list) != 1 || list[0].Entries[0].Page != done.New[n-1].ID {
		t.Errorf("the first page is %v, %v", list, err)
	}
	if pages != n-2 || times < 2 || moved.pages != pages {
		t.Errorf("%d of %d waiting pages move, in %d transactions, and then %d for the batch", pages, n-2, times, moved.pages-pages)
	}
}

// A page that a history names often is drawn no more often than others.
func TestEachRankIsDrawnAlike(t *testing.T) {
	s, err := frontier.Named("historical-pagerank-random", 1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := rank.ReadHistory(t.Context(), write(t, "https://a.example/ 1\n"+strings.Repeat("https://b.example/ 0.5\n", 50)), 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	var store frontier.MemoryStore
	for p := frontier.PageID(1); p <= 200; p++ {
		store.Put(frontier.Entry{Page: p, Site: 1})
	}
	front, err := frontier.New(s, &store, nil)
	if err != nil {
		t.Fatal(err)
	}
	col, err := collection.Open(filepath.Join(t.TempDir(), "crawl"), &collection.Options{Strategy: s})
	if err != nil {
		t.Fatal(err)
	}
	defer col.Close()
	if _, err := rank.New(t.Context(), col, front, rank.Settings{Strategy: s, Quality: rank.Quality{Earlier: h}}); err != nil {
		t.Fatal(err)
	}
	drawn := map[float32]int{}
	list, err := front.Batch(1, frontier.BatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list[0].Entries {
		drawn[e.Rank]++
	}
	if drawn[1]+drawn[.5] != 200 || drawn[1] < 70 || drawn[1] > 130 {
		t.Errorf("ranks are drawn %v times, want each a hundred times", drawn)
	}
}
