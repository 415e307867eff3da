package atomicfile_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/must"
)

// A reader during concurrent writes finds one of the texts, whole.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	must.OK(t, atomicfile.Write(path, texts[0], 0o644))
	var writers sync.WaitGroup
	for _, text := range texts {
		writers.Go(func() {
			for range 20 {
				if err := atomicfile.Write(path, text, 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != texts[0] && string(b) != texts[1] {
			t.Fatalf("%v, %d bytes", err, len(b))
		}
	}
	if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode() != 0o644 {
		t.Errorf("%v, %v", st, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v: left behind: %v", err, left)
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	if err := atomicfile.Write(filepath.Join(dir, "none", "file"), "x", 0o644); err == nil {
		t.Error("written into a directory that is not there")
	}
	full := filepath.Join(dir, "dir")
	must.OK(t, os.MkdirAll(filepath.Join(full, "in"), 0o755))
	if err := atomicfile.Write(full, "x", 0o644); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v: left behind: %v", err, left)
	}
}

// A file that is rewritten through a symbolic link stays where it is, with its mode and its owner.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must.OK(t, os.WriteFile(path, []byte("a"), 0o640))
	if err := os.Symlink("file", link); err != nil {
		t.Skip(err)
	}
	if os.Geteuid() == 0 {
		must.OK(t, os.Chown(path, 1, 2))
	}
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	must.OK(t, atomicfile.Rewrite(link, "b"))
	b, err := os.ReadFile(path)
	st, err2 := os.Lstat(path)
	if err != nil || err2 != nil || string(b) != "b" || st.Mode() != was.Mode() || owner(st) != owner(was) {
		t.Errorf("%q, %v, %v, %v; was %v", b, err, err2, st, was)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link names %q, %v", to, err)
	}
	if err := atomicfile.Rewrite(filepath.Join(dir, "none"), "b"); err == nil {
		t.Error("a file was created")
	}
}

// owner returns user and group of a file as the system describes them.
func owner(st os.FileInfo) string {
	sys := reflect.Indirect(reflect.ValueOf(st.Sys()))
	if sys.Kind() != reflect.Struct || !sys.FieldByName("Uid").IsValid() {
		return ""
	}
	return fmt.Sprint(sys.FieldByName("Uid"), sys.FieldByName("Gid"))
}

// A device, a pipe or a socket is not replaced by a file.
func TestSpecialFileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("no Unix sockets here:", err)
	}
	defer l.Close()
	if err := atomicfile.Write(path, "x", 0o644); err == nil || !strings.Contains(err.Error(), "name a file") {
		t.Errorf("written over a socket: %v", err)
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&fs.ModeSocket == 0 {
		t.Errorf("%v, %v", st, err)
	}
}
