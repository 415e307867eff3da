package static_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
)

func (w *web) feeds() *static.Feeds {
	return &static.Feeds{RSS: filepath.Join(w.root, "feed.rss"), Atom: filepath.Join(w.root, "feed.atom"), JSON: filepath.Join(w.root, "feed.json"),
		Base: webBase, Title: "A site", Public: w.site.Public}
}

// told writes the feeds and returns their entries, a word or two for each, with the deletions of Atom last.
func (w *web) told(f *static.Feeds) string {
	w.Helper()
	must.Get(f.Write(w.Context(), w.journal))
	var texts []string
	for _, name := range []string{"feed.atom", "feed.rss", "feed.json"} {
		got := must.Get(feed.Read(bytes.NewReader(w.read(name)), feed.Options{}))
		var words []string
		for _, e := range got.Entries {
			word := strings.TrimPrefix(e.URL, webBase)
			if e.Op == protocol.Delete {
				if word = "-" + word; name == "feed.atom" {
					words = append(words, word)
					continue
				}
			}
			if e.ID != e.URL {
				w.Errorf("%s: the id of %s is %s", name, e.URL, e.ID)
			}
			words = append(words, word)
		}
		if got.Home != webBase || name != "feed.rss" && got.Self != webBase+name || got.Title != "A site" {
			w.Errorf("%s: %+v", name, got)
		}
		texts = append(texts, strings.Join(words, " "))
	}
	news, _, _ := strings.Cut(texts[0], " -")
	if strings.HasPrefix(news, "-") {
		news = ""
	}
	if texts[1] != news || texts[2] != news {
		w.Errorf("Atom lists %q, RSS %q, JSON %q", texts[0], texts[1], texts[2])
	}
	return texts[0]
}

func (w *web) wantTold(what string, f *static.Feeds, want string) {
	w.Helper()
	if got := w.told(f); got != want {
		w.Errorf("%s: the feeds list %q, want %q", what, got, want)
	}
}

func TestFeedsFollowTheSite(t *testing.T) {
	w := newWeb(t)
	w.write("a.html", "A")
	w.write("b.html", "B & <b>")
	w.write("c.html", "C")
	w.write("n.html", "N\nnoindex")
	w.write("other.html", "O\ncanonical="+webBase+"a.html")
	f := w.feeds()
	f.Hub = "https://hub.example/"
	if n := w.turn(f); n != 1 {
		t.Errorf("%d outputs written", n)
	}
	w.wantTold("a new site", f, "c.html b.html a.html")
	was := w.look()
	if n := w.turn(w.feedsLike(f)); n != 0 || len(was.touched(w.look())) > 0 {
		t.Errorf("nothing changed, %d writes, touched %v", n, was.touched(w.look()))
	}
	w.write("b.html", "B, changed")
	w.write("d.html", "D")
	w.turn(f)
	w.wantTold("a change and a new page", f, "d.html b.html c.html a.html")

	w.must(os.Rename(filepath.Join(w.root, "c.html"), filepath.Join(w.root, "moved.html")))
	w.remove("a.html")
	w.accept(f)
	w.wantTold("a move and a deletion", f, "moved.html d.html b.html -a.html -c.html")
	got := must.Get(feed.Read(bytes.NewReader(w.read("feed.atom")), feed.Options{}))
	if e := got.Entries[0]; e.Title != "C" || e.Summary != "Moved here from "+webBase+"c.html" || got.Hub != f.Hub {
		t.Errorf("%+v", got)
	}

	w.write("robots.txt", "User-agent: *\nDisallow: /d.html\nDisallow: /c.html\n")
	w.turn(f)
	w.wantTold("a rule", f, "moved.html b.html -a.html")
	if got := string(w.read("feed.atom")) + string(w.read("feed.rss")) + string(w.read("feed.json")); strings.Contains(got, "/c.html") || strings.Contains(got, "/d.html") {
		t.Errorf("forbidden pages are in a feed:\n%s", got)
	}

	f.Precompress = true
	w.turn(f)
	for _, name := range []string{"feed.atom", "feed.rss", "feed.json"} {
		w.wantSiblings(name)
	}
	f.Precompress = false
	w.turn(f)
	w.wantNames("at the end", "feed.atom", "feed.json", "feed.rss")
	if own := f.Own(); f.URL() != webBase+"feed.atom" || len(own) != 9 {
		t.Errorf("%s, %v", f.URL(), own)
	}
}

// feedsLike returns the Feeds that another process would have.
func (w *web) feedsLike(f *static.Feeds) *static.Feeds { c := *f; return &c }

// An update known to have changed almost nothing is not news, and does not hide earlier news.
func TestFeedsSkipInsignificantChanges(t *testing.T) {
	w := newWeb(t)
	w.pages(1) // p/a/x.html, dated 2020
	f := w.feeds()
	f.Public = nil
	a, b, c := webBase+"a.html", webBase+"b.html", webBase+"c.html"
	w.step(protocol.Create, a, "", -1, "1")
	w.step(protocol.Create, b, "", -1, "1")
	w.step(protocol.Update, a, "", 0.5, "2")
	w.step(protocol.Create, c, "", -1, "1")
	w.wantTold("at first", f, "c.html a.html b.html p/a/x.html")
	w.step(protocol.Update, b, "", 0.001, "3")
	w.step(protocol.Update, webBase+"p/a/x.html", "", 0, "3")
	w.wantTold("after a build", f, "c.html a.html b.html")
	w.step(protocol.Update, b, "", 0.01, "4")
	w.wantTold("one word of a hundred", f, "b.html c.html a.html")
	w.step(protocol.Update, a, "", -1, "5")
	w.wantTold("significance unknown", f, "a.html b.html c.html")
	f.MinSignificance = -1
	w.wantTold("all", f, "a.html b.html p/a/x.html c.html")
	f.MinSignificance, f.Entries = 0.4, 2
	w.wantTold("only large changes", f, "a.html c.html")
}

// Pages with coarse dates or none get entries dated when they entered the journal.
func TestFeedsDateEntriesByJournal(t *testing.T) {
	w := newWeb(t)
	w.must(w.journal.EndBaseline())
	day := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, it := range []protocol.Item{{URL: webBase + "none"}, {URL: webBase + "day", Modified: day, Span: 24 * time.Hour}, {URL: webBase + "exact", Modified: day}} {
		it.Length, it.Digest = -1, protocol.Sum([]byte{byte(i)})
		w.append(journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}})
	}
	f := w.feeds()
	f.Public = nil
	w.wantTold("", f, "exact day none")
	got := must.Get(feed.Read(bytes.NewReader(w.read("feed.atom")), feed.Options{}))
	for _, e := range got.Entries {
		if e.Modified.Equal(day) != (e.URL == webBase+"exact") || time.Since(e.Modified) > time.Hour != e.Modified.Equal(day) {
			t.Errorf("%s of %v", e.URL, e.Modified)
		}
	}
}

// Random histories, compared with an oracle that remembers everything and reads all of it.
func TestFeedsAgainstOracle(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 8
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWeb(t)
		f := w.feeds()
		f.Public = func(url string) bool { return !strings.HasSuffix(url, "7") }
		f.Entries = 1 + r.IntN(6)
		w.pages(r.IntN(4) + 1)
		present, steps := map[string]bool{}, []journal.Step(nil)
		for i := range r.IntN(300) {
			u := fmt.Sprint(webBase, "u", r.IntN(12))
			switch {
			case !present[u]:
				steps = append(steps, w.stepOf(protocol.Create, u, "", -1, fmt.Sprint(i)))
				present[u] = true
			case r.IntN(8) == 0:
				steps = append(steps, w.stepOf(protocol.Delete, u, "", -1, ""))
				present[u] = false
			case r.IntN(8) == 0:
				if to := fmt.Sprint(webBase, "u", r.IntN(12)); !present[to] {
					steps = append(steps, w.stepOf(protocol.Move, to, u, -1, fmt.Sprint(i)))
					present[u], present[to] = false, true
				}
			default:
				steps = append(steps, w.stepOf(protocol.Update, u, "", []float64{-1, 0, 0.002, 0.3}[r.IntN(4)], fmt.Sprint(i)))
			}
		}
		w.append(steps...)
		if want := oracle(w, f); w.told(f) != want {
			t.Fatalf("seed %d: the feeds list %q, want %q", seed, w.told(f), want)
		}
	}
}

// oracle returns the expected content of the feeds.
func oracle(w *web, f *static.Feeds) string {
	var news, gone []string
	decided, minor := map[string]bool{}, map[string]bool{}
	head := w.journal.Head()
	var all []protocol.Change
	for at := (protocol.Cursor{Epoch: head.Epoch}); at != head; at.Seq = all[len(all)-1].Seq {
		some := must.Get(w.journal.Read(w.Context(), at, 0))
		all = append(all, some...)
	}
	for _, c := range slices.Backward(all) {
		if len(news) == f.Entries {
			break
		}
		if t, ok := c.Tombstone(); ok && !decided[t.URL] {
			decided[t.URL] = true
			if f.Public(t.URL) && len(gone) < f.Entries {
				gone = append(gone, "-"+strings.TrimPrefix(t.URL, webBase))
			}
		}
		share, known := c.Significance.Share()
		switch {
		case decided[c.Item.URL]:
			continue
		case c.Op == protocol.Update && known && share < 0.01:
			minor[c.Item.URL] = true
			continue
		}
		if decided[c.Item.URL] = true; f.Public(c.Item.URL) {
			news = append(news, strings.TrimPrefix(c.Item.URL, webBase))
		}
	}
	v := must.Get(w.journal.View())
	defer v.Close()
	var rest []protocol.Item
	for e, err := range v.Entries() {
		w.must(err)
		if u := e.Item.URL; f.Public(u) && !decided[u] && !minor[u] {
			rest = append(rest, e.Item)
		}
	}
	slices.SortStableFunc(rest, func(a, b protocol.Item) int {
		return cmp.Or(b.Modified.Compare(a.Modified), protocol.Compare(a.URL, b.URL))
	})
	for _, it := range rest {
		if len(news) < f.Entries {
			news = append(news, strings.TrimPrefix(it.URL, webBase))
		}
	}
	return strings.Join(append(news, gone...), " ")
}

// For URLs of any length, a feed is never longer than its readers accept.
func TestFeedsStayWithinReaderLimits(t *testing.T) {
	w := newWeb(t)
	w.must(w.journal.EndBaseline())
	f := w.feeds()
	f.Public, f.Entries = nil, 400
	for round := range 2 {
		var steps []journal.Step
		for i := range 400 {
			op, url := protocol.Create, fmt.Sprintf("%sp?%d%s", webBase, i, strings.Repeat("&", 8000))
			if round == 1 && i%2 == 0 {
				op = protocol.Delete
			}
			steps = append(steps, w.stepOf(op, url, "", -1, fmt.Sprint(i)))
		}
		w.append(steps...)
		if told := w.told(f); len(told) < 100*8000 {
			t.Errorf("the feeds list %d bytes of URLs", len(told))
		}
		for _, name := range []string{"feed.atom", "feed.rss", "feed.json"} {
			if n := len(w.read(name)); n > feed.MaxBytes {
				t.Errorf("%s has %d bytes, and %d are read", name, n, feed.MaxBytes)
			}
		}
	}
}

// For any changes, only a limited number is read; changes that the journal has forgotten are not needed.
func TestFeedsReadBoundedNumberOfChanges(t *testing.T) {
	w := newWeb(t)
	w.must(w.journal.Close())
	j := must.Get(journal.Open(filepath.Join(w.dir, "small"), &journal.Options{MaxChanges: 50}))
	defer j.Close()
	w.journal = j
	w.must(j.EndBaseline())
	f := w.feeds()
	f.Public, f.Entries = nil, 2
	w.step(protocol.Create, webBase+"old", "", -1, "x")
	w.step(protocol.Create, webBase+"busy", "", -1, "x")
	var steps []journal.Step
	for i := range 60 {
		steps = append(steps, w.stepOf(protocol.Update, webBase+"busy", "", 0, fmt.Sprint(i)))
	}
	w.append(steps...)
	if j.Floor().Seq < 3 {
		t.Fatalf("the journal still has all changes, from %v", j.Floor())
	}
	w.wantTold("beyond the floor", f, "old") // by its date
	f.Entries = 1
	steps = nil
	for i := range 900 {
		steps = append(steps, w.stepOf(protocol.Update, webBase+"busy", "", 0, fmt.Sprint("again", i)))
	}
	w.append(steps...)
	w.wantTold("after a storm", f, "old")
}

func TestOnlyConfiguredFeedsAreWritten(t *testing.T) {
	w := newWeb(t)
	w.pages(1)
	f := &static.Feeds{Base: webBase}
	if wrote, err := f.Write(t.Context(), w.journal); wrote || err != nil || f.URL() != "" || len(f.Own()) > 0 {
		t.Errorf("%v, %v", wrote, err)
	}
	f = &static.Feeds{RSS: filepath.Join(w.root, "f.xml"), Base: strings.TrimSuffix(webBase, "/")}
	if wrote, err := f.Write(t.Context(), w.journal); !wrote || err != nil || f.URL() != webBase+"f.xml" {
		t.Errorf("%v, %v, %s", wrote, err, f.URL())
	}
	w.wantNames("one of three", "f.xml")
}
