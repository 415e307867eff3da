package collection_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/internal/filename"
	"github.com/parleyweb/parley/protocol"
)

// onlyTold is a policy that visits what was told of, and nothing else.
type onlyTold struct{}

func (onlyTold) Name() string                          { return "told" }
func (onlyTold) Profit(*fresh.Page, time.Time) float64 { return 1 }
func (onlyTold) Next(p *fresh.Page, _ time.Time) time.Time {
	if p.Told {
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
	list, err := r.c.Sources(0)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(list) == 0 {
		return r.source(collection.ManifestRDF)
	}
	return list[0]
}

func (r *copyRig) close() {
	r.t.Helper()
	if err := r.c.Close(); err != nil {
		r.t.Fatal(err)
	}
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

// due returns what is to be asked for now.
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

// next is how long it is until something is due, and false if nothing will be.
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

// reply is what asking for a page gives that a site has, or not.
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

// pay asks for what is due, at most so many pages.
func (r *copyRig) pay(site map[string]string, most int) []collection.Visited {
	r.t.Helper()
	out, err := r.tryPay(site, most)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *copyRig) tryPay(site map[string]string, most int) ([]collection.Visited, error) {
	var t collection.Turn
	list := r.due()
	for i := range list[:min(len(list), most)] {
		t.Visits = append(t.Visits, r.reply(&list[i], site))
	}
	done, err := r.c.Commit(&t)
	return done.Visited, err
}

// files returns what stands in the copy, its own files left out but for what
// stands aside.
func (r *copyRig) files() map[string]string {
	r.t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(r.root, func(p string, d fs.DirEntry, err error) error {
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
	})
	if err != nil {
		r.t.Fatal(err)
	}
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

// held counts pages that are offered, held and owed.
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
	if a := r.apply(step); a.Owed != 3 {
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
		t.Errorf("it holds %q", got)
	}
	r.reopen()
	r.wantFiles(files)
	r.wantCounts(3, 3, 0)
	if s := r.manifest(); s.Cursor != cursor(7) || s.Door != string(client.Manifest) {
		t.Errorf("stands at %v, told by %s", s.Cursor, s.Door)
	}
	if c, ok := r.c.Copy(); !ok || c.Base != home+"/" || c.Matched != 3 || c.Mismatched != 0 {
		t.Errorf("copy %+v %v", c, ok)
	}
	// The same description again owes nothing.
	if a := r.apply(step); a.Owed != 0 || a.Gone != 0 {
		t.Errorf("told again: %+v", a)
	}
	check(t, r.c)

	// Who only reads the state finds the files, too.
	r.close()
	c, err := collection.Open(r.dir, &collection.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	p, _, _ := c.Page(home + "/d/b.html")
	body, err := c.Content(&p)
	if got := read(t, body, err); got != "B" {
		t.Errorf("it holds %q", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
}

func TestMoveCostsNoRequest(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/c", "C")
	r.apply(whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(s, 10)
	// In one step: a swap by way of a third name, a move onto a page, a move and a move on.
	a := r.apply(told(6, move("/a", "/t", "A"), move("/b", "/a", "B"), move("/t", "/b", "A"), move("/c", "/d/c", "C"), move("/d/c", "/e/c", "C")))
	if a.Moved != 5 || a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "B", "b": "A", "e/c": "C"})
	if a := r.apply(told(7, move("/e/c", "/a", "C"))); a.Moved != 1 || a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "C", "b": "A"})
	// A move of what is not held, or held in another version, is owed.
	if a := r.apply(told(9, move("/b", "/f", "newer"), move("/x", "/y", "Y"))); a.Moved != 0 || a.Owed != 2 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "C"})
	r.wantCounts(3, 1, 2)
	// A file that somebody removed cannot be moved.
	os.Remove(r.in("a"))
	if a := r.apply(told(10, move("/a", "/g", "C"))); a.Moved != 0 || a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	s["/g"], s["/f"], s["/y"] = "C", "newer", "Y"
	r.pay(s, 10)
	r.wantFiles(map[string]string{"g": "C", "f": "newer", "y": "Y"})
	r.reopen()
	r.wantCounts(3, 3, 0)
}

func TestSnapshotIsAllThereIs(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/c", "C")
	r.apply(whole(5, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(s, 10)
	// Not whole: absence says nothing.
	r.apply(client.Step{Door: client.Manifest, Reset: true, Cursor: cursor(6), Changes: []protocol.Change{create("/a", "A")}})
	r.wantCounts(3, 3, 0)
	// Whole, and before the cursor: the site says that it was set back.
	if a := r.apply(whole(4, create("/a", "A"), create("/b", "B"))); a.Gone != 1 {
		t.Errorf("applied %+v", a)
	}
	if c := r.cursor(); c != cursor(4) {
		t.Errorf("stands at %v: what comes after the place it was set back to is told again", c)
	}
	if a := r.apply(told(5, create("/c", "C"))); a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	r.pay(s, 10)
	// In two steps, one begun before thrown away.
	r.apply(client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{create("/b", "B")}})
	r.apply(client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{create("/a", "A")}})
	if c := r.cursor(); c != cursor(5) {
		t.Errorf("stands at %v while a snapshot arrives", c)
	}
	if a := r.apply(client.Step{Door: client.Manifest, Whole: true, Cursor: cursor(9), Changes: []protocol.Change{create("/c", "C2")}}); a.Gone != 1 || a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "A", "c": "C"})
}

// Deletions are held back by the site, and not a second time by its copy.
func TestMostOfACopyGoes(t *testing.T) {
	r := newCopyRig(t)
	for i := range 3 {
		step := client.Step{Door: client.Manifest, Reset: i == 0}
		for j := range 1000 {
			step.Changes = append(step.Changes, create(fmt.Sprintf("/%d/%d", i, j), "x"))
		}
		r.apply(step)
	}
	if a := r.apply(whole(2, create("/only", "x"))); a.Gone != 3000 || a.Owed != 1 || a.Held != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantCounts(1, 0, 1)
}

func TestToldAgainIsPassedOver(t *testing.T) {
	r := newCopyRig(t)
	first := told(3, create("/a", "A1"), create("/b", "B"), remove("/c"))
	r.apply(first)
	r.apply(told(5, create("/a", "A2"), remove("/b")))
	r.pay(homeSite("/a", "A2"), 10)
	if a := r.apply(first); a.Known != 3 || a.Owed != 0 || a.Gone != 0 {
		t.Errorf("applied %+v", a)
	}
	if c := r.cursor(); c != cursor(5) {
		t.Errorf("stands at %v", c)
	}
	r.wantFiles(map[string]string{"a": "A2"})
	// A claim of what is held clears the debt.
	r.apply(told(6, create("/a", "A3")))
	r.wantCounts(1, 1, 1)
	r.apply(told(7, create("/a", "A2")))
	r.wantCounts(1, 1, 0)
}

// Without digests the date decides, and where that proves nothing, a request.
func TestClaimsWithoutDigest(t *testing.T) {
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
		{"day that is over", claim(day, 24*time.Hour), claim(day, 24*time.Hour), 0},
		{"today", claim(day.AddDate(0, 1, 0), 24*time.Hour), claim(day.AddDate(0, 1, 0), 24*time.Hour), 1},
	} {
		r := newCopyRig(t)
		r.apply(c.first)
		r.pay(homeSite("/a", "A"), 1)
		r.wantCounts(1, 1, 0)
		if a := r.apply(c.second); a.Owed != c.owed {
			t.Errorf("%s: applied %+v, want %d owed", c.name, a, c.owed)
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
		t.Error("something was left in a directory that was refused")
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

func (r *copyRig) write(name, content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Whichever of state and directory is lost, the copy comes back whole.
func TestLostStateAndLostDirectory(t *testing.T) {
	r := newCopyRig(t)
	state := t.TempDir()
	r.close()
	r.dir = state // so that each can be lost by itself
	os.RemoveAll(r.root)
	r.start()
	step := whole(1, create("/a", "A"), create("/d/b", "B"))
	s := homeSite("/a", "A", "/d/b", "B")
	files := map[string]string{"a": "A", "d/b": "B"}
	r.apply(step)
	r.pay(s, 10)
	r.close()

	os.Remove(filepath.Join(state, "state.db"))
	r.write(r.in("stray"), "of the lost state")
	r.write(r.in("e/f/stray"), "")
	r.write(r.in(".parley/other/stray"), "")
	r.start()
	if c := r.cursor(); !c.IsZero() {
		t.Fatal("a new state stands somewhere")
	}
	if err := r.c.Tidy(); err != nil {
		t.Fatal(err)
	}
	if r.apply(step); r.files()["stray"] == "" {
		t.Error("what nobody has is removed before it is known what there is")
	}
	r.pay(s, 10)
	if err := r.c.Tidy(); err != nil {
		t.Fatal(err)
	}
	r.wantFiles(files)

	r.close()
	os.RemoveAll(r.root)
	r.start()
	r.wantCounts(2, 0, 2)
	r.pay(s, 10)
	r.wantFiles(files)
	check(t, r.c)
}

// A file that somebody removed or cut short is fetched again after the next
// start, and no other. Nobody is told of it: the site has not changed.
func TestSpoiltFilesAreOwed(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/d/c", "C", "/d/e", "E")
	step := whole(1, create("/a", "A"), create("/b", "B"), create("/d/c", "C"), create("/d/e", "E"))
	r.apply(step)
	r.pay(s, 10)
	told := len(r.events(protocol.Cursor{}))
	os.RemoveAll(r.in("d"))
	r.write(r.in("a"), "")
	r.reopen()
	r.wantCounts(4, 1, 3)
	if a := r.apply(step); a.Known != 4 { // what the site says does not make it whole
		t.Errorf("applied %+v", a)
	}
	r.wantCounts(4, 1, 3)
	r.pay(s, 10)
	r.wantFiles(map[string]string{"a": "A", "b": "B", "d/c": "C", "d/e": "E"})
	if r.gets["/b"] != 1 {
		t.Error("what was in order was fetched again")
	}
	if n := len(r.events(protocol.Cursor{})); n != told {
		t.Errorf("%d events, want %d", n, told)
	}
	r.reopen()
	r.wantCounts(4, 4, 0)
	check(t, r.c)
}

// A state from before the last run does not know what that one did to the
// files. A page that is again what it was then would stay wrong for ever.
func TestStateFromBefore(t *testing.T) {
	for _, back := range []string{"state", "directory"} {
		r := newCopyRig(t)
		r.close()
		r.dir = t.TempDir()
		os.RemoveAll(r.root)
		r.start()
		s := homeSite("/a", "A", "/b", "B", "/c", "C")
		r.apply(whole(1, create("/a", "A"), create("/b", "B")))
		r.pay(s, 10)
		r.close()
		oldState, oldRoot := t.TempDir(), filepath.Join(t.TempDir(), "root")
		copyDir(t, r.dir, oldState)
		copyDir(t, r.root, oldRoot)

		r.start()
		r.apply(told(2, create("/a", "X")))
		r.apply(told(3, create("/c", "C")))
		r.pay(homeSite("/a", "X", "/c", "C"), 10)
		r.close()
		if back == "state" {
			copyDir(t, oldState, r.dir)
		} else {
			os.RemoveAll(r.root)
			copyDir(t, oldRoot, r.root)
		}

		r.start()
		if back == "state" { // told again, and a is what it was; c is gone before it is fetched
			r.apply(told(2, create("/a", "X")))
			r.apply(told(4, create("/a", "A")))
		} else { // told on
			r.apply(told(5, create("/a", "A"), remove("/c")))
		}
		r.pay(s, 10)
		if err := r.c.Tidy(); err != nil {
			t.Fatal(err)
		}
		r.wantFiles(map[string]string{"a": "A", "b": "B"})
		if n := r.gets["/b"]; n != 1 {
			t.Errorf("%s: what was right was fetched %d times", back, n)
		}
	}
}

func TestCopyAsksThreeTimesForWhatIsSaid(t *testing.T) {
	r := newCopyRig(t)
	r.apply(told(1, create("/a", "said")))
	served := homeSite("/a", "served")
	for _, wait := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, -1} {
		r.reopen()
		if v := r.pay(served, 1); len(v) != 1 || !v[0].Mismatched || v[0].Matched {
			t.Fatalf("visited %+v", v)
		}
		if got, ok := r.next(); ok != (wait >= 0) || ok && got != wait {
			t.Errorf("asked for again after %v %v, want %v", got, ok, wait)
		}
		r.wait(max(0, wait))
	}
	r.wantFiles(map[string]string{"a": "served"})
	// The same claim again changes nothing, by whichever door; another one does.
	for _, step := range []client.Step{told(2, create("/a", "said")), whole(2, create("/a", "said"))} {
		if a := r.apply(step); a.Owed != 0 {
			t.Errorf("applied %+v", a)
		}
	}
	if a := r.apply(told(3, create("/a", "said anew"))); a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	r.pay(served, 1)
	r.apply(told(4, create("/a", "served"))) // the site names what we hold: no request
	r.wantCounts(1, 1, 0)
	want(t, "requests", r.gets["/a"], 5)
}

func TestSiteWhoseDigestsAreNeverRightIsDemoted(t *testing.T) {
	r := newCopyRig(t)
	var changes []protocol.Change
	served := map[string]string{}
	for i := range 30 {
		p := fmt.Sprintf("/%02d", i)
		changes = append(changes, create(p, "said"+p))
		served[p] = "served" + p
	}
	r.apply(told(30, changes...))
	demoted := 0
	for _, v := range r.pay(served, 100) {
		if v.Demoted {
			demoted++
		}
	}
	c, _ := r.c.Copy()
	if demoted != 1 || !c.Demoted || c.MissRow != 20 {
		t.Errorf("demoted %d times, copy %+v", demoted, c)
	}
	r.wantCounts(30, 30, 19)
	r.wait(2 * time.Second)
	r.reopen()
	r.pay(served, 100)
	r.wantCounts(30, 30, 0)
	if c, _ := r.c.Copy(); c.Mismatched != 49 {
		t.Errorf("copy %+v", c)
	}
	// A digest that is right brings the trust back.
	r.apply(told(32, create("/00", "said anew"), create("/ok", "ok")))
	served["/ok"] = "ok"
	r.pay(served, 100)
	r.wantCounts(31, 31, 0)
	if c, _ := r.c.Copy(); c.Demoted || c.MissRow != 0 {
		t.Errorf("copy %+v", c)
	}
}

// What the site tells while a request is under way counts more than its answer,
// though a clock may not tell the two apart.
func TestCopyToldDuringTheRequest(t *testing.T) {
	for _, c := range []struct {
		name      string
		body      string
		meanwhile protocol.Change
		then      map[string]string // what is asked for after that, and the copy in the end
	}{
		{"gone", "A1", remove("/a"), map[string]string{}},
		{"newer, not served yet", "A1", create("/a", "A2"), homeSite("/a", "A2")},
		{"newer, served already", "A2", create("/a", "A2"), homeSite("/a", "A2")},
		{"moved", "A1", move("/a", "/b", "A1"), homeSite("/b", "A1")},
	} {
		for _, later := range []time.Duration{0, time.Second} {
			r := newCopyRig(t)
			r.apply(told(1, create("/a", "A1")))
			v := r.reply(&r.due()[0], homeSite("/a", c.body))
			r.wait(later)
			r.apply(told(2, c.meanwhile))
			out := r.commit(collection.Turn{Visits: []collection.Visit{v}}).Visited[0]
			if out.Mismatched {
				t.Errorf("%s: %+v", c.name, out)
			}
			r.pay(c.then, 10) // due at once
			r.wantCounts(len(c.then), len(c.then), 0)
			files := map[string]string{}
			for path, body := range c.then {
				files[path[1:]] = body
			}
			r.wantFiles(files)
		}
	}
}

// A page that the site names and does not serve stays what it was, and owed.
func TestAnswersThatBringNothing(t *testing.T) {
	type w = []time.Duration
	for _, c := range []struct {
		name  string
		visit collection.Visit
		waits w
	}{
		{"not found", collection.Visit{Status: 404}, w{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 24 * time.Hour}},
		{"gone", collection.Visit{Status: 410}, w{10 * time.Second, time.Minute}},
		{"refused", collection.Visit{Status: 403}, w{10 * time.Second, time.Minute}},
		{"redirect", collection.Visit{Status: 302, Target: &collection.Find{URL: home + "/b"}}, w{10 * time.Second}},
		{"failed", collection.Visit{Status: 503, Fault: "busy"}, w{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
		{"no answer", collection.Visit{Fault: "nobody there"}, w{time.Second, 2 * time.Second}},
		{"too large", collection.Visit{Status: 200, Cut: true, Fault: "size", Body: []byte("A")}, w{-1}},
		{"busy", collection.Visit{Status: 429, Again: time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC)}, w{5 * time.Minute}},
	} {
		for _, had := range []bool{false, true} {
			r := newCopyRig(t)
			r.o.Again.Failing, r.o.Again.Lost = []time.Duration{time.Second, 2 * time.Second}, 4*time.Second
			r.reopen()
			files := map[string]string{}
			if had {
				r.apply(told(1, create("/a", "A0")))
				r.pay(homeSite("/a", "A0"), 1)
				files["a"] = "A0"
			}
			r.apply(told(2, create("/a", "A1")))
			for _, wait := range c.waits {
				list := r.due()
				if len(list) != 1 {
					t.Fatalf("%s: %d pages are due", c.name, len(list))
				}
				v := c.visit
				v.Page, v.Asked, v.Want = list[0].ID, r.now, list[0].Debt
				v.Claimed, _ = list[0].Claim()
				r.commit(collection.Turn{Visits: []collection.Visit{v}})
				if got, ok := r.next(); ok != (wait >= 0) || ok && got != wait {
					t.Errorf("%s: asked again after %v %v, want %v", c.name, got, ok, wait)
				}
				r.wantFiles(files)
				r.wait(max(0, wait))
			}
			// The site names what we have: nothing is owed, and all is well.
			if had {
				r.apply(told(3, create("/a", "A0")))
				r.wantCounts(1, 1, 0)
				if p := r.page("/a"); p.State != collection.Held || p.Fails != 0 {
					t.Errorf("%s: page %+v", c.name, p)
				}
			}
			// News makes it due at once, whatever was planned.
			r.apply(told(4, create("/a", "A2")))
			r.pay(homeSite("/a", "A2"), 1)
			r.wantFiles(map[string]string{"a": "A2"})
			r.apply(told(5, remove("/a")))
			r.wantFiles(map[string]string{})
		}
	}
}

// What robots.txt forbids is owed again when it is allowed, and goes when the site says so.
func TestForbiddenPages(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "A", "/b", "B", "/c", "C")
	r.apply(whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")))
	r.pay(s, 10)
	r.apply(told(4, create("/a", "A2"), create("/b", "B2"), create("/c", "C2")))
	var turn collection.Turn
	for _, p := range r.due() {
		turn.Visits = append(turn.Visits, collection.Visit{Page: p.ID, Exclude: "robots.txt: Disallow: /"})
	}
	r.commit(turn)
	if _, ok := r.next(); ok {
		t.Error("what is forbidden is due")
	}
	forbid := collection.ApplyOptions{Admit: func(url string) collection.Find { return collection.Find{URL: url, Exclude: "robots.txt"} }}
	for _, step := range []client.Step{told(5, create("/a", "A3"), remove("/b")), whole(6, create("/a", "A3"), create("/new", "N"))} {
		if _, err := r.c.Apply(r.src.ID, step, collection.ByManifest, forbid); err != nil {
			t.Fatal(err)
		}
	}
	r.wantFiles(map[string]string{"a": "A"})
	r.commit(collection.Turn{Finds: []collection.Find{{URL: home + "/a"}, {URL: home + "/new"}}})
	r.pay(homeSite("/a", "A3", "/new", "N"), 10)
	r.wantFiles(map[string]string{"a": "A3", "new": "N"})
	r.wantCounts(2, 2, 0)
	r.apply(whole(7, create("/a", "A3")))
	r.wantFiles(map[string]string{"a": "A3"})
}

func TestNamesThatCannotBeShared(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "file", "/a/b", "below it", "/c/d", "first", "/c", "then the file", "/e/", "home", "/e/index.html", "by its name", "/x//y", "odd")
	for i, p := range []string{"/a", "/a/b", "/c/d", "/c", "/e/", "/e/index.html", "/x//y"} {
		r.apply(told(uint64(i+1), create(p, s[p])))
		r.pay(s, 10)
	}
	other := func(p string) string { return filename.Other(home + p) }
	r.wantFiles(map[string]string{"a": "file", other("/a/b"): "below it", "c/d": "first", other("/c"): "then the file",
		"e/index.html": "home", other("/e/index.html"): "by its name", other("/x//y"): "odd"})
	// A name that comes free goes to whoever waits for it.
	r.apply(told(20, remove("/a"), remove("/c/d"), remove("/e/")))
	r.wantFiles(map[string]string{"a/b": "below it", "c": "then the file", "e/index.html": "by its name", other("/x//y"): "odd"})
	for path, body := range map[string]string{"/a/b": "below it", "/x//y": "odd"} {
		if got := r.content(path); got != body {
			t.Errorf("%s holds %q", path, got)
		}
	}
	r.reopen()
	if a := r.apply(told(24, move("/c", "/a/b", "then the file"), move("/e/index.html", "/e", "by its name"))); a.Moved != 2 || a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a/b": "then the file", "e": "by its name", other("/x//y"): "odd"})
	check(t, r.c)
}

// What stands in the way without a page gives way, or is gone round.
func TestStrangersInTheDirectory(t *testing.T) {
	r := newCopyRig(t)
	outside := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r.write(r.in("file"), "stranger")
	r.write(r.in("dir"), "stranger")
	must(os.MkdirAll(r.in("empty/empty"), 0o755))
	r.write(r.in("full/d/f"), "stranger")
	if runtime.GOOS != "windows" {
		r.write(filepath.Join(outside, "safe"), "safe")
		must(os.Symlink(outside, r.in("out")))
		must(os.Symlink(filepath.Join(outside, "safe"), r.in("link")))
		must(os.Symlink("full", r.in("inside")))
	}
	s := homeSite("/file", "1", "/dir/f", "2", "/empty", "3", "/full", "4", "/out/safe", "5", "/link", "6", "/inside/f", "7")
	var changes []protocol.Change
	for path, body := range s {
		changes = append(changes, create(path, body))
	}
	r.apply(told(uint64(len(changes)), changes...))
	r.pay(s, 10)
	r.wantFiles(map[string]string{"file": "1", "dir/f": "2", "empty": "3", filename.Other(home + "/full"): "4", "full/d/f": "stranger",
		"out/safe": "5", "link": "6", "inside/f": "7"})
	if b, _ := os.ReadFile(filepath.Join(outside, "safe")); runtime.GOOS != "windows" && string(b) != "safe" {
		t.Errorf("a file outside was written: %q", b)
	}
}

// Whatever order things happen in, however often they are told, and wherever
// the process dies, the copy ends equal to the site.
func TestConverges(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { converge(t, seed) })
	}
}

// rivals are paths that fight for names.
var rivals = []string{"", "a", "a/", "a/b", "a/b/", "a/b/c", "A", "A/b", "index.html", "a/index.html", "x?q", "x%3Fq", "x//y", ".hidden",
	"d/e/f/g", "d/e/f", "d/e", "d", "long" + strings.Repeat("g", 300), "%FF", "n1", "n2", "n3", "n4"}

func converge(t *testing.T, seed uint64) {
	r, rnd := newCopyRig(t), rand.New(rand.NewPCG(seed, 7))
	live := map[string]string{} // the site, by path
	var journal []protocol.Change
	crashes := 0

	pick := func() string { return "/" + rivals[rnd.IntN(len(rivals))] }
	edit := func() {
		path := pick()
		old, there := live[path]
		var ch protocol.Change
		switch n := rnd.IntN(10); {
		case n < 2 && there:
			ch = remove(path)
			delete(live, path)
		case n < 5 && there:
			to := pick()
			if to == path {
				return
			}
			ch = move(path, to, old)
			live[to] = old
			delete(live, path)
		default:
			body := fmt.Sprint("content ", rnd.IntN(40)) // so that some come again
			ch = create(path, body)
			ch.Op = protocol.Update
			live[path] = body
		}
		ch.Seq = uint64(len(journal) + 1)
		journal = append(journal, ch)
	}
	// give tells something; a crash in it is survived.
	give := func(s client.Step) {
		if _, err := r.c.Apply(r.src.ID, s, collection.ByStream, collection.ApplyOptions{}); err != nil {
			crashes++
			r.reopen()
		}
	}
	changes := func(from, to int) client.Step {
		return client.Step{Door: client.Changes, Cursor: cursor(uint64(to)), Changes: slices.Clone(journal[from:to])}
	}
	tell := func(most int) {
		from := int(r.cursor().Seq)
		give(changes(from, min(len(journal), from+most)))
	}
	snapshot := func() {
		var paths []string
		for p := range live {
			paths = append(paths, p)
		}
		slices.Sort(paths)
		at := cursor(uint64(len(journal)))
		for i := 0; ; i += 5 {
			s := client.Step{Door: client.Manifest, Reset: i == 0}
			for _, p := range paths[min(i, len(paths)):min(i+5, len(paths))] {
				s.Changes = append(s.Changes, create(p, live[p]))
			}
			if i+5 >= len(paths) {
				s.Whole, s.Cursor = true, at
				give(s)
				return
			}
			give(s)
			if rnd.IntN(4) == 0 {
				return // the connection is cut
			}
		}
	}
	pay := func(most int) {
		if _, err := r.tryPay(live, most); err != nil {
			crashes++
			r.reopen()
		}
	}

	snapshot()
	for range 250 {
		switch n := rnd.IntN(100); {
		case n < 50:
			edit()
		case n < 65:
			tell(1 + rnd.IntN(5))
		case n < 70 && len(journal) > 0: // told again
			from := rnd.IntN(len(journal))
			if to := min(from+1+rnd.IntN(10), int(r.cursor().Seq)); from < to {
				give(changes(from, to))
			}
		case n < 73:
			snapshot()
		case n < 90:
			pay(1 + rnd.IntN(8))
		case n < 93:
			r.reopen()
		case n < 97:
			r.c.CrashAfter(rnd.IntN(4))
		default:
			r.wait(time.Duration(rnd.IntN(90)) * time.Second)
		}
	}
	r.reopen()
	for i := 0; ; i++ {
		tell(1000)
		pay(100)
		if _, _, owed := r.counts(); owed == 0 && int(r.cursor().Seq) == len(journal) {
			break
		}
		if i == 100 {
			t.Fatalf("does not come to rest: at %v of %d", r.cursor(), len(journal))
		}
		r.wait(time.Hour)
	}

	files, names := map[string]string{}, map[string]string{}
	for path, body := range live {
		p := r.page(path)
		name := strings.TrimPrefix(p.Stored.File, "mirror/")
		files[name], names[name] = body, path
	}
	r.wantFiles(files)
	r.wantCounts(len(live), len(live), 0)
	check(t, r.c)
	for name, path := range names {
		natural, ok := filename.Below(home+"/", home+path, "", false)
		if !ok || name == natural {
			continue
		}
		taken := names[natural] != ""
		for other := range names {
			taken = taken || strings.HasPrefix(other, natural+"/") || strings.HasPrefix(natural, other+"/")
		}
		if !taken {
			t.Errorf("%s stands at %s though %s is free", path, name, natural)
		}
	}
	t.Logf("%d changes, %d crashes, %d pages", len(journal), crashes, len(live))
}
