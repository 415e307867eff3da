package collection_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// What a page refers to lives and dies with its links, and its newest content replaces it.
func TestReferences(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	r.find("/a", "/b", "/c", "/old")
	refer := func(want string) {
		t.Helper()
		var got []string
		must.OK(t, r.c.References(func(page frontier.PageID, refs *collection.References, damaged error) bool {
			p, _, err := r.c.PageByID(page)
			if err = errors.Join(err, damaged); err != nil {
				t.Fatal(err)
			}
			for _, list := range [][]collection.Count{refs.Kinds, refs.Hosts} {
				for _, n := range list {
					got = append(got, fmt.Sprint(strings.TrimPrefix(p.URL, home), " ", n.Name, " ", n.N))
				}
			}
			if len(refs.Media) > 2 || !slices.IsSorted(refs.Media) {
				t.Errorf("media %v", refs.Media)
			}
			return true
		}))
		want1 := strings.Split(want, ", ")
		if want == "" {
			want1 = nil
		}
		wantAll(t, "references", got, want1...)
	}
	refer("")
	visit := func(path, body string, urls ...string) {
		t.Helper()
		v := r.answer(path, 200, body)
		v.References = refersTo(urls...)
		r.commit(collection.Commit{Visits: []collection.Visit{v}})
	}
	visit("/a", "a", home+"/x.gif", "https://b.example/y.PNG")
	visit("/b", "b", home+"/x.pdf")
	visit("/c", "c")
	refer("/a gif 1, /a png 1, /a b.example 1, /b pdf 1")
	visit("/c", "B", home+"/x.pdf") // a duplicate of /b
	visit("/a", "aa", home+"/x.gif", home+"/y.gif")
	refer("/a gif 2, /b pdf 1")
	r.visit("/a", 304, "")
	r.visit("/b", 404, "") // once: its content stays
	r.reopen()
	refer("/a gif 2, /b pdf 1")
	r.apply(m, told(1, move("/a", "/moved", "aa"), remove("/b")), collection.ByStream)
	refer("/moved gif 2")
	visit("/old", "old", home+"/x.zip")
	refer("/old zip 1, /moved gif 2")
	v := r.answer("/old", 301, "")
	v.Target = &collection.Find{URL: home + "/moved"}
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	r.visit("/moved", 410, "")
	refer("")

	// More pages than are read at once.
	var paths []string
	for i := range 2500 {
		paths = append(paths, fmt.Sprintf("/many/%d", i))
	}
	r.find(paths...)
	var turn collection.Commit
	for _, p := range paths {
		turn.Visits = append(turn.Visits, r.answer(p, 200, p))
	}
	r.commit(turn)
	if n := len(referred(t, r.c)); n != len(paths) {
		t.Errorf("%d pages refer to something", n)
	}
	n := 0
	err := r.c.References(func(frontier.PageID, *collection.References, error) bool { n++; return n < 1500 })
	if err != nil || n != 1500 {
		t.Errorf("stopped after %d, %v", n, err)
	}
}

// The state of an earlier program has no references. It can be read, gets them with the next visits, and that program can go on with it.
// Damaged references are reported, and block nothing.
func TestReferencesOfOtherStates(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b")
	r.visit("/a", 200, "a")
	must.OK(t, r.c.DropReferences())
	r.c.Close()
	o := r.o
	o.ReadOnly = true
	r.c = open(t, r.dir, &o)
	want(t, "pages with references", len(referred(t, r.c)), 0)
	r.reopen()
	want(t, "pages with references", len(referred(t, r.c)), 0)
	r.visit("/b", 200, "b")
	r.visit("/a", 200, "a")
	want(t, "pages with references", len(referred(t, r.c)), 2)

	a := r.page("/a").ID
	must.OK(t, r.c.SpoilReferences(a))
	damage := map[frontier.PageID]error{}
	err := r.c.References(func(page frontier.PageID, refs *collection.References, damaged error) bool {
		if damage[page] = damaged; (refs == nil) != (damaged != nil) {
			t.Errorf("page %d: %v and %v", page, refs, damaged)
		}
		return true
	})
	if err != nil || len(damage) != 2 || !errors.Is(damage[a], collection.ErrDamaged) || damage[r.page("/b").ID] != nil {
		t.Errorf("damage %v, %v", damage, err)
	}
	m := r.source(collection.ManifestRDF)
	r.apply(m, told(1, move("/a", "/c", "a")), collection.ByStream)
	want(t, "pages with references", len(referred(t, r.c)), 1)

	// With NoLinks there are none.
	r = newRig(t)
	r.o.NoLinks = true
	r.reopen()
	r.find("/a")
	r.visit("/a", 200, "a")
	want(t, "pages with references", len(referred(t, r.c)), 0)
}
