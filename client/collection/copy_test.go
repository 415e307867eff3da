package collection_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// onlyTold is a policy that visits only the pages of notices.
type onlyTold struct{}

func (onlyTold) Profit(*fresh.Page, time.Time) float64 { return 1 }

func (onlyTold) Next(p *fresh.Page, _ time.Time) time.Time {
	if p.Heard.Notified {
		return time.Time{}
	}
	return collection.Never
}

// A copyRig is the copy of the home site, with its state where "crawler follow" has it.
type copyRig struct {
	*rig
	root string
	src  collection.Source
	gets map[string]int // requests per path
}

func newCopyRig(t testing.TB) *copyRig {
	r := &copyRig{rig: &rig{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, root: filepath.Join(t.TempDir(), "copy"), gets: map[string]int{}}
	r.dir = filepath.Join(r.root, ".parley")
	r.o = collection.Options{Policy: onlyTold{}, Now: func() time.Time { return r.now }, Contents: collection.Mirror, Site: home + "/", Root: r.root}
	r.start()
	return r
}

func (r *copyRig) start() {
	r.t.Helper()
	r.c = open(r.t, r.dir, &r.o)
	r.src = r.manifest()
}

// manifest returns the source of the site.
func (r *copyRig) manifest() collection.Source {
	r.t.Helper()
	list := must.Get(r.c.Sources(0))
	if len(list) == 0 {
		return r.source(collection.ManifestRDF)
	}
	return list[0]
}

func (r *copyRig) close() {
	r.t.Helper()
	must.OK(r.t, r.c.Close())
}

func (r *copyRig) reopen() {
	r.t.Helper()
	r.close()
	r.start()
}

func (r *copyRig) apply(s client.Step) collection.Applied {
	r.t.Helper()
	by := collection.ByStream
	if s.Door == client.Manifest {
		by = collection.ByManifest
	}
	return r.rig.apply(r.src, s, by)
}

func (r *copyRig) cursor() protocol.Cursor { return r.manifest().Cursor }

// due returns the pages that are due now.
func (r *copyRig) due() (list []collection.Page) {
	r.t.Helper()
	for p, err := range r.c.Pages(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		if !p.At.After(r.now) {
			list = append(list, p)
		}
	}
	return list
}

// next returns the time until a page is due, and false if none will be.
func (r *copyRig) next() (wait time.Duration, ok bool) {
	r.t.Helper()
	for p, err := range r.c.Pages(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		if d := max(0, p.At.Sub(r.now)); p.At.Before(collection.Never) && (!ok || d < wait) {
			wait, ok = d, true
		}
	}
	return wait, ok
}

// reply returns the visit that results from fetching a page, which the site may not have.
func (r *copyRig) reply(p *collection.Page, site map[string]string) collection.Visit {
	path := strings.TrimPrefix(p.URL, home)
	r.gets[path]++
	v := collection.Visit{Page: p.ID, Asked: r.now, Status: 404, Want: p.Debt}
	v.Claimed, _ = p.Claim()
	if body, ok := site[path]; ok {
		v.Status, v.Body, v.Digest, v.ETag = 200, []byte(body), protocol.Sum([]byte(body)), `"e"`
	}
	return v
}

// pay fetches the due pages, at most so many.
func (r *copyRig) pay(site map[string]string, most int) []collection.Visited {
	r.t.Helper()
	out := must.Get(r.tryPay(site, most))
	return out
}

func (r *copyRig) tryPay(site map[string]string, most int) ([]collection.Visited, error) {
	var t collection.Commit
	list := r.due()
	for i := range list[:min(len(list), most)] {
		t.Visits = append(t.Visits, r.reply(&list[i], site))
	}
	done, err := r.c.Commit(&t)
	return done.Visited, err
}

// files returns the files of the copy, without its own bookkeeping files, but with those
// that were moved aside.
func (r *copyRig) files() map[string]string {
	r.t.Helper()
	m := map[string]string{}
	must.OK(r.t, filepath.WalkDir(r.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(r.root, p)
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && !strings.HasPrefix(rel, ".parley"):
			if list, err := os.ReadDir(p); err == nil && len(list) == 0 {
				r.t.Errorf("%s is an empty directory", rel)
			}
		case d.IsDir(), filepath.Dir(rel) == ".parley":
		default:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			m[rel] = string(b)
		}
		return nil
	}))
	return m
}

func (r *copyRig) wantFiles(want map[string]string) {
	r.t.Helper()
	if g, w := inOrder(r.files()), inOrder(want); g != w {
		r.t.Errorf("files are\n%s\nwant\n%s", g, w)
	}
}

func inOrder(m map[string]string) string {
	var l []string
	for k, v := range m {
		l = append(l, fmt.Sprintf("%q: %q", k, v))
	}
	slices.Sort(l)
	return strings.Join(l, "\n")
}

func (r *copyRig) in(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

// counts returns the number of pages that are offered, stored, and pending fetch.
func (r *copyRig) counts() (offered, held, owed int) {
	for p, err := range r.c.Pages(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		if p.State == collection.Gone {
			continue
		}
		offered++
		if p.Stored.File != "" {
			held++
		}
		if p.Told {
			owed++
		}
	}
	return offered, held, owed
}

func (r *copyRig) wantCounts(offered, held, owed int) {
	r.t.Helper()
	a, b, c := r.counts()
	want(r.t, "offered, held and owed", [3]int{a, b, c}, [3]int{offered, held, owed})
}

func homeSite(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestCopyOfASite(t *testing.T) {
	r := newCopyRig(t)
	step := whole(7, create("/", "home"), create("/a.html", "A"), create("/d/b.html", "B"))
	if a := r.apply(step); a.Pending != 3 {
		t.Errorf("applied %+v", a)
	}
	r.wantCounts(3, 0, 3)
	for _, v := range r.pay(homeSite("/", "home", "/a.html", "A", "/d/b.html", "B"), 10) {
		if !v.Matched || !v.Changed {
			t.Errorf("visited %+v", v)
		}
	}
	files := map[string]string{"index.html": "home", "a.html": "A", "d/b.html": "B"}
	r.wantFiles(files)
	r.wantCounts(3, 3, 0)
	if got := r.content("/d/b.html"); got != "B" {
		t.Errorf("the content is %q", got)
	}
	r.reopen()
	r.wantFiles(files)
	r.wantCounts(3, 3, 0)
	if s := r.manifest(); s.Cursor != cursor(7) || s.Door != string(client.Manifest) {
		t.Errorf("cursor %v, by %s", s.Cursor, s.Door)
	}
	if c, ok := r.c.Copy(); !ok || c.Base != home+"/" || c.Matched != 3 || c.Mismatched != 0 {
		t.Errorf("copy %+v %v", c, ok)
	}
	// Applying the same description again makes no fetch pending.
	if a := r.apply(step); a.Pending != 0 || a.Gone != 0 {
		t.Errorf("repeated: %+v", a)
	}
	check(t, r.c)

	// A process that only reads the state finds the files, too.
	r.close()
	c, err := collection.Open(r.dir, &collection.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	p, _, _ := c.Page(home + "/d/b.html")
	body, err := c.Contents().Content(p.URL, p.Stored)
	if got := read(t, body, err); got != "B" {
		t.Errorf("the content is %q", got)
	}
	must.OK(t, c.Close())
	r.start()
}

func TestMoveCostsNoRequest(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/c", "C")
	r.apply(whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(s, 10)
	// In one step: a swap by way of a third name, a move onto a page, a move and a move on.
	a := r.apply(told(6, move("/a", "/t", "A"), move("/b", "/a", "B"), move("/t", "/b", "A"), move("/c", "/d/c", "C"), move("/d/c", "/e/c", "C")))
	if a.Moved != 5 || a.Pending != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "B", "b": "A", "e/c": "C"})
	if a := r.apply(told(7, move("/e/c", "/a", "C"))); a.Moved != 1 || a.Pending != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "C", "b": "A"})
	// A moved page that is not held, or held in another version, must be fetched.
	if a := r.apply(told(9, move("/b", "/f", "newer"), move("/x", "/y", "Y"))); a.Moved != 0 || a.Pending != 2 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "C"})
	r.wantCounts(3, 1, 2)
	// A file that was removed cannot be moved.
	os.Remove(r.in("a"))
	if a := r.apply(told(10, move("/a", "/g", "C"))); a.Moved != 0 || a.Pending != 1 {
		t.Errorf("applied %+v", a)
	}
	s["/g"], s["/f"], s["/y"] = "C", "newer", "Y"
	r.pay(s, 10)
	r.wantFiles(map[string]string{"g": "C", "f": "newer", "y": "Y"})
	r.reopen()
	r.wantCounts(3, 3, 0)
}

func TestWholeSnapshotRemovesMissingPages(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/c", "C")
	r.apply(whole(5, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(s, 10)
	// The snapshot is not whole: a missing page proves nothing.
	r.apply(client.Step{Door: client.Manifest, Reset: true, Cursor: cursor(6), Changes: []protocol.Change{create("/a", "A")}})
	r.wantCounts(3, 3, 0)
	// Whole, and before the cursor: the site was restored to an earlier state.
	if a := r.apply(whole(4, create("/a", "A"), create("/b", "B"))); a.Gone != 1 {
		t.Errorf("applied %+v", a)
	}
	if c := r.cursor(); c != cursor(4) {
		t.Errorf("cursor %v, want the earlier one: later changes are delivered again", c)
	}
	if a := r.apply(told(5, create("/c", "C"))); a.Pending != 1 {
		t.Errorf("applied %+v", a)
	}
	r.pay(s, 10)
	// In two steps, after an unfinished snapshot that is discarded.
	r.apply(client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{create("/b", "B")}})
	r.apply(client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{create("/a", "A")}})
	if c := r.cursor(); c != cursor(5) {
		t.Errorf("cursor %v before the snapshot is complete", c)
	}
	if a := r.apply(client.Step{Door: client.Manifest, Whole: true, Cursor: cursor(9), Changes: []protocol.Change{create("/c", "C2")}}); a.Gone != 1 || a.Pending != 1 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "A", "c": "C"})
}

// A manifest names a renamed file only by its new URL; the copy moves its file.
func TestWholeSnapshotMovesRenamedPages(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/old/a", "A", "/old/b", "B", "/c", "C", "/d", "D")
	r.apply(whole(5, create("/old/a", "A"), create("/old/b", "B"), create("/c", "C"), create("/d", "D")))
	r.pay(s, 10)
	os.Remove(r.in("old/b"))
	// A directory is renamed, in which a person has removed a file of the copy; /c is renamed, and so is /d, to the name of /c.
	if a := r.apply(whole(9, create("/new/a", "A"), create("/new/b", "B"), create("/e", "C"), create("/c", "D"))); a.Moved != 3 || a.Gone != 0 {
		t.Errorf("moved %d, gone %d", a.Moved, a.Gone)
	}
	r.wantFiles(map[string]string{"new/a": "A", "c": "D"}) // /c had content of its own, which no page may have any more
	r.reopen()
	r.wantCounts(4, 2, 2)
	s["/new/b"], s["/e"] = "B", "C"
	r.pay(s, 10)
	r.wantFiles(map[string]string{"new/a": "A", "new/b": "B", "c": "D", "e": "C"})
	// Equal pages that stay are not moved, and what has another digest is fetched.
	if a := r.apply(whole(12, create("/e", "C"), create("/c", "D"), create("/f", "D"), create("/g", "new"))); a.Moved != 0 || a.Gone != 2 || a.Pending != 2 {
		t.Errorf("moved %d, gone %d, pending %d", a.Moved, a.Gone, a.Pending)
	}
}

// The site holds deletions back; its copy does not hold them back a second time.
func TestMassDeletionInCopyIsNotHeld(t *testing.T) {
	r := newCopyRig(t)
	for i := range 3 {
		step := client.Step{Door: client.Manifest, Reset: i == 0}
		for j := range 1000 {
			step.Changes = append(step.Changes, create(fmt.Sprintf("/%d/%d", i, j), "x"))
		}
		r.apply(step)
	}
	if a := r.apply(whole(2, create("/only", "x"))); a.Gone != 3000 || a.Pending != 1 || a.Held != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantCounts(1, 0, 1)
}

func TestRepeatedChangesAreIgnored(t *testing.T) {
	r := newCopyRig(t)
	first := told(3, create("/a", "A1"), create("/b", "B"), remove("/c"))
	r.apply(first)
	r.apply(told(5, create("/a", "A2"), remove("/b")))
	r.pay(homeSite("/a", "A2"), 10)
	if a := r.apply(first); a.Known != 3 || a.Pending != 0 || a.Gone != 0 {
		t.Errorf("applied %+v", a)
	}
	if c := r.cursor(); c != cursor(5) {
		t.Errorf("cursor %v", c)
	}
	r.wantFiles(map[string]string{"a": "A2"})
	// A claim of the digest that is held clears the pending fetch.
	r.apply(told(6, create("/a", "A3")))
	r.wantCounts(1, 1, 1)
	r.apply(told(7, create("/a", "A2")))
	r.wantCounts(1, 1, 0)
}

// Without digests the date decides; if that proves nothing, the page is fetched.
func TestChangesWithoutDigest(t *testing.T) {
	day := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	claim := func(mod time.Time, span time.Duration) client.Step {
		return client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{{Op: protocol.Create,
			Item: protocol.Item{URL: home + "/a", Length: -1, Modified: mod, Span: span}}}}
	}
	for _, c := range []struct {
		name          string
		first, second client.Step
		owed          int
	}{
		{"same", claim(day, 0), claim(day, 0), 0},
		{"newer", claim(day, 0), claim(day.Add(time.Second), 0), 1},
		{"older", claim(day, 0), claim(day.Add(-time.Second), 0), 1},
		{"unknown", claim(time.Time{}, 0), claim(time.Time{}, 0), 1},
		{"absurd", claim(day.AddDate(-40, 0, 0), 0), claim(day.AddDate(-40, 0, 0), 0), 1},
		{"past day", claim(day, 24*time.Hour), claim(day, 24*time.Hour), 0},
		{"today", claim(day.AddDate(0, 1, 0), 24*time.Hour), claim(day.AddDate(0, 1, 0), 24*time.Hour), 1},
	} {
		r := newCopyRig(t)
		r.apply(c.first)
		r.pay(homeSite("/a", "A"), 1)
		r.wantCounts(1, 1, 0)
		if a := r.apply(c.second); a.Pending != c.owed {
			t.Errorf("%s: applied %+v, want %d pending fetches", c.name, a, c.owed)
		}
	}
}

func TestOtherSiteIsRefused(t *testing.T) {
	r := newCopyRig(t)
	r.close()
	refused := func(what, dir, root, site string, why error) {
		t.Helper()
		o := r.o
		o.Root, o.Site = root, site
		if site == "" {
			o.Root, o.Contents = "", collection.WARC
		}
		c, err := collection.Open(dir, &o)
		if err == nil {
			c.Close()
		}
		if err == nil || why != nil && !errors.Is(err, why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("state of another site", r.dir, t.TempDir(), "http://other.test/", collection.ErrOther)
	refused("directory of another site", t.TempDir(), r.root, "http://other.test/", collection.ErrOther)
	refused("state of a copy, for a crawl", r.dir, "", "", collection.ErrOther)
	refused("a base without its slash", t.TempDir(), t.TempDir(), home, nil)
	strange := t.TempDir()
	r.write(filepath.Join(strange, "thesis.tex"), "")
	refused("a directory with other files", filepath.Join(strange, ".parley"), strange, home+"/", nil)
	if _, err := os.Stat(filepath.Join(strange, ".parley")); err == nil {
		t.Error("a rejected directory was written to")
	}
	r.start()
	refused("state that is held", r.dir, r.root, home+"/", collection.ErrHeld)
	if runtime.GOOS != "windows" {
		refused("directory that is held", t.TempDir(), r.root, home+"/", collection.ErrHeld)
	}
	r.apply(whole(1, create("/a", "A")))
	r.pay(homeSite("/a", "A"), 1)
	r.reopen()
	r.wantFiles(map[string]string{"a": "A"})
}

// A page forbidden by robots.txt becomes a pending fetch again once allowed, and is removed when the site
// says so.
func TestForbiddenPages(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/c", "C")
	r.apply(whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(s, 10)
	r.apply(told(4, create("/a", "A2"), create("/b", "B2"), create("/c", "C2")))
	var turn collection.Commit
	for _, p := range r.due() {
		turn.Visits = append(turn.Visits, collection.Visit{Page: p.ID, Exclude: "robots.txt: Disallow: /"})
	}
	r.commit(turn)
	if _, ok := r.next(); ok {
		t.Error("a forbidden page is due")
	}
	forbid := collection.ApplyOptions{Admit: func(url string) collection.Find { return collection.Find{URL: url, Exclude: "robots.txt"} }}
	for _, step := range []client.Step{told(5, create("/a", "A3"), remove("/b")), whole(6, create("/a", "A3"), create("/new", "N"))} {
		must.Get(r.c.Apply(r.src.ID, step, collection.ByManifest, forbid))
	}
	r.wantFiles(map[string]string{"a": "A"})
	r.commit(collection.Commit{Finds: []collection.Find{{URL: home + "/a"}, {URL: home + "/new"}}})
	r.pay(homeSite("/a", "A3", "/new", "N"), 10)
	r.wantFiles(map[string]string{"a": "A3", "new": "N"})
	r.wantCounts(2, 2, 0)
	r.apply(whole(7, create("/a", "A3")))
	r.wantFiles(map[string]string{"a": "A3"})
}

// rivals are paths that compete for the same file names.
var rivals = []string{"", "a", "a/", "a/b", "a/b/", "a/b/c", "A", "A/b", "index.html", "a/index.html", "x?q", "x%3Fq", "x//y", ".hidden",
	"d/e/f/g", "d/e/f", "d/e", "d", "long" + strings.Repeat("g", 300), "%FF", "n1", "n2", "n3", "n4"}

// A page that comes with its change is stored in the transaction that stores the change and the cursor, if it is the page that
// the site has announced.
func TestPagesStoredWithTheirChanges(t *testing.T) {
	r := newCopyRig(t)
	r.apply(whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(homeSite("/a", "A", "/b", "B", "/c", "C"), 3)
	r.wait(time.Minute)
	brought := func(path, body string) collection.Visit {
		v := r.answer(path, 200, body)
		v.Want, v.Delivered, v.Type = v.Digest, true, ""
		return v
	}
	s := &collection.Step{Source: r.src.ID, By: collection.ByStream, Step: told(3, create("/a", "A2"), create("/b", "B2")),
		Visits: []collection.Visit{brought("/a", "A2"), brought("/b", "B3"), brought("/c", "C2")}}
	done, err := r.c.Commit(&collection.Commit{Steps: []*collection.Step{s}})
	if err != nil || len(done.Visited) != 1 || !done.Visited[0].Matched || !done.Visited[0].Changed {
		t.Fatalf("visited %+v, %v", done.Visited, err)
	}
	if b, c := r.page("/b").ID, r.page("/c").ID; !slices.Equal(s.Unwanted, []frontier.PageID{b, c}) {
		t.Errorf("unwanted: %v, want %d and %d", s.Unwanted, b, c)
	}
	want(t, "pending by the step", s.Applied.Pending, 2)
	r.reopen()
	want(t, "cursor", r.cursor(), cursor(3))
	r.wantFiles(map[string]string{"a": "A2", "b": "B", "c": "C"})
	r.wantCounts(3, 3, 1)
	r.pay(homeSite("/b", "B2"), 1)
	r.wantFiles(map[string]string{"a": "A2", "b": "B2", "c": "C"})
}

// A page that is fetched because of a change, and stored in the transaction of the change, counts as requested after it.
func TestPagesFetchedForTheirChanges(t *testing.T) {
	r := newCopyRig(t)
	r.apply(whole(1, create("/a", "A"), create("/b", "B")))
	r.pay(homeSite("/a", "A", "/b", "B"), 2)
	r.wait(time.Minute)
	fetched := func(path, announced, body string) collection.Visit {
		v := r.answer(path, 200, body)
		v.Want, v.Asked, v.Type = protocol.Sum([]byte(announced)), r.now.Add(-time.Millisecond), ""
		return v
	}
	s := &collection.Step{Source: r.src.ID, By: collection.ByStream, Step: told(3, create("/a", "A2"), create("/b", "B2"))}
	done, err := r.c.Commit(&collection.Commit{Steps: []*collection.Step{s},
		Visits: []collection.Visit{fetched("/a", "A2", "A2"), fetched("/b", "B2", "B3")}})
	if err != nil || len(done.Visited) != 2 || !done.Visited[0].Matched || !done.Visited[1].Mismatched {
		t.Fatalf("visited %+v, %v", done.Visited, err)
	}
	want(t, "pending by the step", s.Applied.Pending, 2)
	r.reopen()
	want(t, "cursor", r.cursor(), cursor(3))
	r.wantFiles(map[string]string{"a": "A2", "b": "B3"})
	r.wantCounts(2, 2, 1)
}
