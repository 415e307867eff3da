package manifest_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// After thousands of random edits every index gives what the journal has, and its change parts lead there from every
// earlier cursor that they cover.
func TestPartsAfterRandomEdits(t *testing.T) {
	r := newRig(t, 100)
	rnd := rand.New(rand.NewPCG(1, 2))
	r.fill(0, 1500)
	next := 1500
	type moment struct {
		at   protocol.Cursor
		have items
	}
	var past []moment
	covered, folds, rounds := 0, 0, 30
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		live := slices.SortedFunc(maps.Keys(r.truth()), protocol.Compare)
		var steps []journal.Step
		for range 1 + rnd.IntN(1<<rnd.IntN(7)) {
			url := live[rnd.IntN(len(live))]
			it := protocol.Item{URL: url, Title: fmt.Sprint("edit ", rnd.Int()), Length: rnd.Int64N(1000), Digest: protocol.Sum(fmt.Append(nil, rnd.Int()))}
			switch rnd.IntN(8) {
			case 0:
				steps = append(steps, remove(url))
			case 1:
				fresh := page(next, it.Title)
				next++
				steps = append(steps, journal.Step{Op: protocol.Move, From: url, Entry: journal.Entry{Item: fresh}})
			case 2, 3:
				steps = append(steps, create(page(next, it.Title)))
				next++
			default:
				steps = append(steps, create(it))
			}
		}
		r.append(steps...)
		if rnd.IntN(12) == 0 {
			r.forbidden[live[rnd.IntN(len(live))]] = true // a rule, before the scan that obeys it
		}
		if rnd.IntN(4) == 0 {
			r.open(100)
		}
		before := moment{}
		if len(past) > 0 {
			before = past[len(past)-1]
		}
		what := fmt.Sprint("round ", round)
		r.write()
		if len(r.forbidden) == 0 {
			r.check(what)
		} else {
			r.published() // that of an earlier index may still be named, but counts are right
		}
		for url := range r.forbidden { // the scan
			r.append(remove(url))
		}
		clear(r.forbidden)
		r.write()
		r.check(what)
		if r.write() {
			t.Errorf("%s: an index that is up to date was written again", what)
		}
		w, truth := r.head().Whole, r.truth()
		if w == nil || w.Cursor != r.journal.Head() || w.Items != len(truth) {
			t.Fatalf("%s: %+v", what, w)
		}
		if before.have != nil && !w.Covers(before.at) {
			folds++
		}
		for _, m := range past {
			if !w.Covers(m.at) || rnd.IntN(4) > 0 {
				continue
			}
			covered++
			got := maps.Clone(m.have)
			for rec, err := range w.ChangesAfter(m.at, r.part, protocol.ManifestOptions{}) {
				r.must(err)
				if rec.Gone != nil {
					delete(got, rec.Gone.URL)
				} else {
					got[rec.Item.URL] = rec.Item
				}
			}
			r.same(fmt.Sprintf("%s, after %v", what, m.at), got, truth)
		}
		past = append(past, moment{r.journal.Head(), truth})
		if len(w.Changed) > 24 {
			t.Errorf("%s: %d change parts", what, len(w.Changed))
		}
	}
	t.Logf("%d times a cursor was covered, %d times the last one was not", covered, folds)
	if covered < rounds {
		t.Errorf("only %d cursors were covered", covered)
	}
}

// text returns what a file of the site says, without content coding.
func (r *rig) text(path string) string {
	r.Helper()
	f := must.Get(os.Open(path))
	defer f.Close()
	var z io.ReadCloser = f
	if ext := filepath.Ext(path); ext == ".gz" || ext == ".zst" {
		z = must.Get(coding.NewReader(f))
	}
	return string(must.Get(io.ReadAll(z)))
}

// files returns the files of the manifest, the index first.
func (r *rig) files() []string {
	r.Helper()
	list := must.Get(filepath.Glob(r.path() + ".parts/*"))
	return append([]string{r.path()}, list...)
}

// A page that a rule withdraws is in no file any more once the index is written, named or not, except as a tombstone.
func TestWithdrawnPageLeavesNoTrace(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 1000)
	r.write()
	r.append(create(page(900, "edited"))) // so that there is a change part without the page
	r.write()
	first, moved := page(300, "first"), page(5000, "")
	r.append(journal.Step{Op: protocol.Move, From: first.URL, Entry: journal.Entry{Item: moved}})
	for n := range 6 { // versions of the page are in change parts, and in parts that are not named any more
		r.append(create(page(5000, fmt.Sprint("secret title ", n))), create(page(n, "edited")))
		r.write()
	}
	r.check("moved")
	holding := 0
	for _, f := range r.files() {
		if strings.Contains(r.text(f), "secret title") {
			holding++
		}
	}
	if holding < 5 {
		t.Fatalf("the page is in %d files: the test is too weak", holding)
	}
	r.forbidden[moved.URL] = true
	r.append(remove(moved.URL))
	r.write()
	r.check("withdrawn")
	gone := 0
	for _, f := range r.files() {
		text := r.text(f)
		if strings.Contains(text, "secret title") || strings.Contains(text, `isReplacedBy rdf:resource="`+base) {
			t.Errorf("%s still has the page", f)
		}
		gone += strings.Count(text, `<p:Tombstone rdf:about="`+strings.ReplaceAll(moved.URL, "&", "&amp;"))
	}
	if gone == 0 {
		t.Error("nothing says that the page is gone")
	}
}

// A site grows beyond the threshold and shrinks again; the parts come and go.
func TestThresholdIsCrossedBothWays(t *testing.T) {
	r := newRig(t, 200)
	inParts := func(what string, want bool) {
		t.Helper()
		r.write()
		r.check(what)
		if is := r.head().Whole != nil; is != want {
			t.Errorf("%s: in parts: %v", what, is)
		}
		if n := len(r.files()) - 1; n > 0 != want {
			t.Errorf("%s: %d files of parts", what, n)
		}
		if r.write() {
			t.Errorf("%s: written again", what)
		}
	}
	drop := func(from, to int) {
		var steps []journal.Step
		for n := from; n < to; n++ {
			steps = append(steps, remove(page(n, "").URL))
		}
		r.append(steps...)
	}
	r.fill(0, 199)
	inParts("below", false)
	r.fill(199, 200)
	inParts("at the threshold", true)
	drop(100, 200)
	inParts("at half of it", true)
	r.open(200)
	inParts("at half of it, in another process", true)
	drop(99, 100)
	inParts("below half of it", false)
	r.fill(99, 300)
	inParts("above again", true)
	r.open(0)
	inParts("with parts switched off", false)
	r.open(200)
	inParts("with parts switched on", true)
	r.must(r.journal.Close())
	r.must(os.Remove(filepath.Join(r.dir, "state")))
	r.journal = nil
	r.open(0)
	r.fill(0, 300)
	r.must(r.journal.EndBaseline())
	inParts("with the state lost, and parts switched off", false)
}

// One edit adds a change part and leaves every page part alone; many edits are folded into page parts in the end.
func TestEditsCostWhatChanged(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 1000)
	r.write()
	first := r.head().Whole
	edits := 0
	for ; slices.EqualFunc(r.head().Whole.Parts, first.Parts, func(a, b protocol.Part) bool { return a.Digest == b.Digest }); edits++ {
		if edits > 150 {
			t.Fatal("the change parts grow and grow")
		}
		r.append(create(page(edits%90, fmt.Sprint("edit ", edits))))
		r.write()
	}
	if edits < 100 {
		t.Errorf("folded after %d edits", edits)
	}
	w := r.head().Whole
	left := func() (n int) {
		for _, p := range w.Changed {
			n += p.Items
		}
		return n
	}
	r.check("folded")
	for tries := 0; left() > 50 && tries < 20; tries++ { // on a slow machine a fold takes several writes
		r.append(create(page(90+tries, "later")))
		r.write()
		w = r.head().Whole
	}
	if left() > 50 || len(w.Changed) == 0 {
		t.Errorf("%d change parts with %d entries are left", len(w.Changed), left())
	}
	for _, p := range w.Parts {
		if p.Seq < w.Changed[0].After {
			t.Errorf("a page part is as of %d, before the change parts", p.Seq)
		}
	}
}

// A fold that touches more page parts than one Write rewrites goes on in the next ones, each of which publishes an
// index that is right, until it is done.
func TestFoldOfManyParts(t *testing.T) {
	if testing.Short() {
		t.Skip("many parts, which are written as in the other tests")
	}
	r := newRig(t, 100)
	r.snapshot.SmallParts(3, 400)
	r.fill(0, 1000)
	r.write()
	first := r.head().Whole
	if len(first.Parts) < 200 {
		t.Fatalf("%d parts: the test is too weak", len(first.Parts))
	}
	for n := range 7 {
		var steps []journal.Step
		for i := range 60 {
			steps = append(steps, create(page((60*n+i)*2, fmt.Sprint("edit ", n))))
		}
		r.append(steps...)
		r.write()
		r.check(fmt.Sprint("edit ", n))
	}
	entries := 0
	for n := 0; n < 9 || entries > 200 && n < 100; n++ { // a pass has half a second, in which a busy machine does less
		r.append(create(page(n, "later")))
		r.write()
		r.check(fmt.Sprint("later edit ", n))
		entries = 0
		for _, p := range r.head().Whole.Changed {
			entries += p.Items
		}
	}
	kept := 0
	w := r.head().Whole
	for _, p := range first.Parts {
		if slices.ContainsFunc(w.Parts, func(o protocol.Part) bool { return o.Digest == p.Digest }) {
			kept++
		}
	}
	if rewritten := len(first.Parts) - kept; rewritten <= 64 || entries > 200 {
		t.Errorf("%d parts were rewritten, %d entries are left in change parts", rewritten, entries)
	}
}

// What no change tells, such as an importance, is published within the hour, and leaves what is not touched as it is.
func TestQuietChangesArePublished(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 500)
	r.write()
	it := page(7, "text of 7")
	it.Importance = 90
	r.append(create(it))
	r.write()
	if got := r.published()[it.URL]; got.Importance != 0 {
		t.Errorf("importance %v after no time", got.Importance)
	}
	r.now = r.now.Add(time.Hour)
	r.append(create(page(8, "new")))
	r.write()
	r.check("an hour later")
	if r.write() {
		t.Error("written again")
	}
}

// Feed readers see the newest pages in the index, also of a site whose pages have not changed since it was first scanned,
// and after another process has taken over.
func TestIndexHasNewestItems(t *testing.T) {
	r := newRig(t, 100)
	dated := func(n, day int) protocol.Item {
		it := page(n, fmt.Sprint("text of ", n, " on ", day))
		it.Modified = it.Modified.AddDate(0, 0, day)
		return it
	}
	var steps []journal.Step
	for n := range 300 {
		steps = append(steps, create(dated(n, n*7%300)))
	}
	r.append(steps...)
	want := map[string]protocol.Item{}
	for n := range 300 {
		if it := dated(n, n*7%300); n*7%300 >= 285 {
			want[it.URL] = it
		}
	}
	named := func(what string) {
		t.Helper()
		r.write()
		f := must.Get(os.Open(r.path()))
		defer f.Close()
		got := map[string]protocol.Item{}
		for m := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: base + "robots.rdf"}); ; {
			rec, err := m.Next()
			if err == io.EOF {
				break
			}
			r.must(err)
			got[rec.Item.URL] = rec.Item
		}
		if !maps.EqualFunc(got, want, protocol.Item.Equal) {
			t.Errorf("%s: the index has %d items, %v, want %d, %v", what, len(got), slices.Sorted(maps.Keys(got)), len(want), slices.Sorted(maps.Keys(want)))
		}
		r.check(what)
	}
	oldest := slices.SortedFunc(maps.Keys(want), func(a, b string) int { return want[a].Modified.Compare(want[b].Modified) })
	named("first")
	r.open(100)
	if r.write() {
		t.Error("another process wrote the index again")
	}
	for n := range 3 { // one of them has an old date, as a restored file has
		delete(want, oldest[n])
		it := dated(1000+n, 400-200*n)
		r.append(create(it))
		want[it.URL] = it
		named(fmt.Sprint("new page ", n))
		r.open(100)
	}
	for url := range want {
		r.forbidden[url] = true
		r.append(remove(url))
		delete(want, url)
		break
	}
	named("withdrawn")
}

// A part is served for ever, in the content coding that a client prefers, and not once it is gone.
func TestPartsAreServed(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 500)
	r.write()
	get := func(path string, header ...string) *http.Response {
		req := httptest.NewRequest("GET", path, nil)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		r.snapshot.ServeHTTP(rec, req)
		return rec.Result()
	}
	p := r.head().Whole.Parts[0]
	path := "/" + strings.TrimPrefix(p.URL, base)
	for _, name := range []string{"", "gzip", "zstd"} {
		res := get(path, "Accept-Encoding", name)
		var z io.ReadCloser = res.Body
		if name != "" {
			z = must.Get(coding.NewReader(res.Body))
		}
		b := must.Get(io.ReadAll(z))
		h := res.Header
		if res.StatusCode != 200 || p.Check(b) != nil || h.Get("Content-Encoding") != name || h.Get("Content-Type") != protocol.ManifestType ||
			!strings.Contains(h.Get("Cache-Control"), "immutable") || h.Get("Vary") == "" {
			t.Errorf("%q: status %d, %v", name, res.StatusCode, h)
		}
		if res := get(path, "Accept-Encoding", name, "If-None-Match", h.Get("Etag")); res.StatusCode != 304 {
			t.Errorf("%q: status %d for a part that the client has", name, res.StatusCode)
		}
	}
	if res := get("/robots.rdf"); res.StatusCode != 200 || res.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("index: status %d, %v", res.StatusCode, res.Header)
	}
	for _, gone := range []string{"/robots.rdf.parts/", "/robots.rdf.parts/x", "/robots.rdf.parts/" + strings.Repeat("0", 64) + ".rdf"} {
		if res := get(gone); res.StatusCode != 404 {
			t.Errorf("%s: status %d", gone, res.StatusCode)
		}
	}
}
