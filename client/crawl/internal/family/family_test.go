package family_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// For a trap of a million families, a bounded number of them is tracked, and the stored state is small.
func TestTreeIsBounded(t *testing.T) {
	tree := family.New()
	r := rand.New(rand.NewPCG(1, 2))
	asked := 0
	for i := range 20_000 {
		tree.Requested()
		url := fmt.Sprintf("https://a.example/%c/%c/%c/%c/x?%c&%c&%c", 'a'+r.IntN(20), 'a'+r.IntN(20), 'a'+r.IntN(20), 'a'+r.IntN(20), 'a'+r.IntN(20), 'a'+r.IntN(20), 'a'+r.IntN(20))
		id := frontier.PageID(i + 1)
		if tree.Full(url) || !tree.Ask(id, url, 0.1) {
			continue
		}
		asked++
		tree.Visited(&family.Visit{Page: id, URL: url, Refused: 5})
	}
	if asked > 2200 {
		t.Errorf("%d of 20,000 URLs were fetched", asked)
	}
	if n := len(tree.Append(nil)); n == 0 || n > 20_000 {
		t.Errorf("%d bytes are stored", n)
	}
	if n := tree.Held(); n > 20_000/10 {
		t.Errorf("%d pages wait", n)
	}
}

// A page that was not fetched after all, and one that a notice names while it waits, leave nothing behind.
func TestUnfetchedPagesLeaveNoTrace(t *testing.T) {
	tree := family.New()
	url := func(i int) string { return fmt.Sprintf("https://a.example/s?q=%d", i) }
	var under, held []frontier.PageID
	for i := range 20 {
		if id := frontier.PageID(i + 1); tree.Ask(id, url(i), 0.1) {
			under = append(under, id)
		} else {
			held = append(held, id)
		}
	}
	if len(under) != 8 || tree.Held() != 12 || tree.Release(0.1) != nil {
		t.Fatalf("%d pages are under way, %d wait", len(under), tree.Held())
	}
	tree.Let(held[0])
	tree.Let(held[0])
	for _, id := range under {
		tree.Back(id)
		tree.Back(id)
	}
	if list := tree.Release(0.1); len(list) != 8 || tree.Held() != 3 || list[0] != held[1] {
		t.Errorf("%v may be fetched now, %d wait", list, tree.Held())
	}
}

// FuzzParse: any stored bytes can be parsed, and a parsed tree is encoded to the same bytes.
func FuzzParse(f *testing.F) {
	tree := family.New()
	for i := range 60 {
		tree.Requested()
		tree.Visited(&family.Visit{URL: fmt.Sprintf("https://a.example/s%d/t?q=%d&r", i%3, i), Refused: 3})
	}
	f.Add(tree.Append(nil), "https://a.example/s1/t?q=1&r")
	f.Add([]byte{1, 0, 0, 0, 1, '/', 200, 1, 200, 1, 3, 2}, "https://a.example/")
	f.Add([]byte{}, "/%%%??&&==//")
	f.Fuzz(func(t *testing.T, b []byte, url string) {
		tree := family.Parse(b)
		one := tree.Append(nil)
		if two := family.Parse(one).Append(nil); !bytes.Equal(one, two) {
			t.Fatalf("%q becomes %q", one, two)
		}
		tree.Full(url)
		tree.Why(url)
		tree.Ask(1, url, 0.1)
		tree.Visited(&family.Visit{Page: 1, URL: url, Found: []string{url, url + "x", url + "/y?z"}, Spoiled: true})
		tree.Release(0.1)
		tree.Reports()
	})
}

func TestText(t *testing.T) {
	x := family.Text{Fill: 1}
	pairs := func(from, n int) (list []uint32) {
		r := rand.New(rand.NewPCG(uint64(from), 3))
		for range n {
			list = append(list, r.Uint32())
		}
		return list
	}
	if s := x.Share(pairs(0, 30)); s >= 0 {
		t.Errorf("share of new text of the first page: %g", s)
	}
	if s := x.Share(pairs(0, 30)); s != 0 {
		t.Errorf("share of new text of a known page: %g", s)
	}
	old := 0.
	for i := range 1000 { // which is twice what is remembered
		if s := x.Share(pairs(i+1, 35)); s < 0.7 {
			old++
		}
	}
	if old > 20 {
		t.Errorf("%g of 1000 new pages seem old", old)
	}
	if s := x.Share(append(pairs(1000, 35), pairs(5000, 5)...)); s > 0.2 {
		t.Errorf("share of new text of the last page with another paragraph: %g", s)
	}
	if s := x.Share(append(pairs(1000, 500), pairs(5000, 5)...)); s != 1 {
		t.Errorf("share of new text of a page with much new text: %g", s)
	}
}
