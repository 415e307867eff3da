package server_test

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// A reading shelf extracts features from pages: a content "TITLE|TEXT" gives both.
type reading struct {
	*shelf
	masks maintext.Masks
}

func (s *reading) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	r, err := s.shelf.Read(ctx, o)
	s.mu.Lock()
	content := s.pages[o.Place].content
	s.mu.Unlock()
	if title, text, ok := strings.Cut(content, "|"); ok && err == nil {
		r.Title, r.Language = title, "en"
		r.Text, r.Sketch = s.masks.Read([]byte(text))
	}
	return r, err
}

func newReading(t *testing.T) (*world, *reading) {
	w := newWorld(t)
	r := &reading{shelf: w.shelf}
	w.pub.Inventory = r
	return w, r
}

// prose returns a text whose words from index same on differ.
func prose(words, same int) string {
	var b strings.Builder
	for i := range words {
		if i < same {
			fmt.Fprintf(&b, "word%d ", i)
		} else {
			fmt.Fprintf(&b, "other%d ", i)
		}
	}
	return b.String()
}

func (w *world) entry(path string) (e protocol.Item) {
	w.Helper()
	entry, ok, err := w.journal.Get(base + path)
	w.must(err)
	if !ok {
		w.Fatalf("%s does not exist", path)
	}
	return entry.Item
}

// last returns the newest change.
func (w *world) last() protocol.Change {
	w.Helper()
	changes := must.Get(w.journal.Read(w.Context(), protocol.Cursor{Epoch: w.journal.Head().Epoch, Seq: w.journal.Head().Seq - 1}, 1))
	return changes[0]
}

func TestSignificance(t *testing.T) {
	w, r := newReading(t)
	r.masks = maintext.Masks{regexp.MustCompile(`build \d+`)}
	const words = 1000
	w.write("a.html", "A|build 1 "+prose(words, words))
	w.write("b.html", "no text")
	w.look()
	edit := func(path, content string) protocol.Significance {
		t.Helper()
		w.pass(time.Minute)
		w.write(path, content)
		w.look()
		c := w.last()
		if c.Op != protocol.Update || c.Item.URL != base+path {
			t.Fatalf("told %s", tell(c))
		}
		return c.Significance
	}
	share := func(s protocol.Significance) float64 {
		f, known := s.Share()
		if !known {
			return -1
		}
		return f
	}
	if got := share(edit("a.html", "Another title|build 2 "+prose(words, words))); got != 0 {
		t.Errorf("another title and build: %v", got)
	}
	if got := share(edit("a.html", "A|build 2 "+prose(words, words-1))); got < 0.001 || got > 0.05 {
		t.Errorf("one word of a thousand: %v", got)
	}
	if got := share(edit("a.html", "A|build 2 "+prose(words, words/2))); got < 0.3 || got > 0.9 {
		t.Errorf("half of all words: %v", got)
	}
	if got := share(edit("a.html", "A|build 2 "+prose(words, 0))); got < 0.3 {
		t.Errorf("all remaining text: %v", got)
	}
	if got := share(edit("a.html", "no text")); got != -1 {
		t.Errorf("to no text: %v", got)
	}
	if got := share(edit("a.html", "A|"+prose(words, words))); got != -1 {
		t.Errorf("from no text: %v", got)
	}
	if got := share(edit("b.html", "still none")); got != -1 {
		t.Errorf("no text at all: %v", got)
	}
	w.restart()
	w.pub.Inventory = r
	if got := share(edit("a.html", "A|"+prose(words, words)+" more")); got < 0.001 || got > 0.05 {
		t.Errorf("across a restart: %v", got)
	}
}

// If the same bytes yield other features, they are stored, and no change is published.
func TestNewFeaturesOfSameBytesAreNoChange(t *testing.T) {
	w, r := newReading(t)
	w.write("a.html", "A|build 1 of all")
	w.look()
	was := w.entry("a.html")
	if was.Title != "A" || was.Language != "en" || was.Text.IsZero() {
		t.Fatalf("%+v", was)
	}
	revision := w.journal.Revision()
	r.masks = maintext.Masks{regexp.MustCompile(`build \d+`)}
	w.pass(time.Hour)
	w.write("a.html", "A|build 1 of all") // touched, so that it is read
	if rep := w.look(); rep.Touched != 1 || rep.ChangeCount() != 0 {
		t.Errorf("%v", rep)
	}
	w.wantTold("")
	is := w.entry("a.html")
	if is.Text == was.Text || !is.Modified.Equal(was.Modified) || w.journal.Revision() == revision {
		t.Errorf("%+v", is)
	}
	w.pass(time.Hour)
	w.write("a.html", "A|build 2 of all")
	w.look()
	if share, known := w.last().Significance.Share(); share != 0 || !known {
		t.Errorf("masked: %v %v", share, known)
	}
}

// A catalog lists pages with the metadata that somebody gives: a date, perhaps, and never the bytes.
type catalog struct {
	*shelf
	list []inventory.Offer // in order
}

func (c *catalog) Scan(context.Context, []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		for _, o := range c.list {
			o.URL, o.Length = base+o.Place, -1
			if len(o.Stamp) == 0 {
				o.Stamp = []byte(fmt.Sprint(o.Modified, o.Span, o.Title, o.Digest))
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (c *catalog) Read(_ context.Context, o inventory.Offer) (inventory.Offer, error) { return o, nil }

func TestClaims(t *testing.T) {
	w := newWorld(t)
	inv := &catalog{shelf: w.shelf}
	w.pub.Inventory = inv
	day := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	set := func(list ...inventory.Offer) {
		t.Helper()
		inv.list = list
		w.pass(time.Hour)
		w.look()
	}
	is := func(what, path string, modified time.Time, told string) {
		t.Helper()
		w.wantTold(told)
		if it := w.entry(path); !it.Modified.Equal(modified) {
			t.Errorf("%s: modified is %v, want %v", what, it.Modified, modified)
		}
	}
	never := time.Time{}
	set(inventory.Offer{Place: "a"}, inventory.Offer{Place: "b", Modified: day, Span: 24 * time.Hour})
	is("no date", "a", never, "")
	is("known to the day", "b", day, "")
	if it := w.entry("b"); it.Span != 24*time.Hour {
		t.Errorf("%+v", it)
	}
	set(inventory.Offer{Place: "a", Title: "A"}, inventory.Offer{Place: "b", Modified: day, Span: 24 * time.Hour, Title: "B"})
	is("a new title, no date", "a", never, "update a")
	is("a new title with the same date", "b", day, "")
	if it := w.entry("b"); it.Title != "B" {
		t.Errorf("%+v", it)
	}
	set(inventory.Offer{Place: "a", Modified: day.Add(time.Hour)}, inventory.Offer{Place: "b", Modified: day.Add(-time.Hour)})
	is("the first date", "a", day.Add(time.Hour), "update a")
	is("an older date", "b", day, "")
	set(inventory.Offer{Place: "a"}, inventory.Offer{Place: "b", Modified: day.Add(time.Hour)})
	is("no date any more", "a", day.Add(time.Hour), "update b")
	is("a later date", "b", day.Add(time.Hour), "")
	if it := w.entry("b"); it.Span != 0 {
		t.Errorf("%+v", it)
	}
	set(inventory.Offer{Place: "a"}, inventory.Offer{Place: "b", Modified: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)})
	is("an implausible date", "b", day.Add(time.Hour), "")
	set(inventory.Offer{Place: "a", Modified: w.now.Add(3 * time.Hour)}, inventory.Offer{Place: "b"})
	is("a future date", "a", w.now, "update a")

	// Once the pages are read, a digest is a change, and the date stays valid.
	one, two := protocol.Sum([]byte("1")), protocol.Sum([]byte("2"))
	was := w.entry("a").Modified
	set(inventory.Offer{Place: "a", Digest: one}, inventory.Offer{Place: "b"}, inventory.Offer{Place: "c", Digest: one})
	is("read for the first time", "a", was, "update a, create c")
	is("created since the last scan", "c", w.now, "")
	set(inventory.Offer{Place: "a", Digest: two}, inventory.Offer{Place: "b"}, inventory.Offer{Place: "c", Digest: one, Modified: day})
	is("other bytes without a date", "a", w.now, "update a")
	set(inventory.Offer{Place: "a"}, inventory.Offer{Place: "b"}, inventory.Offer{Place: "c"})
	is("pages are not read any more", "a", w.now.Add(-time.Hour), "")
	if it := w.entry("a"); it.Digest != two {
		t.Errorf("%+v", it)
	}
}

// The first scan invents no date for a page that is read but has no plausible one.
func TestFirstDates(t *testing.T) {
	w := newWorld(t)
	w.put("a.html", "a", time.Time{})
	w.put("b.html", "b", time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC))
	w.put("c.html", "c", w.now.Add(25*time.Hour))
	w.put("d.html", "d", w.now.Add(23*time.Hour))
	w.look()
	for path, want := range map[string]time.Time{"a.html": {}, "b.html": {}, "c.html": {}, "d.html": w.now} {
		if it := w.entry(path); !it.Modified.Equal(want) {
			t.Errorf("%s: modified is %v, want %v", path, it.Modified, want)
		}
	}
	w.pass(time.Hour)
	w.put("b.html", "other", time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC))
	w.look()
	if it := w.entry("b.html"); !it.Modified.Equal(w.now) {
		t.Errorf("changed: modified is %v, want %v", it.Modified, w.now)
	}
}

func TestImportance(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.look()
	asked, all := 0, protocol.Importance(0)
	w.pub.Pages.Importance = func(url string) protocol.Importance {
		asked++
		if strings.HasSuffix(url, "001.html") {
			return 100
		}
		return all
	}
	head, revision := w.journal.Head(), w.journal.Revision()
	w.look("p/")
	if asked != 0 {
		t.Errorf("a partial scan called Importance %d times", asked)
	}
	w.look()
	if asked != 3 || w.journal.Head() != head || w.journal.Revision() == revision {
		t.Errorf("Importance was called %d times, head %v", asked, w.journal.Head())
	}
	if a, b := w.entry("p/000.html").Importance, w.entry("p/001.html").Importance; a != 0 || b != 100 {
		t.Errorf("%d %d", a, b)
	}
	revision = w.journal.Revision()
	if w.look(); w.journal.Revision() != revision {
		t.Error("stored again")
	}
	w.write("p/001.html", "other")
	w.write("new.html", "new")
	all = 7
	w.look("p/", "")
	w.wantTold("update p/001.html, create new.html")
	if a, b := w.entry("new.html").Importance, w.entry("p/001.html").Importance; a != 7 || b != 100 {
		t.Errorf("%d %d", a, b)
	}
	w.pub.Pages.Importance = nil // as in a process without a log to count in
	w.write("p/001.html", "and another")
	w.look()
	if b := w.entry("p/001.html").Importance; b != 100 {
		t.Errorf("%d", b)
	}
	w.rename("p/001.html", "q.html")
	w.look()
	if b := w.entry("q.html").Importance; b != 100 {
		t.Errorf("moved: %d", b)
	}
}
