package collection_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/parleyweb/parley/internal/filename"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func (r *copyRig) write(name, content string) {
	r.t.Helper()
	must.Write(r.t, name, content)
}

// If either the state or the directory is lost, the copy is restored in full.
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
		t.Fatal("a new state has a cursor")
	}
	must.OK(t, r.c.Tidy())
	if r.apply(step); r.files()["stray"] == "" {
		t.Error("a stray file was removed before a snapshot was complete")
	}
	r.pay(s, 10)
	must.OK(t, r.c.Tidy())
	r.wantFiles(files)

	r.close()
	os.RemoveAll(r.root)
	r.start()
	r.wantCounts(2, 0, 2)
	r.pay(s, 10)
	r.wantFiles(files)
	check(t, r.c)
}

// A file that was removed or cut short is fetched again after the next
// start, and no other file is. Followers get no event: the site has not changed.
func TestDamagedFilesAreFetchedAgain(t *testing.T) {
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
	if a := r.apply(step); a.Known != 4 { // a claim of the site does not make the file whole
		t.Errorf("applied %+v", a)
	}
	r.wantCounts(4, 1, 3)
	r.pay(s, 10)
	r.wantFiles(map[string]string{"a": "A", "b": "B", "d/c": "C", "d/e": "E"})
	if r.gets["/b"] != 1 {
		t.Error("an intact file was fetched again")
	}
	if n := len(r.events(protocol.Cursor{})); n != told {
		t.Errorf("%d events, want %d", n, told)
	}
	r.reopen()
	r.wantCounts(4, 4, 0)
	check(t, r.c)
}

// A state restored from before the last run does not know what that run did to the
// files. A page that has the same content again as it had then would stay wrong for ever.
func TestStateRestoredFromBackup(t *testing.T) {
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
		} else { // the stream continues
			r.apply(told(5, create("/a", "A"), remove("/c")))
		}
		r.pay(s, 10)
		must.OK(t, r.c.Tidy())
		r.wantFiles(map[string]string{"a": "A", "b": "B"})
		if n := r.gets["/b"]; n != 1 {
			t.Errorf("%s: correct pages were fetched %d times", back, n)
		}
	}
}

func TestConflictingFileNames(t *testing.T) {
	r := newCopyRig(t)
	s := homeSite("/a", "file", "/a/b", "below it", "/c/d", "first", "/c", "then the file", "/e/", "home", "/e/index.html", "by its name", "/x//y", "odd")
	for i, p := range []string{"/a", "/a/b", "/c/d", "/c", "/e/", "/e/index.html", "/x//y"} {
		r.apply(told(uint64(i+1), create(p, s[p])))
		r.pay(s, 10)
	}
	other := func(p string) string { return filename.Other(home + p) }
	r.wantFiles(map[string]string{"a": "file", other("/a/b"): "below it", "c/d": "first", other("/c"): "then the file",
		"e/index.html": "home", other("/e/index.html"): "by its name", other("/x//y"): "odd"})
	// A name that comes free goes to a page that waits for it.
	r.apply(told(20, remove("/a"), remove("/c/d"), remove("/e/")))
	r.wantFiles(map[string]string{"a/b": "below it", "c": "then the file", "e/index.html": "by its name", other("/x//y"): "odd"})
	for path, body := range map[string]string{"/a/b": "below it", "/x//y": "odd"} {
		if got := r.content(path); got != body {
			t.Errorf("%s holds %q", path, got)
		}
	}
	r.reopen()
	if a := r.apply(told(24, move("/c", "/a/b", "then the file"), move("/e/index.html", "/e", "by its name"))); a.Moved != 2 || a.Pending != 0 {
		t.Errorf("applied %+v", a)
	}
	r.wantFiles(map[string]string{"a/b": "then the file", "e": "by its name", other("/x//y"): "odd"})
	check(t, r.c)
}

// A file in the way that belongs to no page is moved aside, or the page gets another name.
func TestForeignFilesInMirror(t *testing.T) {
	r := newCopyRig(t)
	outside := t.TempDir()
	r.write(r.in("file"), "stranger")
	r.write(r.in("dir"), "stranger")
	must.OK(t, os.MkdirAll(r.in("empty/empty"), 0o755))
	r.write(r.in("full/d/f"), "stranger")
	if runtime.GOOS != "windows" {
		r.write(filepath.Join(outside, "safe"), "safe")
		must.OK(t, os.Symlink(outside, r.in("out")))
		must.OK(t, os.Symlink(filepath.Join(outside, "safe"), r.in("link")))
		must.OK(t, os.Symlink("full", r.in("inside")))
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
