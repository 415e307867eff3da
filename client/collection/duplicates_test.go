package collection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func TestLinksOfADuplicateAreIgnored(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	r.visit("/a", 200, "Same", "/x", "/a", "/x")
	out := r.visit("/b", 200, "SAME", "/trap") // the same except for formatting
	if !out.Duplicate || out.Page.Original != r.page("/a").ID {
		t.Errorf("visited %+v", out)
	}
	if _, ok := r.c.Known(home + "/trap"); ok {
		t.Error("the link of a duplicate was followed")
	}
	links := func(path string) []frontier.PageID {
		return must.Get(r.c.Links(r.page(path).ID))
	}
	if l := links("/a"); len(l) != 2 || l[0] != r.page("/a").ID || l[1] != r.page("/x").ID {
		t.Errorf("links %v", l)
	}
	want(t, "links of the duplicate", len(links("/b")), 0)
	site, _ := r.c.Site(home)
	want(t, "duplicates", site.Duplicates, 1)
	// The original changes; the duplicate is no longer one, and the next one becomes a duplicate of it.
	r.visit("/a", 200, "Other")
	want(t, "duplicate of a deleted page", r.visit("/b", 200, "SAME", "/free").Duplicate, false)
	r.page("/free")
	want(t, "duplicate of the new original", r.visit("/c", 200, "same").Page.Original, r.page("/b").ID)
	check(t, r.c)
	r.reopen()
	check(t, r.c)
	want(t, "duplicate after a restart", r.visit("/x", 200, "sAME").Page.Original, r.page("/b").ID)
}

// When its original goes, a page is no longer a duplicate: its links are read
// with the next body.
func TestDuplicateWhoseOriginalGoes(t *testing.T) {
	goes := map[string]func(r *rig){
		"gone":  func(r *rig) { r.visit("/a", 410, "") },
		"other": func(r *rig) { r.visit("/a", 200, "Other") },
		"moved": func(r *rig) {
			v := r.answer("/a", 301, "")
			v.Target = &collection.Find{URL: home + "/b", Depth: 1}
			r.commit(collection.Commit{Visits: []collection.Visit{v}})
		},
		"announced as deleted": func(r *rig) {
			s := r.source(collection.ManifestRDF)
			r.apply(s, whole(1, create("/a", "Same"), create("/b", "Same")), collection.ByManifest)
			r.apply(s, told(2, remove("/a")), collection.ByStream)
		},
		"announced as moved": func(r *rig) {
			s := r.source(collection.ManifestRDF)
			r.apply(s, whole(1, create("/a", "Same"), create("/b", "Same")), collection.ByManifest)
			r.apply(s, told(2, move("/a", "/b", "Same")), collection.ByStream)
		},
	}
	for name, gone := range goes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.find("/a", "/b")
			r.visit("/a", 200, "Same", "/x")
			r.visit("/b", 200, "Same", "/x", "/y")
			original := func() string {
				p := r.page("/b")
				o, ok, err := r.c.Original(&p)
				if err != nil || ok != (o.ID != 0) {
					t.Errorf("original %+v, %v, %v", o, ok, err)
				}
				return strings.TrimPrefix(o.URL, home)
			}
			want(t, "original", original(), "/a")
			gone(r)
			want(t, "original after its deletion", original(), "")
			if out := r.visit("/b", 200, "Same", "/x", "/y"); out.Duplicate || out.Page.Original != 0 || out.Changed {
				t.Errorf("visited %+v", out)
			}
			if l, err := r.c.Links(r.page("/b").ID); err != nil || len(l) != 2 {
				t.Errorf("links %v, %v", l, err)
			}
			check(t, r.c)
		})
	}
}

// Similar pages on two sites lead to separate pages on each.
func TestEqualPagesOnTwoSitesAreNoDuplicates(t *testing.T) {
	r := newRig(t)
	const other = "http://other.test/"
	r.find("/")
	r.visit("/", 200, "Welcome", "/a")
	p := r.commit(collection.Commit{Finds: []collection.Find{{URL: other}}}).New[0]
	v := r.answer("/", 200, "Welcome")
	v.Page, v.Links = p.ID, []collection.Find{{URL: other + "a", Depth: 1}}
	out := r.commit(collection.Commit{Visits: []collection.Visit{v}})
	if d := out.Visited[0]; d.Duplicate || d.Page.Original != r.page("/").ID {
		t.Errorf("visited %+v", d)
	}
	if _, ok := r.c.Known(other + "a"); !ok {
		t.Error("the link on the other site was not followed")
	}
	check(t, r.c)
}

// A change of less than a hundredth of the main text causes an event, and does not count when visits are planned. Where
// the main text is not known, every change counts.
func TestTriflingChangesDoNotCount(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	words := func(from int) (text []byte) {
		for i := range 500 {
			text = fmt.Appendf(text, "word%d ", from+i)
		}
		return text
	}
	body := func(from int, known bool, changed, differs, trifling bool) {
		t.Helper()
		text := words(from)
		v := r.answer("/a", 200, string(text))
		v.Parsed = protocol.Sum(text)
		if known {
			_, sketch := maintext.Masks(nil).Read(text)
			v.Sketch = string(sketch)
		}
		out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]
		if out.Changed != changed || out.Differs != differs || out.Trifling != trifling {
			t.Errorf("text from word %d: changed %v, differs %v, trifling %v", from, out.Changed, out.Differs, out.Trifling)
		}
		r.wait(24 * time.Hour)
	}
	body(0, true, true, false, false)
	body(1, true, true, false, true)
	r.reopen()
	body(2, true, true, false, true)
	body(52, true, true, true, false)
	body(53, false, true, true, false)
	body(54, true, true, true, false)
	body(54, true, false, false, false)
	if p := r.page("/a"); p.Changes != 3 || p.Digest != protocol.Sum(words(54)) {
		t.Errorf("%d changes, want 3; holds %v", p.Changes, p.Digest)
	}
	check(t, r.c)
}
