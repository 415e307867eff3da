package collection_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
)

// filesIn returns the names of the WARC files in a directory.
func filesIn(t testing.TB, dir string) []string {
	list := must.Get(filepath.Glob(filepath.Join(dir, "*.warc*")))
	for i, path := range list {
		list[i] = filepath.Base(path)
	}
	return slices.DeleteFunc(list, func(name string) bool { return strings.Contains(name, ".cdxj") })
}

// A machine fills several WARC files, and is lost but for the state. Another one reads all that was copied, and
// stores again only what was not.
func TestCopiedWARCFiles(t *testing.T) {
	r, to := newKeeper(t, collection.WARC, "gzip"), t.TempDir()
	r.o.CopyTo, r.o.MaxWARC = to, 2000
	r.reopen()
	var paths []string
	for i := range 20 {
		paths = append(paths, fmt.Sprintf("/%d.html", i))
	}
	r.find(paths...)
	body := func(path string) string { return path + strings.Repeat(" body", 20) }
	for _, p := range paths {
		r.visit(p, 200, body(p))
	}
	must.OK(t, collection.CopyWARC(t.Context(), r.c, false))
	here, there := filesIn(t, filepath.Join(r.dir, "warc")), filesIn(t, to)
	if len(here) < 4 || !slices.Equal(there, here[:len(here)-1]) {
		t.Fatalf("here are %q, and copied %q: want all but the open one", here, there)
	}
	for _, name := range there {
		if !slices.Equal(must.Get(os.ReadFile(filepath.Join(to, name))), must.Get(os.ReadFile(filepath.Join(r.dir, "warc", name)))) {
			t.Errorf("the copy of %s differs", name)
		}
		must.Get(os.Stat(filepath.Join(to, name+".cdxj")))
	}

	// Bodies whose files were removed here are read from there.
	for _, name := range there {
		must.OK(t, os.Remove(filepath.Join(r.dir, "warc", name)))
	}
	for _, p := range paths {
		if got := r.content(p); got != body(p) {
			t.Errorf("%s is %q", p, got)
		}
	}

	// The other machine has a snapshot of the state.
	state := must.Get(os.Create(filepath.Join(t.TempDir(), "state.db")))
	must.OK(t, collection.Backup(r.c, state))
	must.OK(t, state.Close())
	must.OK(t, r.c.Close())
	open := filepath.Base(here[len(here)-1])
	r.dir = t.TempDir()
	r.wait(time.Minute)
	must.OK(t, os.Rename(state.Name(), filepath.Join(r.dir, "state.db")))
	r.reopen()
	lost := 0
	for _, p := range paths {
		page := r.page(p)
		stands, copied := r.c.Contents().Stands(page.Stored), !strings.HasSuffix(page.Stored.File, open)
		if stands != copied {
			t.Errorf("%s in %s: it stands: %v", p, page.Stored.File, stands)
		}
		if stands && r.content(p) != body(p) {
			t.Errorf("%s is %q", p, r.content(p))
		}
		r.visit(p, 200, body(p))
		if !stands {
			lost++
		}
	}
	stored := 0
	for _, records := range captures(t, r.dir) {
		for _, body := range records {
			if body != "=" {
				stored++
			}
		}
	}
	if lost == 0 || stored != lost {
		t.Errorf("%d bodies were lost, and %d stored again", lost, stored)
	}
	must.OK(t, collection.CopyWARC(t.Context(), r.c, true))
	if got, want := len(filesIn(t, to)), len(there)+len(filesIn(t, filepath.Join(r.dir, "warc"))); got != want {
		t.Errorf("%d files are copied in the end, want %d", got, want)
	}
	for _, p := range paths {
		if got := r.content(p); got != body(p) {
			t.Errorf("in the end, %s is %q", p, got)
		}
	}
}

// A directory that cannot be written to delays copies, and nothing else.
func TestCopiesWait(t *testing.T) {
	r, to := newKeeper(t, collection.WARC, "gzip"), filepath.Join(t.TempDir(), "to")
	must.OK(t, os.WriteFile(to, nil, 0o644)) // no directory
	r.o.CopyTo, r.o.MaxWARC = to, 1
	r.reopen()
	r.find("/a", "/b", "/c")
	for _, p := range []string{"/a", "/b", "/c"} {
		r.visit(p, 200, p)
	}
	if err := collection.CopyWARC(t.Context(), r.c, false); err == nil {
		t.Error("copied into a file")
	}
	must.OK(t, os.Remove(to))
	must.OK(t, collection.CopyWARC(t.Context(), r.c, false))
	if got := filesIn(t, to); len(got) != 2 {
		t.Errorf("copied %q, want two", got)
	}
}

// A state that is older than a closed file cuts it back: the file is not continued, since its copy has other records there.
func TestClosedFilesAreNotContinued(t *testing.T) {
	r, to := newKeeper(t, collection.WARC, "gzip"), t.TempDir()
	r.o.CopyTo = to
	r.reopen()
	r.find("/a", "/b", "/c")
	r.visit("/a", 200, "a")
	state := must.Get(os.Create(filepath.Join(t.TempDir(), "state.db")))
	must.OK(t, collection.Backup(r.c, state))
	must.OK(t, state.Close())
	r.visit("/b", 200, "b")
	must.OK(t, collection.CopyWARC(t.Context(), r.c, true))
	must.OK(t, r.c.Close())

	must.OK(t, os.Rename(state.Name(), filepath.Join(r.dir, "state.db")))
	must.OK(t, os.Remove(filepath.Join(r.dir, "journal.db"))) // as a cluster does that puts a snapshot in place
	r.reopen()
	r.visit("/c", 200, "c, and more than b")
	must.OK(t, collection.CopyWARC(t.Context(), r.c, true))
	if got := filesIn(t, to); len(got) != 2 {
		t.Errorf("copied are %q, want the first file and the new one", got)
	}
	for _, name := range filesIn(t, filepath.Join(r.dir, "warc")) {
		must.OK(t, os.Remove(filepath.Join(r.dir, "warc", name)))
	}
	for path, want := range map[string]string{"/a": "a", "/c": "c, and more than b"} {
		if got := r.content(path); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
}
