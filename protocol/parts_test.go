package protocol_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

const partsBase = "https://www.example.com/"

// Parted is a manifest in parts: the documents of its parts, and what the index says of them.
type parted struct {
	whole   protocol.Whole
	pages   []document
	changes []document
	files   map[string][]byte // by URL
}

// partOf returns a document of entries as a part.
func partOf(items []protocol.Item, gone ...protocol.Tombstone) document {
	return document{head: protocol.Manifest{URL: partsBase + "robots.rdf", Base: partsBase, Items: len(items)}, items: items, gone: gone}
}

// file stores the content of a part, and returns what the index says of it.
func (s *parted) file(b []byte, p protocol.Part, entries int) protocol.Part {
	p.Digest, p.Length, p.Items = protocol.Sum(b), int64(len(b)), entries
	p.URL = partsBase + "robots.rdf.parts/" + hex.EncodeToString(p.Digest[:]) + ".rdf"
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	s.files[p.URL] = b
	return p
}

func (s *parted) page(t testing.TB, seq uint64, d document) {
	s.pages = append(s.pages, d)
	s.whole.Parts = append(s.whole.Parts, s.file(d.write(t), protocol.Part{Seq: seq}, len(d.items)+len(d.gone)))
}

func (s *parted) change(t testing.TB, after, seq uint64, d document) {
	s.changes = append(s.changes, d)
	s.whole.Changed = append(s.whole.Changed, s.file(d.write(t), protocol.Part{After: after, Seq: seq}, len(d.items)+len(d.gone)))
}

// open returns the content of a part.
func (s *parted) open(p *protocol.Part) ([]byte, error) {
	if b, ok := s.files[p.URL]; ok {
		return b, nil
	}
	return nil, errors.New("404")
}

// index returns the index, which itself shows the newest item.
func (s *parted) index() document {
	d := partOf(s.pages[0].items[:1])
	d.head.Modified, d.head.Changes, d.head.Whole = date("2026-11-21T05:00:09Z"), partsBase+"parley/changes", &s.whole
	return d
}

func offered(path, content string) protocol.Item {
	return protocol.Item{URL: partsBase + path, Length: int64(len(content)), Digest: protocol.Sum([]byte(content))}
}

// smallParts is a site of six pages at change 5. Change 3 edited a page of the first page part; 4 moved one from
// the second to the third; 5 deleted one of the second, which was then written anew.
func smallParts() *parted {
	s := &parted{whole: protocol.Whole{Cursor: protocol.Cursor{Epoch: "k3v7q2m4x5n6p2aa", Seq: 5}, Items: 6}}
	t := fatal{}
	s.page(t, 2, partOf([]protocol.Item{offered("", "home"), offered("a.html?x=1&y", "a")}))
	s.page(t, 5, partOf([]protocol.Item{offered("c.html", "c"), offered("d.html", "d")}))
	s.page(t, 2, partOf([]protocol.Item{offered("docs/e.html", "e")}))
	s.change(t, 2, 4, partOf([]protocol.Item{offered("a.html?x=1&y", "edited"), offered("docs/f.html", "f")},
		protocol.Tombstone{URL: partsBase + "f.html", At: date("2026-11-21T05:00:00Z"), Seq: 4, Prev: protocol.Sum([]byte("f")), To: partsBase + "docs/f.html"}))
	s.change(t, 4, 5, partOf(nil, protocol.Tombstone{URL: partsBase + "b.html", At: date("2026-11-21T05:00:09Z"), Seq: 5}))
	return s
}

// fatal ends the program where a fixture cannot be written.
type fatal struct{ testing.TB }

func (fatal) Helper()           {}
func (fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// all collects what a read of parts yields, up to its error.
func all(seq func(func(protocol.Record, error) bool)) (items []protocol.Item, gone []protocol.Tombstone, err error) {
	for rec, e := range seq {
		switch {
		case e != nil:
			err = e
		case rec.Gone != nil:
			gone = append(gone, *rec.Gone)
		default:
			items = append(items, rec.Item)
		}
	}
	return items, gone, err
}

func urlsOf(items []protocol.Item) string {
	var b strings.Builder
	for _, i := range items {
		b.WriteString(strings.TrimPrefix(i.URL, partsBase) + " ")
	}
	return b.String()
}

// A reader without a cursor reads the whole site from the parts; one that knows the site at change 2 or later
// needs the change parts alone.
func TestReadPartsOfASite(t *testing.T) {
	s := smallParts()
	d, skipped, err := read(bytes.NewReader(s.index().write(t)), protocol.ManifestOptions{URL: partsBase + "robots.rdf", Origin: partsBase})
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	w := d.head.Whole
	items, gone, err := all(w.Snapshot(s.open, protocol.ManifestOptions{Origin: partsBase}))
	if got := urlsOf(items); err != nil || len(gone) > 0 || got != " a.html?x=1&y c.html d.html docs/e.html docs/f.html " || items[1].Digest != protocol.Sum([]byte("edited")) {
		t.Errorf("%s, %v, %v", got, gone, err)
	}
	for after, want := range []string{2: "a.html?x=1&y docs/f.html -b.html-f.html", 3: "a.html?x=1&y docs/f.html -b.html-f.html", 4: "-b.html", 5: ""} {
		cursor := protocol.Cursor{Epoch: w.Cursor.Epoch, Seq: uint64(after)}
		items, gone, err := all(w.ChangesAfter(cursor, s.open, protocol.ManifestOptions{}))
		got := urlsOf(items)
		for _, g := range gone {
			got += "-" + strings.TrimPrefix(g.URL, partsBase)
		}
		if covered := after >= 2; w.Covers(cursor) != covered || got != want || (err == nil) != covered {
			t.Errorf("after %d: %s, %v, not %s", after, got, err, want)
		}
	}
	for _, c := range []protocol.Cursor{{}, {Epoch: w.Cursor.Epoch, Seq: 6}, {Epoch: "other", Seq: 5}} {
		if _, _, err := all(w.ChangesAfter(c, s.open, protocol.ManifestOptions{})); w.Covers(c) || err == nil {
			t.Errorf("after %s: %v", c, err)
		}
	}
}

// What a page part says of a page counts more than what an older change part says, such as an importance that no
// change told of; so does its silence.
func TestNewerPagePartIsRight(t *testing.T) {
	s := &parted{whole: protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: 5}, Items: 2}}
	before, now := offered("a.html", "a"), offered("a.html", "a")
	before.Importance, now.Importance = 10, 50
	s.page(t, 5, partOf([]protocol.Item{now, offered("b.html", "b")}))
	s.change(t, 2, 4, partOf([]protocol.Item{before, offered("withdrawn.html", "w")}))
	s.change(t, 4, 5, partOf([]protocol.Item{offered("b.html", "b")}))
	items, _, err := all(s.whole.Snapshot(s.open, protocol.ManifestOptions{}))
	if err != nil || urlsOf(items) != "a.html b.html " || items[0].Importance != 50 {
		t.Error(urlsOf(items), err, items)
	}
}

// A reader that knows nothing of parts stores no cursor from an index and removes nothing because of it: to it,
// p:whole is one more element that it does not know. It reads up to 256 KiB of such, which is an index of 2 million pages.
func TestIndexForReaderOfOneFile(t *testing.T) {
	s := smallParts()
	d := s.index()
	w := *d.head.Whole
	for i := range 500 {
		p := w.Parts[1]
		p.URL = fmt.Sprintf("%srobots.rdf.parts/%064x.rdf", partsBase, i)
		p.Seq, p.Items, p.Length = 1_000_000_000, 4096, 3<<20
		w.Parts = append(w.Parts, p)
	}
	w.Cursor.Seq, w.Items = 1_000_000_000, 6+500*4096
	w.Changed = append(w.Changed, w.Changed[1])
	w.Changed[2].After, w.Changed[2].Seq, w.Changed[2].URL = 5, 1_000_000_000, partsBase+"robots.rdf.parts/x.rdf"
	d.head.Whole = &w
	old := bytes.ReplaceAll(d.write(t), []byte("p:whole"), []byte("p:later"))
	got, skipped, err := read(bytes.NewReader(old), protocol.ManifestOptions{URL: partsBase + "robots.rdf", Origin: partsBase})
	if err != nil || len(skipped) > 0 || got.head.Whole != nil || got.head.Complete || !got.head.Cursor.IsZero() || len(got.items) != 1 || len(got.gone) != 0 {
		t.Errorf("%+v, %d items, %v, %v", got.head, len(got.items), skipped, err)
	}
}

// A model is a site that is edited at random, and publishes itself in parts: it writes page parts anew, splits and drops
// them, moves their seq, merges change parts and forgets them, all within the rules.
type model struct {
	*rand.Rand
	states  []map[string]protocol.Item // by change
	touched [][]string                 // URLs, by change
	moved   []map[string]string        // by change, where a URL went that is gone
	pages   []modelPage
	changed [][2]uint64 // after, seq
}

type modelPage struct {
	seq   uint64
	items []protocol.Item
}

func newModel(seed uint64) *model {
	return &model{
		Rand: rand.New(rand.NewPCG(seed, 1)), states: []map[string]protocol.Item{{}},
		touched: [][]string{nil}, moved: []map[string]string{{}},
	}
}

func (m *model) head() uint64 { return uint64(len(m.states) - 1) }

// edit makes one change.
func (m *model) edit() {
	path := func() string { return partsBase + []string{"", "d/", "d/e/"}[m.IntN(3)] + string(rune('a'+m.IntN(12))) }
	now, moved := maps.Clone(m.states[m.head()]), maps.Clone(m.moved[m.head()])
	at, to := path(), path()
	i, there := now[at]
	touched := []string{at}
	switch n := m.IntN(6); {
	case there && n < 2:
		delete(now, at)
		delete(moved, at)
	case there && n == 2 && at != to:
		delete(now, at)
		moved[at] = to
		delete(moved, to)
		i.URL = to
		now[to] = i
		touched = append(touched, to)
	default: // created, edited, or edited back
		now[at] = protocol.Item{URL: at, Length: 1, Digest: protocol.Sum([]byte{byte(m.IntN(3))})}
		delete(moved, at)
	}
	m.states, m.touched, m.moved = append(m.states, now), append(m.touched, touched), append(m.moved, moved)
}

// within returns what is in the range of a page part at the head, in order.
func (m *model) within(i int) (items []protocol.Item) {
	for _, it := range sorted(m.states[m.head()]) {
		if m.inRange(i, it.URL) {
			items = append(items, it)
		}
	}
	return items
}

func (m *model) inRange(i int, url string) bool {
	return (i == 0 || protocol.Compare(url, m.pages[i].items[0].URL) >= 0) &&
		(i+1 >= len(m.pages) || protocol.Compare(url, m.pages[i+1].items[0].URL) < 0)
}

func sorted(state map[string]protocol.Item) []protocol.Item {
	return slices.SortedFunc(maps.Values(state), func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
}

// split cuts items into page parts as of the head.
func (m *model) split(items []protocol.Item) (pages []modelPage) {
	for len(items) > 0 {
		n := 1 + m.IntN(min(len(items), 5))
		pages = append(pages, modelPage{m.head(), items[:n]})
		items = items[n:]
	}
	return pages
}

// fold brings the parts forward to the head, some of them.
func (m *model) fold(before uint64) {
	if m.head() > before {
		m.changed = append(m.changed, [2]uint64{before, m.head()})
	}
	for m.IntN(2) == 0 && len(m.changed) > 1 {
		i := m.IntN(len(m.changed) - 1)
		m.changed[i][1] = m.changed[i+1][1]
		m.changed = slices.Delete(m.changed, i+1, i+2)
	}
	if m.IntN(20) == 0 {
		m.pages = m.split(sorted(m.states[m.head()])) // all written anew
	}
	for i := len(m.pages) - 1; i >= 0; i-- {
		if m.IntN(4) == 0 {
			m.pages = slices.Replace(m.pages, i, i+1, m.split(m.within(i))...)
		}
	}
	if len(m.pages) == 0 {
		m.pages = m.split(sorted(m.states[m.head()]))
	}
	least := m.head()
	for i := range m.pages {
		p := &m.pages[i]
		changed := slices.ContainsFunc(slices.Concat(m.touched[p.seq+1:]...), func(url string) bool { return m.inRange(i, url) })
		if !changed && m.IntN(3) > 0 {
			p.seq = m.head()
		}
		least = min(least, p.seq)
	}
	for len(m.changed) > 0 && m.changed[0][1] <= least && m.IntN(2) == 0 {
		m.changed = m.changed[1:]
	}
}

func (m *model) publish(t *testing.T) *parted {
	s := &parted{whole: protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: m.head()}, Items: len(m.states[m.head()])}}
	for _, p := range m.pages {
		s.page(t, p.seq, partOf(p.items))
	}
	for _, c := range m.changed {
		items, gone := map[string]protocol.Item{}, []protocol.Tombstone{}
		urls := slices.Concat(m.touched[c[0]+1 : c[1]+1]...)
		slices.Sort(urls)
		for _, u := range slices.Compact(urls) {
			if i, ok := m.states[c[1]][u]; ok {
				items[u] = i
			} else {
				gone = append(gone, protocol.Tombstone{URL: u, To: m.moved[c[1]][u]})
			}
		}
		s.change(t, c[0], c[1], partOf(sorted(items), gone...))
	}
	return s
}

// However a site is edited and its parts are folded, a reader at any cursor ends with what the site offers.
func TestPartsOfRandomSites(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 8
	}
	covered, lost, later := 0, 0, 0
	for seed := range uint64(rounds) {
		m := newModel(seed)
		for range 25 {
			before := m.head()
			for range m.IntN(8) {
				m.edit()
			}
			m.fold(before)
			if m.head() == 0 || len(m.pages) == 0 {
				continue
			}
			s := m.publish(t)
			d, _, err := read(bytes.NewReader(s.index().write(t)), protocol.ManifestOptions{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			w, now := d.head.Whole, m.states[m.head()]
			var opened []string
			open := func(p *protocol.Part) ([]byte, error) {
				opened = append(opened, p.URL)
				return s.open(p)
			}
			items, gone, err := all(w.Snapshot(open, protocol.ManifestOptions{}))
			if err != nil || len(gone) > 0 || !slices.EqualFunc(items, sorted(now), protocol.Item.Equal) {
				t.Fatalf("seed %d at %d: %v\n%s\nnot\n%s", seed, m.head(), err, urlsOf(items), urlsOf(sorted(now)))
			}
			var order []string
			for _, p := range slices.Concat(w.Changed, w.Parts) {
				order = append(order, p.URL)
				if p.Seq < m.head() {
					later++
				}
			}
			if !slices.Equal(opened, order) {
				t.Fatalf("seed %d: opened %q, not %q", seed, opened, order)
			}
			for range 6 {
				after := m.Uint64N(m.head() + 1)
				items, gone, err := all(w.ChangesAfter(protocol.Cursor{Epoch: "e", Seq: after}, s.open, protocol.ManifestOptions{}))
				if !w.Covers(protocol.Cursor{Epoch: "e", Seq: after}) {
					lost++
					if err == nil || len(items)+len(gone) > 0 {
						t.Fatalf("seed %d: read after %d, which is not covered", seed, after)
					}
					continue
				}
				covered++
				mirror, seen := maps.Clone(m.states[after]), map[string]bool{}
				for _, i := range items {
					mirror[i.URL], seen[i.URL] = i, true
				}
				for _, g := range gone {
					delete(mirror, g.URL)
					seen[g.URL] = true
					if g.To != m.moved[m.head()][g.URL] {
						t.Fatalf("seed %d: %s went to %q", seed, g.URL, g.To)
					}
				}
				if err != nil || len(seen) != len(items)+len(gone) || !maps.EqualFunc(mirror, now, protocol.Item.Equal) {
					t.Fatalf("seed %d from %d to %d: %v, %d entries of %d URLs\n%s\nnot\n%s", seed, after, m.head(), err, len(items)+len(gone), len(seen), urlsOf(sorted(mirror)), urlsOf(sorted(now)))
				}
				for _, u := range slices.Concat(m.touched[after+1:]...) {
					if !seen[u] {
						t.Fatalf("seed %d: nothing of %s", seed, u)
					}
				}
			}
		}
	}
	if t.Logf("%d readers by changes, %d without, %d parts older than the index", covered, lost, later); covered < 10*rounds || lost < 10*rounds || later < 10*rounds {
		t.Error("too few of one kind")
	}
}
