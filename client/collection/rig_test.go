package collection_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

const home = "https://a.example"

// daily is a policy that a test can predict: every page once a day, and at once after a notice.
type daily struct{}

func (daily) Profit(*fresh.Page, time.Time) float64 { return 0.5 }
func (daily) Next(h *fresh.Page, _ time.Time) time.Time {
	if h.Heard.Notified {
		return time.Time{}
	}
	return h.Last.Add(24 * time.Hour)
}

func open(t testing.TB, dir string, o *collection.Options) *collection.Collection {
	t.Helper()
	c := must.Get(collection.Open(dir, o))
	t.Cleanup(func() { c.Close() })
	if _, is := t.(*testing.T); is {
		c.HoldBack(20)
	}
	return c
}

// A rig is a collection with a clock of its own.
type rig struct {
	t   testing.TB
	dir string
	o   collection.Options
	c   *collection.Collection
	now time.Time
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	r.o = collection.Options{Policy: daily{}, Now: func() time.Time { return r.now }}
	r.c = open(t, r.dir, &r.o)
	return r
}

func (r *rig) reopen() {
	r.t.Helper()
	must.OK(r.t, r.c.Close())
	r.c = open(r.t, r.dir, &r.o)
}

func (r *rig) wait(d time.Duration) { r.now = r.now.Add(d) }

func (r *rig) commit(t collection.Commit) collection.Committed {
	r.t.Helper()
	return must.Get(r.c.Commit(&t))
}

// find makes pages of the home site known, as links do.
func (r *rig) find(paths ...string) collection.Committed {
	r.t.Helper()
	return r.commit(collection.Commit{Finds: finds(1, paths...)})
}

func finds(depth int, paths ...string) (list []collection.Find) {
	for _, p := range paths {
		list = append(list, collection.Find{URL: home + p, Depth: depth, By: collection.ByLink})
	}
	return list
}

func (r *rig) page(path string) collection.Page {
	r.t.Helper()
	p, ok, err := r.c.Page(home + path)
	if err != nil || !ok {
		r.t.Fatalf("page %s: %v %v", path, ok, err)
	}
	return p
}

// answer returns a visit of a page with a body, or without one if that is empty.
func (r *rig) answer(path string, status int, body string, links ...string) collection.Visit {
	r.t.Helper()
	v := collection.Visit{Page: r.page(path).ID, Asked: r.now, Status: status, Links: finds(2, links...)}
	if body != "" {
		v.References = refersTo(home + "/" + body + ".png")
		v.Body, v.Digest, v.Parsed, v.ETag, v.Type = []byte(body), protocol.Sum([]byte(body)), protocol.Sum([]byte("parsed "+strings.ToLower(body))), `"`+body+`"`, "text/html"
	}
	return v
}

// refersTo returns the references of a page of the home site that embeds and links to some URLs.
func refersTo(urls ...string) []byte {
	var c references.Counter
	c.Reset(home + "/")
	for _, u := range urls {
		c.Embed([]byte(u))
		c.Add([]byte(u), true)
	}
	return c.Encode()
}

// referred returns what pages refer to, as text.
func referred(t testing.TB, c *collection.Collection) map[frontier.PageID]string {
	t.Helper()
	all := map[frontier.PageID]string{}
	must.OK(t, c.References(func(page frontier.PageID, r *collection.References, damaged error) bool {
		if damaged != nil {
			t.Error(damaged)
			return false
		}
		all[page] = fmt.Sprint(*r)
		return true
	}))
	return all
}

// visit commits one answer.
func (r *rig) visit(path string, status int, body string, links ...string) collection.Visited {
	r.t.Helper()
	out := r.commit(collection.Commit{Visits: []collection.Visit{r.answer(path, status, body, links...)}})
	return out.Visited[0]
}

// due returns the time until a page is due, and -1 if it is not scheduled.
func (r *rig) due(path string) time.Duration {
	r.t.Helper()
	p := r.page(path)
	e, ok := p.Entry()
	if !ok {
		return -1
	}
	if e.At == 0 {
		return 0
	}
	return time.UnixMilli(e.At).Sub(r.now)
}

// source makes a source of the home site, of the given kind.
func (r *rig) source(kind collection.SourceKind) collection.Source {
	r.t.Helper()
	out := r.commit(collection.Commit{Sources: []collection.Source{{Kind: kind, URL: home + "/" + string(kind)}}})
	if len(out.Sources) != 1 {
		r.t.Fatalf("new sources: %+v", out.Sources)
	}
	return out.Sources[0]
}

func (r *rig) apply(source collection.Source, step client.Step, by collection.Signal) collection.Applied {
	r.t.Helper()
	return must.Get(r.c.Apply(source.ID, step, by, collection.ApplyOptions{}))
}

func cursor(seq uint64) protocol.Cursor { return protocol.Cursor{Epoch: "epoch", Seq: seq} }

func create(path, body string) protocol.Change {
	it := protocol.Item{URL: home + path, Length: -1}
	if body != "" {
		it.Digest = protocol.Sum([]byte(body))
	}
	return protocol.Change{Op: protocol.Create, Item: it}
}

func remove(path string) protocol.Change {
	return protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: home + path, Length: -1}}
}

func move(from, to, body string) protocol.Change {
	ch := create(to, body)
	ch.Op, ch.From = protocol.Move, home+from
	return ch
}

// whole is a snapshot in one step; told is a step of the stream.
func whole(seq uint64, changes ...protocol.Change) client.Step {
	return client.Step{Changes: changes, Cursor: cursor(seq), Door: client.Manifest, Reset: true, Whole: true}
}

func told(seq uint64, changes ...protocol.Change) client.Step {
	for i := range changes {
		changes[i].Seq = seq - uint64(len(changes)-1-i)
	}
	return client.Step{Changes: changes, Cursor: cursor(seq), Door: client.Stream}
}

// queue returns the paths of the pages that are due now, in order.
func (r *rig) queue() (paths []string) {
	r.t.Helper()
	for s := range r.c.Sites() {
		list := must.Get(r.c.Queue().Head(s.ID, frontier.Entry{}, 1<<20))
		for _, e := range list {
			p, _, err := r.c.PageByID(e.Page)
			if err != nil {
				r.t.Fatal(err)
			}
			paths = append(paths, strings.TrimPrefix(p.URL, home))
		}
	}
	return paths
}

func (r *rig) promote() {
	r.t.Helper()
	for {
		list := must.Get(r.c.Queue().Promote(r.now.UnixMilli(), 100))
		if len(list) < 100 {
			return
		}
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantAll(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// check reads all of a collection and reports where its parts disagree:
// the queue and the pages, the counters and what they count, the set of known URLs
// and the URLs.
func check(t testing.TB, c *collection.Collection) {
	t.Helper()
	entries := map[frontier.PageID]frontier.Entry{}
	type counts struct{ pages, held, gone, dynamic, errors, duplicates int }
	sites := map[frontier.SiteID]*counts{}
	n := 0
	for p, err := range c.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; p.ID != frontier.PageID(n) {
			t.Fatalf("page %d comes after %d", p.ID, n-1)
		}
		if id, ok := c.Known(p.URL); !ok || id != p.ID {
			t.Errorf("%s is known as %d %v, want %d", p.URL, id, ok, p.ID)
		}
		if e, ok := p.Entry(); ok {
			entries[p.ID] = e
		}
		s := sites[p.Site]
		if s == nil {
			s = &counts{}
			sites[p.Site] = s
		}
		s.pages++
		add := func(to *int, is bool) {
			if is {
				*to++
			}
		}
		add(&s.held, !p.Digest.IsZero() && p.State != collection.Gone)
		add(&s.gone, p.State == collection.Gone)
		add(&s.dynamic, p.Dynamic)
		add(&s.errors, p.State == collection.Failing || p.State == collection.Refused)
		add(&s.duplicates, p.Original != 0)
	}
	want(t, "pages known", c.Len(), n)
	for s := range c.Sites() {
		if sites[s.ID] == nil {
			sites[s.ID] = &counts{}
		}
		want(t, s.Origin, counts{s.Pages, s.Held, s.Gone, s.Dynamic, s.Errors, s.Duplicates}, *sites[s.ID])
		sources := must.Get(c.Sources(s.ID))
		for i := range sources {
			s.Doomed -= sources[i].Doomed
		}
		want(t, s.Origin+" doomed beside those of its sources", s.Doomed, 0)
		list := must.Get(c.Queue().Head(s.ID, frontier.Entry{}, 1<<30))
		want(t, s.Origin+" ready", s.Ready, len(list))
		for i, e := range list {
			if i > 0 && (list[i-1].Rank < e.Rank || list[i-1].Rank == e.Rank && list[i-1].Page >= e.Page) {
				t.Errorf("%+v comes after %+v", e, list[i-1])
			}
			if entries[e.Page] != e {
				t.Errorf("entry %+v is ready, the page has %+v", e, entries[e.Page])
			}
			delete(entries, e.Page)
		}
	}
	list := must.Get(c.Waiting())
	for _, e := range list {
		if entries[e.Page] != e {
			t.Errorf("entry %+v waits, the page has %+v", e, entries[e.Page])
		}
		delete(entries, e.Page)
	}
	for _, e := range entries {
		t.Errorf("entry %+v is not in the queue", e)
	}
}

// dump writes out all of a collection's contents, for comparison.
func dump(t testing.TB, c *collection.Collection) string {
	t.Helper()
	var b strings.Builder
	others := referred(t, c)
	for p, err := range c.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		links := must.Get(c.Links(p.ID))
		fmt.Fprintf(&b, "%+v %v %s\n", p, links, others[p.ID])
	}
	for s := range c.Sites() {
		fmt.Fprintf(&b, "%+v\n", s)
	}
	list, err := c.Sources(0)
	fmt.Fprintf(&b, "%+v %v\n", list, err)
	waiting, err := c.Waiting()
	fmt.Fprintf(&b, "%+v %v\n", waiting, err)
	return b.String()
}
