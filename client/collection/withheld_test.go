package collection_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// authorized commits an answer to a request with cookies.
func (r *rig) authorized(path, body string) {
	r.t.Helper()
	v := r.answer(path, 200, body)
	v.Authorized = true
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
}

// exported returns the bytes of an export, and how many records it has.
func (r *rig) exported(s collection.Selection) (all string, n int) {
	r.t.Helper()
	dir := r.t.TempDir()
	n = must.Get(r.c.ExportWARC(r.t.Context(), dir, "", s))
	files, _ := filepath.Glob(filepath.Join(dir, "*.warc"))
	for _, f := range files {
		b := must.Get(os.ReadFile(f))
		all += string(b)
	}
	return all, n
}

// From the first page that was fetched with cookies on, a site is withheld: subscribers learn no more than that pages are gone, also
// when the events are lost and begin anew. Pages of other sites with the same body have one of their own.
func TestWithheldSite(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.find("/public", "/inside", "/moved")
	r.visit("/public", 200, "old words")
	if got := r.events(protocol.Cursor{}); len(got) != 1 {
		t.Fatalf("events %s", lines(got))
	}
	r.authorized("/inside", "secret words")
	r.visit("/public", 200, "new words")
	r.apply(r.source(collection.ManifestRDF), told(1, move("/inside", "/moved", "secret words")), collection.ByStream)
	got := r.events(protocol.Cursor{})
	if len(got) != 2 || got[1].Op != protocol.Delete || got[1].URL != home+"/public" {
		t.Errorf("events %s", lines(got))
	}
	const other = "https://b.example"
	r.commit(collection.Commit{Finds: []collection.Find{{URL: other + "/copy"}}})
	copied, _, err := r.c.Page(other + "/copy")
	if err != nil {
		t.Fatal(err)
	}
	v := r.answer("/public", 200, "secret words")
	v.Page = copied.ID
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	for _, s := range []collection.Selection{{Newest: true}, {}} {
		if all, n := r.exported(s); n != 1 || strings.Contains(all, home) || !strings.Contains(all, other+"/copy") || strings.Count(all, "secret words") != 1 {
			t.Errorf("%+v: %d records exported: %s", s, n, all)
		}
	}

	// The journal is lost.
	epoch := r.c.Log().Head().Epoch
	must.OK(t, r.c.Close())
	must.OK(t, os.Remove(filepath.Join(r.dir, "journal.db")))
	r.c = open(t, r.dir, &r.o)
	if s, _ := r.c.Site(home); !s.Withheld || r.c.Log().Head().Epoch == epoch {
		t.Errorf("the site is %+v", s)
	}
	if got := r.events(protocol.Cursor{}); len(got) != 1 || got[0].URL != other+"/copy" {
		t.Errorf("events of the new epoch: %s", lines(got))
	}
	check(t, r.c)
}

// If the state is restored from a backup without the mark, the records in the archive still have theirs.
func TestWithheldRecords(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.find("/a", "/b")
	r.visit("/b", 200, "for all")
	must.OK(t, r.c.Close())
	backup := must.Get(os.ReadFile(filepath.Join(r.dir, "state.db")))
	r.c = open(t, r.dir, &r.o)
	r.authorized("/a", "secret words")
	must.OK(t, r.c.Close())
	must.OK(t, os.WriteFile(filepath.Join(r.dir, "state.db"), backup, 0o600))
	r.c = open(t, r.dir, &r.o)
	if s, _ := r.c.Site(home); s.Withheld {
		t.Fatal("the restored state has the mark")
	}
	if all, n := r.exported(collection.Selection{}); n != 1 || strings.Contains(all, "secret") {
		t.Errorf("%d records exported: %s", n, all)
	}
	content := must.Get(r.c.Contents().At(home+"/a", r.now))
	defer content.Close()
	want(t, "authorized", content.Authorized, true)
}
