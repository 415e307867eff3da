// Package machine gives tests what is not in the repository: tools, pages of real sites, recorded
// files. A test is skipped where its machine lacks what it needs, and says what that is.
package machine

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
)

// Lacks skips a test; where PARLEY_REQUIRE=all promises that everything is there, it fails.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("PARLEY_REQUIRE") == "all" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Tool returns the path of a program.
func Tool(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	Lacks(t, "no "+name+" on this machine")
	return ""
}

// Data returns a path below the folder of recorded files that PARLEY_DATA names. Without one the
// test is skipped, whatever PARLEY_REQUIRE says: what others recorded is not everybody's to install.
func Data(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("PARLEY_DATA")
	if dir == "" {
		t.Skip("PARLEY_DATA names no folder of recorded files")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// Recorded yields the files of a corpus for parsers, such as feeds-gofeed, by their names in it.
func Recorded(t testing.TB, corpus string) iter.Seq2[string, []byte] {
	t.Helper()
	path := Data(t, "parsers", corpus+".tar.zst")
	return func(yield func(string, []byte) bool) {
		z := open(t, path)
		defer z.Close()
		for files := tar.NewReader(z); ; {
			h, err := files.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag != tar.TypeReg {
				continue
			}
			b, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(h.Name, b) {
				return
			}
		}
	}
}

// Unpacked is what a compressed file holds.
func Unpacked(t testing.TB, path string) []byte {
	t.Helper()
	z := open(t, path)
	defer z.Close()
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type unpacked struct {
	io.ReadCloser
	file *os.File
}

func (u *unpacked) Close() error { return errors.Join(u.ReadCloser.Close(), u.file.Close()) }

func open(t testing.TB, path string) io.ReadCloser {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := coding.NewReader(f)
	if err != nil {
		f.Close()
		t.Fatal(err)
	}
	return &unpacked{z, f}
}

// GitDoc returns the docroot that PARLEY_GIT_DOC names: Debian's git-doc.
func GitDoc(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PARLEY_GIT_DOC")
	if _, err := os.Stat(filepath.Join(dir, "git.html")); dir == "" || err != nil {
		Lacks(t, "PARLEY_GIT_DOC names no git-doc")
	}
	return dir
}

// Pages yields the pages below a docroot by their paths; "" has none.
func Pages(t testing.TB, docroot string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if docroot == "" {
			return
		}
		err := filepath.WalkDir(docroot, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".html" {
				return err
			}
			page, err := os.ReadFile(path)
			if err == nil && !yield(path, page) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
