package collection_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// elsewhere is where the home site moves to.
const elsewhere = "http://127.0.0.2:8080"

// at returns changes at another address.
func at(origin string, changes ...protocol.Change) []protocol.Change {
	for i := range changes {
		changes[i].Item.URL = origin + strings.TrimPrefix(changes[i].Item.URL, home)
	}
	return changes
}

// allAt expects all pages, events and sources at an address.
func (r *copyRig) allAt(origin string) {
	r.t.Helper()
	check(r.t, r.c)
	for p, err := range r.c.Pages(r.t.Context()) {
		if err != nil || !strings.HasPrefix(p.URL, origin+"/") {
			r.t.Errorf("page %s, %v", p.URL, err)
		}
	}
	n := 0
	for e, err := range r.c.Events(r.t.Context(), protocol.Cursor{}, false) {
		if n++; err != nil || !strings.HasPrefix(e.URL, origin+"/") {
			r.t.Errorf("event of %s, %v", e.URL, err)
		}
	}
	if n == 0 {
		r.t.Error("there are no events")
	}
	if c, ok := r.c.Copy(); !ok || c.Base != origin+"/" {
		r.t.Errorf("the copy is of %s", c.Base)
	}
	if s := r.manifest(); !strings.HasPrefix(s.URL, origin+"/") {
		r.t.Errorf("the manifest is %s", s.URL)
	}
}

// The site of a copy moves to another address: the pages get other URLs, and nothing else changes until its manifest is read there.
func TestCopyMoves(t *testing.T) {
	for _, killed := range []bool{false, true} {
		r := newCopyRig(t)
		site := homeSite("/", "home", "/a.html", "A", "/d/b.html", "B", "/gone.html", "G")
		r.apply(whole(7, create("/", "home"), create("/a.html", "A"), create("/d/b.html", "B"), create("/gone.html", "G")))
		r.pay(site, 10)
		r.apply(told(8, create("/a.html", "A2"))) // and it is not fetched yet
		was, files, epoch := r.manifest(), r.files(), r.c.Log().Head().Epoch
		for _, wrong := range []string{home + "/", elsewhere + "/docs/", elsewhere, "ftp://127.0.0.2/", ""} {
			if err := r.c.Move(wrong); err == nil {
				t.Errorf("the copy moves to %q", wrong)
			}
		}
		must.OK(t, r.c.Move(elsewhere+"/"))
		r.allAt(home) // until it is opened again
		r.close()
		if killed { // while it is renamed
			db, err := boltfile.Open(filepath.Join(r.dir, "state.db"), boltfile.Options{})
			if err == nil {
				err = errors.Join(journal.Copy(db, nil), db.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.start() // by the former address
		r.allAt(elsewhere)
		r.wantFiles(files)
		r.wantCounts(4, 4, 1)
		if s := r.manifest(); s.ID != was.ID || !s.Cursor.IsZero() || !s.Polled.IsZero() || s.ETag != "" {
			t.Errorf("the manifest was %+v, and is %+v", was, s)
		}
		if now := r.c.Log().Head().Epoch; now == epoch {
			t.Error("events go on in the old epoch")
		}

		// Its manifest confirms what is stored, and drops what it does not name.
		step := whole(3, at(elsewhere, create("/", "home"), create("/a.html", "A2"), create("/d/b.html", "B"), create("/new.html", "N"))...)
		if a := r.apply(step); a.Pending != 1 || a.Gone != 1 || a.Known != 3 {
			t.Errorf("applied %+v", a)
		}
		now := maps.Clone(site)
		delete(now, "/gone.html")
		now["/a.html"], now["/new.html"] = "A2", "N"
		clear(r.gets)
		for _, p := range r.due() {
			if !strings.HasPrefix(p.URL, elsewhere+"/") {
				t.Errorf("%s is due", p.URL)
			}
			r.gets[strings.TrimPrefix(p.URL, elsewhere)]++
			v := collection.Visit{Page: p.ID, Asked: r.now, Status: 200, Want: p.Debt, Body: []byte(now[strings.TrimPrefix(p.URL, elsewhere)])}
			v.Claimed, _ = p.Claim()
			v.Digest = protocol.Sum(v.Body)
			r.commit(collection.Commit{Visits: []collection.Visit{v}})
		}
		if len(r.gets) != 2 || r.gets["/a.html"] != 1 || r.gets["/new.html"] != 1 {
			t.Errorf("fetched %v", r.gets)
		}
		files = map[string]string{"index.html": "home", "a.html": "A2", "d/b.html": "B", "new.html": "N"}
		r.wantFiles(files)
		r.wantCounts(4, 4, 0)

		for _, base := range []string{elsewhere + "/", home + "/"} { // both are known
			r.o.Site = base
			r.reopen()
			r.allAt(elsewhere)
		}
		r.close()
		other := r.o
		other.Site = "http://127.0.0.3:8080/"
		if c, err := collection.Open(r.dir, &other); !errors.Is(err, collection.ErrOther) {
			t.Errorf("opened for another site: %v, %v", c, err)
		}
		r.start()
		if err := r.c.Move(home + "/"); err != nil { // and back
			t.Fatal(err)
		}
		r.reopen()
		r.allAt(home)
		r.wantFiles(files)
		r.close()
	}
}

// A copy whose site has moved, in a state of another version of the program, is not called damaged, and is left as it is.
func TestMovedCopyOfAnotherVersion(t *testing.T) {
	r := newCopyRig(t)
	r.apply(whole(7, create("/", "home")))
	must.OK(t, errors.Join(r.c.Move(elsewhere+"/"), r.c.SetVersion(1<<40)))
	r.close()
	state := filepath.Join(r.dir, "state.db")
	before := must.Get(os.ReadFile(state))
	if _, err := collection.Open(r.dir, &r.o); !errors.Is(err, collection.ErrVersion) || errors.Is(err, collection.ErrDamaged) {
		t.Errorf("opened: %v", err)
	}
	if after, err := os.ReadFile(state); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the state was changed, %v", err)
	}
}
