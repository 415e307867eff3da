package holding_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/protocol"
)

const base = "http://site.test/"

// A rig is a holding with a clock of its own.
type rig struct {
	t    testing.TB
	dir  string // holds state and copy
	now  time.Time
	col  *holding.Holding
	gets map[string]int // requests per URL
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir(), now: time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC), gets: map[string]int{}}
	r.open()
	t.Cleanup(func() { r.col.Close() })
	return r
}

func (r *rig) state() string { return filepath.Join(r.dir, "state") }
func (r *rig) copy() string  { return filepath.Join(r.dir, "copy") }

func (r *rig) open() {
	r.t.Helper()
	var err error
	r.col, err = holding.Open(r.state(), r.copy(), base, &holding.Options{Now: func() time.Time { return r.now }})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) reopen() {
	r.t.Helper()
	if err := r.col.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

func (r *rig) apply(s client.Step) holding.Applied {
	r.t.Helper()
	a, err := r.col.Apply(s)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// pay fetches what is due from a site, at most max pages, and returns how
// each stands.
func (r *rig) pay(site map[string]string, max int) []holding.Settled {
	r.t.Helper()
	out, err := r.tryPay(site, max)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) tryPay(site map[string]string, max int) ([]holding.Settled, error) {
	var results []holding.Result
	for len(results) < max {
		d, ok, _, err := r.col.Next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		r.gets[d.URL]++
		res := holding.Result{Debt: d, Status: 404, Answer: holding.Gone}
		if body, ok := site[d.URL]; ok {
			res.Status, res.Answer, res.Body, res.ETag = 200, holding.Fetched, r.body(body), `"e"`
		}
		results = append(results, res)
	}
	return r.col.Settle(results)
}

func (r *rig) body(s string) *holding.Body {
	r.t.Helper()
	b, err := r.col.NewBody()
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := b.Write([]byte(s)); err != nil {
		r.t.Fatal(err)
	}
	return b
}

// files returns what stands in the copy, the holding's own files left out.
func (r *rig) files() map[string]string {
	r.t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(r.copy(), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(r.copy(), p)
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && !strings.HasPrefix(rel, ".parley"):
			if list, err := os.ReadDir(p); err == nil && len(list) == 0 {
				r.t.Errorf("%s is an empty directory", rel)
			}
		case d.IsDir(), rel == ".parley/site", rel == ".parley/lock":
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

func (r *rig) wantFiles(want map[string]string) {
	r.t.Helper()
	got := r.files()
	if g, w := list(got), list(want); g != w {
		r.t.Errorf("files are\n%s\nwant\n%s", g, w)
	}
}

func list(m map[string]string) string {
	var l []string
	for k, v := range m {
		l = append(l, fmt.Sprintf("%q: %q", k, v))
	}
	sort.Strings(l)
	return strings.Join(l, "\n")
}

// item is what a site says of a path with the given content.
func item(path, content string) protocol.Item {
	return protocol.Item{URL: base + path, Length: int64(len(content)), Digest: protocol.Sum([]byte(content)),
		Modified: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func create(path, content string) protocol.Change {
	return protocol.Change{Op: protocol.Create, Item: item(path, content)}
}

func remove(path string) protocol.Change {
	return protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: base + path, Length: -1}}
}

func move(from, to, content string) protocol.Change {
	return protocol.Change{Op: protocol.Move, From: base + from, Item: item(to, content)}
}

func at(seq uint64) protocol.Cursor { return protocol.Cursor{Epoch: "e", Seq: seq} }

// told is a step that came by the stream, numbered up to seq.
func told(seq uint64, changes ...protocol.Change) client.Step {
	for i := range changes {
		changes[i].Seq = seq - uint64(len(changes)-1-i)
	}
	return client.Step{Door: client.Stream, Cursor: at(seq), Changes: changes}
}

func whole(seq uint64, changes ...protocol.Change) client.Step {
	return client.Step{Door: client.Manifest, Reset: true, Whole: true, Cursor: at(seq), Changes: changes}
}

func site(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[base+pairs[i]] = pairs[i+1]
	}
	return m
}

func TestFirstSync(t *testing.T) {
	r := newRig(t)
	a := r.apply(whole(7, create("", "home"), create("a.html", "A"), create("d/b.html", "B")))
	if a.Owed != 3 {
		t.Errorf("owed %d, want 3", a.Owed)
	}
	for _, s := range r.pay(site("", "home", "a.html", "A", "d/b.html", "B"), 10) {
		if !s.Fresh || !s.Stored {
			t.Errorf("%s: %+v", s.Item.URL, s)
		}
	}
	r.wantFiles(map[string]string{"index.html": "home", "a.html": "A", "d/b.html": "B"})
	want := holding.Counts{Pages: 3, Held: 3, Bytes: 6, Matched: 3}
	if got := r.col.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	r.reopen()
	if c, door := r.col.Cursor(); c != at(7) || door != client.Manifest {
		t.Errorf("stands at %v %v", c, door)
	}
	if got := r.col.Counts(); got != want {
		t.Errorf("counts after reopening %+v, want %+v", got, want)
	}
	// The same description again owes nothing.
	if a := r.apply(whole(7, create("", "home"), create("a.html", "A"), create("d/b.html", "B"))); a.Owed != 0 || a.Gone != 0 {
		t.Errorf("told again: %+v", a)
	}
}

func TestDebtsAreOrdered(t *testing.T) {
	r := newRig(t)
	r.apply(told(3, create("d/e/f", "1"), create("z", "2"), create("a/b", "3")))
	r.now = r.now.Add(time.Second)
	r.apply(told(4, create("", "4")))
	var got []string
	for {
		d, ok, _, err := r.col.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got = append(got, strings.TrimPrefix(d.URL, base))
	}
	if s := strings.Join(got, " "); s != "z a/b d/e/f " {
		t.Errorf("order is %q", s)
	}
}

func TestMoveCostsNoRequest(t *testing.T) {
	r := newRig(t)
	s := site("a", "A", "b", "B", "c", "C")
	r.apply(whole(1, create("a", "A"), create("b", "B"), create("c", "C")))
	r.pay(s, 10)
	// In one step: a swap by way of a third name, a move onto a page, a move and a move on.
	a := r.apply(told(6, move("a", "t", "A"), move("b", "a", "B"), move("t", "b", "A"), move("c", "d/c", "C"), move("d/c", "e/c", "C")))
	if a.Moved != 5 || a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "B", "b": "A", "e/c": "C"})
	if a := r.apply(told(7, move("e/c", "a", "C"))); a.Moved != 1 || a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "C", "b": "A"})
	// A move of what is not held, or held in another version, is owed.
	if a := r.apply(told(9, move("b", "f", "newer"), move("x", "y", "Y"))); a.Moved != 0 || a.Owed != 2 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "C"})
	if c := r.col.Counts(); c.Pages != 3 || c.Held != 1 || c.Owed != 2 {
		t.Errorf("counts %+v", c)
	}
	// A file that somebody removed cannot be moved.
	os.Remove(filepath.Join(r.copy(), "a"))
	if a := r.apply(told(10, move("a", "g", "C"))); a.Moved != 0 || a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
}

func TestSnapshotDropsWhatItDoesNotName(t *testing.T) {
	r := newRig(t)
	s := site("a", "A", "b", "B", "c", "C")
	r.apply(whole(5, create("a", "A"), create("b", "B"), create("c", "C")))
	r.pay(s, 10)

	// Not whole: absence says nothing.
	r.apply(client.Step{Door: client.Manifest, Reset: true, Cursor: at(6), Changes: []protocol.Change{create("a", "A")}})
	if n := r.col.Counts().Pages; n != 3 {
		t.Fatalf("%d pages after a partial snapshot", n)
	}
	// Whole, and before the cursor: the site says that it was set back.
	if a := r.apply(whole(4, create("a", "A"), create("b", "B"))); a.Gone != 1 {
		t.Errorf("applied %+v", a)
	}
	if c, _ := r.col.Cursor(); c != at(4) {
		t.Errorf("stands at %v: what comes after the place it was set back to is told again", c)
	}
	if a := r.apply(told(5, create("c", "C"))); a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	r.pay(s, 10)
	// In two steps, one begun before thrown away.
	r.apply(client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{create("b", "B")}})
	r.apply(client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{create("a", "A")}})
	if c, _ := r.col.Cursor(); c != at(5) {
		t.Errorf("stands at %v while a snapshot arrives", c)
	}
	a := r.apply(client.Step{Door: client.Manifest, Whole: true, Cursor: at(9), Changes: []protocol.Change{create("c", "C2")}})
	if a.Gone != 1 || a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a": "A", "c": "C"})
}

func TestManyPagesAreDroppedInParts(t *testing.T) {
	r := newRig(t)
	for i := 0; i < 5; i++ {
		step := client.Step{Door: client.Manifest, Reset: i == 0}
		for j := range 1000 {
			step.Changes = append(step.Changes, create(fmt.Sprintf("%d/%d", i, j), "x"))
		}
		r.apply(step)
	}
	if a := r.apply(whole(2, create("only", "x"))); a.Gone != 5000 || a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	if c := r.col.Counts(); c.Pages != 1 || c.Owed != 1 {
		t.Errorf("counts %+v", c)
	}
}

func TestToldAgainIsPassedOver(t *testing.T) {
	r := newRig(t)
	first := told(3, create("a", "A1"), create("b", "B"), remove("c"))
	r.apply(first)
	r.apply(told(5, create("a", "A2"), remove("b")))
	r.pay(site("a", "A2"), 10)
	a := r.apply(first)
	if a.Known != 3 || a.Owed != 0 || a.Gone != 0 {
		t.Errorf("applied %+v", a)
	}
	if c, _ := r.col.Cursor(); c != at(5) {
		t.Errorf("stands at %v", c)
	}
	r.wantFiles(map[string]string{"a": "A2"})
}

func TestClaimOfWhatIsHeldClearsTheDebt(t *testing.T) {
	r := newRig(t)
	r.apply(told(1, create("a", "A1")))
	r.pay(site("a", "A1"), 1)
	r.apply(told(2, create("a", "A2")))
	if n := r.col.Counts().Owed; n != 1 {
		t.Fatalf("owed %d", n)
	}
	r.apply(told(3, create("a", "A1")))
	if _, ok, next, _ := r.col.Next(); ok || !next.IsZero() {
		t.Error("a page that is held again is owed")
	}
}

// Without digests the date decides, and where that proves nothing, a request.
func TestClaimsWithoutDigest(t *testing.T) {
	day := time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC)
	claim := func(mod time.Time, span time.Duration) client.Step {
		return client.Step{Door: client.Manifest, Reset: true, Changes: []protocol.Change{{Op: protocol.Create,
			Item: protocol.Item{URL: base + "a", Length: -1, Modified: mod, Span: span}}}}
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
		r := newRig(t)
		r.apply(c.first)
		r.pay(site("a", "A"), 1)
		if n := r.col.Counts().Owed; n != 0 {
			t.Errorf("%s: owed %d after it was fetched", c.name, n)
		}
		if a := r.apply(c.second); a.Owed != c.owed {
			t.Errorf("%s: applied %+v, want %d owed", c.name, a, c.owed)
		}
	}
}

func TestForeignAndLongURLsAreRefused(t *testing.T) {
	r := newRig(t)
	var step client.Step
	for _, u := range []string{"http://other.test/a", "https://site.test/a", "http://site.test.evil/a", "http://site.test", "",
		base + strings.Repeat("x", 8<<10)} {
		step.Changes = append(step.Changes, protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: u}})
	}
	if a := r.apply(step); a.Foreign != len(step.Changes) {
		t.Errorf("applied %+v", a)
	}
}

func TestOtherSiteIsRefused(t *testing.T) {
	r := newRig(t)
	r.col.Close()
	if _, err := holding.Open(r.state(), r.copy(), "http://other.test/", nil); !errors.Is(err, holding.ErrOther) {
		t.Errorf("state of another site: %v", err)
	}
	if _, err := holding.Open(r.state()+"2", r.copy(), "http://other.test/", nil); !errors.Is(err, holding.ErrOther) {
		t.Errorf("directory of another site: %v", err)
	}
	strange := t.TempDir()
	os.WriteFile(filepath.Join(strange, "thesis.tex"), nil, 0o644)
	if _, err := holding.Open(filepath.Join(t.TempDir(), "s"), strange, base, nil); err == nil {
		t.Error("a directory with other files was taken")
	}
	r.open()
	if _, err := holding.Open(r.state(), r.copy(), base, nil); !errors.Is(err, holding.ErrHeld) {
		t.Errorf("state that is held: %v", err)
	}
}

// The state may stand in the holding's own directory.
func TestStateInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, ".parley", "state.db")
	r := &rig{t: t, gets: map[string]int{}, dir: dir, now: time.Now()}
	for _, body := range []string{"A", "B"} {
		var err error
		if r.col, err = holding.Open(state, dir, base, nil); err != nil {
			t.Fatal(err)
		}
		r.apply(whole(1, create("a", body)))
		r.pay(site("a", body), 1)
		os.WriteFile(filepath.Join(dir, ".parley/other/stray"), nil, 0o644)
		if err := r.col.Tidy(); err != nil {
			t.Fatal(err)
		}
		if err := r.col.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(b) != body {
			t.Errorf("a holds %q %v", b, err)
		}
		if err := os.Remove(state); err != nil { // the second time it is lost
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".parley/other/stray")); err == nil {
		t.Error("a file of the lost state is still there")
	}
}

// Whichever of state and directory is lost, the copy comes back whole.
func TestLostStateAndLostDirectory(t *testing.T) {
	r := newRig(t)
	step := whole(1, create("a", "A"), create("d/b", "B"))
	s := site("a", "A", "d/b", "B")
	want := map[string]string{"a": "A", "d/b": "B"}
	r.apply(step)
	r.pay(s, 10)
	r.col.Close()
	os.Remove(r.state())
	os.WriteFile(filepath.Join(r.copy(), "stray"), []byte("of the lost state"), 0o644)
	os.MkdirAll(filepath.Join(r.copy(), "e/f"), 0o755)
	os.WriteFile(filepath.Join(r.copy(), "e/f/stray"), nil, 0o644)
	r.open()
	if c, _ := r.col.Cursor(); !c.IsZero() {
		t.Fatal("a new state stands somewhere")
	}
	r.apply(step)
	r.pay(s, 10)
	if err := r.col.Tidy(); err != nil {
		t.Fatal(err)
	}
	r.wantFiles(want)

	r.col.Close()
	os.RemoveAll(r.copy())
	r.open()
	if c := r.col.Counts(); c != (holding.Counts{}) {
		t.Fatalf("counts of an emptied directory: %+v", c)
	}
	r.apply(step)
	r.pay(s, 10)
	r.wantFiles(want)
}
