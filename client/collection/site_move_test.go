package collection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

const nextHome = "https://next.example"

// at returns a page of the site's new address.
func (r *rig) at(path string) (p collection.Page, known bool) {
	r.t.Helper()
	p, known, err := r.c.Page(nextHome + path)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, known
}

// applyNext applies the manifest of the new address, with the same paths as at the home site.
func (r *rig) applyNext(former string, step client.Step) collection.Applied {
	r.t.Helper()
	r.commit(collection.Commit{Sources: []collection.Source{{Kind: collection.ManifestRDF, URL: nextHome + "/robots.rdf"}}})
	site, _ := r.c.Site(nextHome)
	list, err := r.c.Sources(site.ID)
	if err != nil || len(list) != 1 {
		r.t.Fatalf("sources %+v: %v", list, err)
	}
	for i := range step.Changes {
		step.Changes[i].Item.URL = nextHome + strings.TrimPrefix(step.Changes[i].Item.URL, home)
	}
	return must.Get(r.c.Apply(list[0].ID, step, collection.ByManifest, collection.ApplyOptions{Former: former}))
}

// A site has moved to another address. Content with the digest that the new manifest names for the same path moves there, with its
// history and its links; all other pages are fetched, and the old ones stay until a visit shows what has become of them.
func TestPagesMoveWithTheirSite(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	r.apply(m, whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C"), create("/d", "D")), collection.ByManifest)
	r.find("/unlisted")
	for p, body := range map[string]string{"/a": "A", "/b": "B", "/c": "C", "/d": "D"} {
		r.visit(p, 200, body, "/b", "/unlisted")
	}
	r.wait(time.Hour)
	manifest := func() client.Step {
		return whole(1, create("/a", "A"), create("/b", "edited"), create("/c", ""), create("/new", "A"))
	}
	if a := r.applyNext(home+"/", manifest()); a.Moved != 1 || a.Pending != 3 || a.Gone != 0 || len(a.Dropped) != 0 {
		t.Errorf("applied %+v", a)
	}
	old := r.page("/a")
	p, _ := r.at("/a")
	if old.State != collection.Gone || old.Target != p.URL || r.due("/a") != -1 {
		t.Errorf("at the old address: %+v", old)
	}
	if p.State != collection.Held || p.Digest != protocol.Sum([]byte("A")) || p.ETag != "" || p.Visits != 1 || p.Told || !p.Listed || !p.At.Equal(r.now.Add(23*time.Hour)) {
		t.Errorf("at the new address: %+v", p)
	}
	b, _ := r.at("/b")
	unlisted, known := r.at("/unlisted")
	if l, err := r.c.Links(p.ID); err != nil || len(l) != 2 || !known || l[0] != min(b.ID, unlisted.ID) || l[1] != max(b.ID, unlisted.ID) {
		t.Errorf("links %v, want to pages %d and %d: %v", l, b.ID, unlisted.ID, err)
	}
	for _, path := range []string{"/b", "/c", "/d"} {
		want(t, "state of "+path, r.page(path).State, collection.Held)
	}
	if a := r.applyNext(home+"/", manifest()); a.Moved != 0 || a.Pending != 0 || a.Gone != 0 {
		t.Errorf("applied again: %+v", a)
	}
	check(t, r.c)
	r.reopen()
	check(t, r.c)
}

// Nothing moves without a confirmed move, from outside of the site that has moved, or from a site that is withheld.
func TestPagesStayWhereTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		former string
		secret bool
	}{"no move": {}, "the site below another path has moved": {former: home + "/docs/"}, "withheld": {home + "/", true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := r.source(collection.ManifestRDF)
			r.apply(m, whole(1, create("/a", "A")), collection.ByManifest)
			v := r.answer("/a", 200, "A")
			v.Authorized = c.secret
			r.commit(collection.Commit{Visits: []collection.Visit{v}})
			if a := r.applyNext(c.former, whole(1, create("/a", "A"))); a.Moved != 0 || a.Pending != 1 {
				t.Errorf("applied %+v", a)
			}
			want(t, "state", r.page("/a").State, collection.Held)
		})
	}
}
