package frontier_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

type (
	Entry  = frontier.Entry
	SiteID = frontier.SiteID
	PageID = frontier.PageID
)

func pages(list []frontier.SiteEntries) (p []PageID) {
	for _, s := range list {
		for _, e := range s.Entries {
			p = append(p, e.Page)
		}
	}
	return p
}

func batch(t *testing.T, f *frontier.Frontier, now int64, o frontier.BatchOptions) []PageID {
	t.Helper()
	list := must.Get(f.Batch(now, o))
	return pages(list)
}

func front(t *testing.T, s frontier.Strategy, store frontier.Store) *frontier.Frontier {
	t.Helper()
	return must.Get(frontier.New(s, store, nil))
}

// The thesis's own example (fig 7.1, V07): the profits of three pages are
// 0.36, 0.07 and 0.6, and the batch of two has the third and the first.
func TestThesisExample(t *testing.T) {
	var store frontier.MemoryStore
	for i, profit := range []float32{0.36, 0.07, 0.6} {
		store.Put(Entry{Page: PageID(i + 1), Site: SiteID(i + 1), Rank: frontier.Profit{}.Page(frontier.Facts{Value: profit})})
	}
	if got := batch(t, front(t, frontier.Profit{}, &store), 0, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{3, 1}) {
		t.Errorf("the batch is %v", got)
	}
}

// A page on demand is first in line (V01), even of a site that would come last, and a page that
// is not due yet; the batch before does not have to be done.
func TestOnDemandIsFirst(t *testing.T) {
	var store frontier.MemoryStore
	for p := range PageID(50) {
		store.Put(Entry{Page: p + 1, Site: SiteID(p%5 + 1), Rank: float32(p)})
	}
	store.Put(Entry{Page: 51, Site: 1, At: 1 << 50})
	f := front(t, frontier.Profit{}, &store)
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{50, 49}) {
		t.Fatalf("the first batch is %v", got)
	}
	f.First(Entry{Page: 3, Site: 3})
	f.First(Entry{Page: 51, Site: 1})
	f.First(Entry{Page: 3, Site: 3})  // once is enough
	f.First(Entry{Page: 50, Site: 5}) // is being fetched
	busy := func(s SiteID) bool { return s == 1 }
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 2, Skip: busy}); !slices.Equal(got, []PageID{3, 48}) {
		t.Fatalf("the second batch is %v, want page 3 first and 51 left for later", got)
	}
	f.Return([]PageID{3})
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 3}); !slices.Equal(got, []PageID{51, 3, 47}) {
		t.Fatalf("the third batch is %v", got)
	}
	f.Done([]PageID{3, 51})
	store.Remove(3)
	for seen := map[PageID]bool{}; ; {
		got := batch(t, f, 1, frontier.BatchOptions{Size: 7})
		if len(got) == 0 {
			break
		}
		for _, p := range got {
			if seen[p] || p == 3 || p == 51 {
				t.Errorf("page %d is handed out again", p)
			}
			seen[p] = true
		}
	}
	if n := f.Len(); n != 0 {
		t.Errorf("%d pages are left", n)
	}
}

// A page put into the open cycle is handed out at once, wherever it was in the queue, and only once.
func TestTake(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 5; p++ {
		store.Put(Entry{Page: p, Site: 1})
	}
	f := front(t, nil, &store)
	f.First(Entry{Page: 4, Site: 1})
	if !f.Take(Entry{Page: 4, Site: 1}) || f.Take(Entry{Page: 4, Site: 1}) {
		t.Fatal("Take of page 4 fails, or succeeds twice")
	}
	if got := batch(t, f, 0, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{1, 2}) {
		t.Fatalf("the batch is %v", got)
	}
	if f.Take(Entry{Page: 2, Site: 1}) {
		t.Error("Take succeeds for page 2, which is in the batch")
	}
	if !f.Take(Entry{Page: 5, Site: 1}) || !f.Take(Entry{Page: 9, Site: 3}) {
		t.Error("Take fails for a page deep in the queue, or not in it")
	}
	f.Return([]PageID{9, 4})
	if got := batch(t, f, 0, frontier.BatchOptions{}); !slices.Equal(got, []PageID{9, 4, 3}) {
		t.Errorf("the next batch is %v", got)
	}
}

// A page deep in a long queue is moved out of it for First, and
// its site gives no more than its share with it; other sites fill the places that
// the site seemed to have pages for.
func TestOnDemandPageDeepInQueue(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 20; p++ {
		store.Put(Entry{Page: p, Site: 1})
		store.Put(Entry{Page: p + 20, Site: 2})
	}
	f, err := frontier.New(nil, &store, &frontier.Options{PerSite: 2, Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	for p := PageID(11); p <= 20; p++ {
		f.First(Entry{Page: p, Site: 1})
	}
	list, err := f.Batch(0, frontier.BatchOptions{Size: 3, SameSite: 1})
	if got := pages(list); err != nil || !slices.Equal(got, []PageID{11, 21}) {
		t.Fatalf("want one page of each site, got %v, %v", got, err)
	}
	if got := batch(t, f, 0, frontier.BatchOptions{Size: 9}); !slices.Equal(got, []PageID{12, 13, 14, 15, 16, 17, 18, 19, 20}) {
		t.Fatalf("want the page on demand first, got %v", got)
	}
	// Site 1 seems to have 20 pages, and has 10.
	got := batch(t, f, 0, frontier.BatchOptions{Size: 26})
	slices.Sort(got)
	want := []PageID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37}
	if !slices.Equal(got, want) {
		t.Errorf("the next batch is %v", got)
	}
	if got := batch(t, f, 0, frontier.BatchOptions{}); !slices.Equal(got, []PageID{38, 39, 40}) || f.Out() != 40 {
		t.Errorf("the next batch is %v; %d pages are out", got, f.Out())
	}
}

// Batches are made while visits are recorded: between a commit and the Done
// and Add that report it the store is ahead of the frontier.
func TestBatchBetweenCommitAndDone(t *testing.T) {
	for _, per := range []int{byHeap, byList} {
		var store frontier.MemoryStore
		for p := PageID(1); p <= 3; p++ {
			store.Put(Entry{Page: p, Site: 1})
		}
		f := front(t, nil, &store)
		f.Small(per)
		if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 3 {
			t.Fatalf("the batch is %v", got)
		}
		store.Remove(1) // the visits, which found pages 4 and 5
		store.Remove(2)
		store.Remove(3)
		if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 0 {
			t.Errorf("all pages are handed out, and %v again", got)
		}
		found := []Entry{{Page: 4, Site: 1}, {Page: 5, Site: 1}}
		for _, e := range found {
			store.Put(e)
		}
		early := batch(t, f, 0, frontier.BatchOptions{Size: 1})
		f.Done([]PageID{1, 2, 3})
		f.Add(found)
		if n := f.Len(); n != 2-len(early) {
			t.Errorf("%d pages are left", n)
		}
		late := batch(t, f, 0, frontier.BatchOptions{})
		if all := slices.Sorted(slices.Values(append(early, late...))); !slices.Equal(all, []PageID{4, 5}) {
			t.Errorf("the found pages come as %v and %v", early, late)
		}
		if f.Len() != 0 || f.Out() != 2 || f.Sites() != 0 {
			t.Errorf("%d are left, %d are out, of %d sites", f.Len(), f.Out(), f.Sites())
		}
	}
}

// Waiting pages are handed out when they are due, and Wake says when that is.
func TestWaitingPages(t *testing.T) {
	var store frontier.MemoryStore
	f := front(t, nil, &store)
	if at := f.Wake(5); at != 0 {
		t.Errorf("no page waits, but Wake returns %d", at)
	}
	store.Put(Entry{Page: 1, Site: 1, At: 300})
	store.Put(Entry{Page: 2, Site: 2, At: 200})
	if at := f.Wake(5); at != 200 {
		t.Errorf("Wake returns %d, want 200", at)
	}
	if got := batch(t, f, 199, frontier.BatchOptions{}); len(got) != 0 {
		t.Errorf("%v is handed out too early", got)
	}
	if got := batch(t, f, 200, frontier.BatchOptions{}); !slices.Equal(got, []PageID{2}) {
		t.Errorf("at 200 the batch is %v", got)
	}
	if at := f.Wake(400); at != 400 {
		t.Errorf("page 1 waited for 300, but at 400 Wake returns %d", at)
	}
	if got := batch(t, f, 400, frontier.BatchOptions{}); !slices.Equal(got, []PageID{1}) {
		t.Errorf("at 400 the batch is %v", got)
	}
}

// A batch has pages of as many sites as possible (S07): if it is smaller than the number of sites, each of
// its pages is of another site. No site gives more than SameSite pages (G13).
func TestManySitesInABatch(t *testing.T) {
	var store frontier.MemoryStore
	page := PageID(0)
	for site := SiteID(1); site <= 40; site++ {
		for range int(site) * 10 {
			page++
			store.Put(Entry{Page: page, Site: site})
		}
	}
	f := front(t, frontier.LargerSites{}, &store)
	list, err := f.Batch(0, frontier.BatchOptions{Size: 30})
	if err != nil || len(list) != 30 || list[0].Site != 40 || list[29].Site != 11 {
		t.Fatalf("a batch of 30 has %d sites: %v, %v", len(list), list, err)
	}
	list, err = f.Batch(0, frontier.BatchOptions{Size: 4000, SameSite: 25})
	if err != nil || len(list) != 40 {
		t.Fatalf("%d sites, %v", len(list), err)
	}
	for _, s := range list {
		if n := len(s.Entries); n > 25 || s.Site >= 3 && n < 25 {
			t.Errorf("site %d gives %d pages", s.Site, n)
		}
	}
	if got, want := f.Out(), len(pages(list))+30; got != want {
		t.Errorf("%d pages are handed out, want %d", got, want)
	}
	if got, want := f.Len(), int(page)-f.Out(); got != want {
		t.Errorf("%d pages are left, want %d", got, want)
	}
	if got := f.Sites(); got != 38 { // the two smallest have nothing left
		t.Errorf("%d sites have pages left", got)
	}
}

// A small batch does not look at all sites, but when it finds nothing to fetch it asks the store, which may have
// entries that nobody has reported.
func TestNothingLeftAsksTheStore(t *testing.T) {
	for _, strategy := range []frontier.Strategy{frontier.BreadthFirst{}, frontier.Performance{}, frontier.CrawlAbility{}} {
		var store frontier.MemoryStore
		for p := PageID(1); p <= 50; p++ {
			store.Put(Entry{Page: p, Site: SiteID(p)})
		}
		f := must.Get(frontier.New(strategy, &store, &frontier.Options{Speed: func(SiteID) frontier.Speed { return frontier.Speed{Response: 1} }}))
		f.Small(byHeap)
		for _, want := range []int{50, 0, 0} {
			if got := batch(t, f, 0, frontier.BatchOptions{Size: 50}); len(got) != want {
				t.Fatalf("%s: %d pages are given out, want %d", strategy.Name(), len(got), want)
			}
		}
		store.Put(Entry{Page: 51, Site: 51})
		if got := batch(t, f, 0, frontier.BatchOptions{Size: 1}); !slices.Equal(got, []PageID{51}) {
			t.Errorf("%s: %v is given out", strategy.Name(), got)
		}
	}
}

// A site whose store fails affects no other: the entries of the batch are in their places again.
func TestFailingStore(t *testing.T) {
	var store frontier.MemoryStore
	for p := range PageID(300) {
		store.Put(Entry{Page: p + 1, Site: SiteID(p%3 + 1)})
	}
	broken := &brokenStore{Store: &store}
	f := must.Get(frontier.New(nil, broken, &frontier.Options{PerSite: 10}))
	for n := range 24 {
		f.Small([]int{byHeap, byList}[n%2])
		broken.after = n / 2
		if _, err := f.Batch(0, frontier.BatchOptions{Round: -(n % 3 / 2)}); err == nil {
			continue
		} else if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		if f.Out() != 0 {
			t.Fatalf("after a failure %d pages are handed out", f.Out())
		}
	}
	broken.after = 1 << 30
	if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 300-f.Out()+len(got) {
		t.Errorf("%d pages are handed out in the end", len(got))
	}
}

var errBroken = errors.New("broken")

type brokenStore struct {
	frontier.Store
	after int
}

func (b *brokenStore) Head(s SiteID, e Entry, n int) ([]Entry, error) {
	if b.after--; b.after < 0 {
		return nil, errBroken
	}
	return b.Store.Head(s, e, n)
}

func TestNamed(t *testing.T) {
	names := strings.Split(strings.Replace(frontier.Names(), " or ", ", ", 1), ", ")
	if len(names) != 14 {
		t.Errorf("the names are %q", names)
	}
	for _, name := range names {
		s, err := frontier.Named(name, 3)
		if err != nil || s.Name() != name {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s, err := frontier.Named("best-first", 0); err == nil {
		t.Errorf("best-first is %v", s)
	}
}
