package filetree

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// While files are moved, somebody else renames, removes or replaces their directory. All files have their names
// afterwards, and none is outside.
func TestDirectoriesChangeWhileFilesAreMoved(t *testing.T) {
	for name, change := range map[string]func(dir, outside string) error{
		"nothing":       func(string, string) error { return nil },
		"renamed":       func(dir, _ string) error { return os.Rename(dir, dir+"-before") },
		"removed":       func(dir, _ string) error { return os.RemoveAll(dir) },
		"moved outside": func(dir, outside string) error { return os.Rename(dir, filepath.Join(outside, "moved")) },
		"replaced by a file": func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, []byte("stranger"), 0o644))
		},
		"replaced by a link to the outside": func(dir, outside string) error {
			return errors.Join(os.RemoveAll(dir), os.Symlink(outside, dir))
		},
		"replaced by a link to the inside": func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+"-before"), os.Symlink(filepath.Base(dir)+"-before", dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name != "nothing" {
				t.Skip("open directories cannot be renamed, and links need a privilege")
			}
			dir, outside := t.TempDir(), t.TempDir()
			tree := opened(t, dir)
			var ops []Op
			var files []*os.File
			for i := range 12 {
				f, err := tree.Create()
				if err == nil {
					_, err = fmt.Fprint(f, i)
				}
				if err == nil {
					_, err = os.Stat(f.Name()) // by which it can be removed
				}
				if err != nil {
					t.Fatal(err)
				}
				files, ops = append(files, f), append(ops, Op{fmt.Sprintf("d/e/%02d", i), TempDir + "/" + filepath.Base(f.Name())})
			}
			if err := tree.Sync(files); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if err := f.Close(); !errors.Is(err, os.ErrClosed) {
					t.Errorf("%s is open after Sync", f.Name())
				}
			}
			n := 0
			tree.Each = func() error {
				if n++; n == 7 {
					return change(filepath.Join(dir, "d"), outside)
				}
				return nil
			}
			for range 2 { // again, as after a crash
				if err := tree.Do(ops); err != nil {
					t.Fatal(err)
				}
			}
			for i, o := range ops {
				info, err := os.Lstat(filepath.Join(dir, "d"))
				if err != nil || !info.IsDir() {
					t.Fatalf("d is no directory: %v", err)
				}
				b, err := os.ReadFile(filepath.Join(dir, o.Name))
				if i >= 6 && (err != nil || string(b) != fmt.Sprint(i)) {
					t.Errorf("%s: %q, %v", o.Name, b, err)
				}
			}
			if got, _ := os.ReadDir(filepath.Join(dir, TempDir)); len(got) > 0 {
				t.Errorf("%d files were not moved", len(got))
			}
			want := 0
			if name == "moved outside" {
				want = 1
			}
			got, err := os.ReadDir(outside)
			if err != nil || len(got) != want {
				t.Errorf("outside are %v, %v", got, err)
			}
			if want > 0 {
				if got, _ := os.ReadDir(filepath.Join(outside, "moved", "e")); len(got) != 6 {
					t.Errorf("%d files were moved outside with their directory, want the 6 before", len(got))
				}
			}
			if names := slices.Sorted(maps.Keys(tree.touched)); !slices.Contains(names, "d/e") || !slices.Contains(names, ".") {
				t.Errorf("the names in %q are to be synced, not those in the root and in d/e", names)
			}
			if err := tree.Sync(nil); err != nil || len(tree.touched) > 0 {
				t.Errorf("sync: %v; %d directories remain", err, len(tree.touched))
			}
		})
	}
}

// A file that cannot be synced fails, and the directories remain to be synced.
func TestSyncFails(t *testing.T) {
	tree := opened(t, t.TempDir())
	f, err := tree.Create()
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := tree.Sync([]*os.File{f}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file is synced: %v", err)
	}
	if len(tree.touched) == 0 {
		t.Error("the directories that Clean made are taken as durable")
	}
}

// Between a Do and the next Sync somebody may move a directory away and put a link to it in its place: that fails no Sync.
func TestDirectoryIsReplacedBeforeItIsSynced(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	tree := opened(t, dir)
	f, err := tree.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tree.Sync([]*os.File{f}), tree.Do([]Op{{Name: "d/e/page.html", Temp: TempDir + "/" + filepath.Base(f.Name())}})); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(filepath.Join(dir, "d"), filepath.Join(outside, "d")), os.Symlink(filepath.Join(outside, "d"), filepath.Join(dir, "d"))); err != nil {
		t.Fatal(err)
	}
	if err := tree.Sync(nil); err != nil {
		t.Error(err)
	}
}

// A hostile site has a page many directories deep, and removes it. Nothing is left of them, in a time that people wait for: to look at each
// directory from the root on, for each above it, took minutes.
func TestManyDirectoriesAreMadeAndPruned(t *testing.T) {
	tree := opened(t, t.TempDir())
	f, err := tree.Create()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d/", 200) + "page.html"
	if err := errors.Join(tree.Do([]Op{{name, TempDir + "/" + filepath.Base(f.Name())}}), tree.Sync([]*os.File{f})); err != nil {
		t.Fatal(err)
	}
	if info, err := tree.Lstat(name); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
	if err := errors.Join(tree.Do([]Op{{Name: name}}), tree.Sync(nil)); err != nil {
		t.Error(err)
	}
	if tree.Foreign() {
		t.Error("directories are left")
	}
}

// opened returns an open tree.
// A directory that somebody has put in the place of a page, with files in it, makes room for the page, and keeps its files.
func TestDirectoryInThePlaceOfAPage(t *testing.T) {
	dir := t.TempDir()
	tree := opened(t, dir)
	f, err := tree.Create()
	if err == nil {
		_, err = fmt.Fprint(f, "page")
	}
	if err := errors.Join(err, tree.Sync([]*os.File{f}), os.MkdirAll(filepath.Join(dir, "d", "p.html", "empty"), 0o755),
		os.WriteFile(filepath.Join(dir, "d", "p.html", "x"), []byte("a person's"), 0o644)); err != nil {
		t.Fatal(err)
	}
	ops := []Op{{"d/p.html", TempDir + "/" + filepath.Base(f.Name())}}
	for range 2 { // as after a crash
		if err := tree.Do(ops); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "d", "p.html"))
	kept, _ := filepath.Glob(filepath.Join(dir, "d", "p.html~*", "x"))
	if string(b) != "page" || err != nil || len(kept) != 1 {
		t.Errorf("%q, %v; beside it %q", b, err, kept)
	}
}

func opened(t *testing.T, dir string) *Tree {
	t.Helper()
	tree, err := Open(dir)
	if err == nil {
		t.Cleanup(func() { tree.Close() })
		err = tree.Clean()
	}
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
