// Package machine gives tests resources that are not in the repository: tools, pages of real sites, recorded
// files. A test is skipped, with the reason, if its machine lacks them.
package machine

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
)

// Lacks skips a test; with PARLEY_REQUIRE=all, which promises that everything is there, the test fails.
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

// Data returns a path below the folder of recorded files that PARLEY_DATA names. Without one the test is
// skipped, whatever PARLEY_REQUIRE says: not everybody may install recordings of others.
func Data(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("PARLEY_DATA")
	if dir == "" {
		t.Skip("PARLEY_DATA is not set: no recorded files")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// Recorded yields the files of a corpus for parsers, such as feeds-gofeed, with their names in it.
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

// Unpacked returns the content of a compressed file.
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
		Lacks(t, "PARLEY_GIT_DOC is not a git-doc directory")
	}
	return dir
}

// Pages yields the pages below a docroot, which may be a symbolic link, with their paths; none for "".
func Pages(t testing.TB, docroot string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if docroot == "" {
			return
		}
		err := filepath.WalkDir(docroot+"/", func(path string, e fs.DirEntry, err error) error {
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

// Nginx runs nginx until the test ends, and returns when it listens, at an address or at a socket whose path
// begins with "/". main is put at the top of its configuration, http into the block of that name. Its files
// go to a temporary folder.
func Nginx(t testing.TB, address, main, http string) {
	t.Helper()
	nginx, dir := Tool(t, "nginx"), t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf("%[2]s\ndaemon off; worker_processes 1; events {}\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nhttp {\naccess_log off;\nclient_body_temp_path %[1]s/b;\n"+
		"proxy_temp_path %[1]s/p;\nfastcgi_temp_path %[1]s/f;\nuwsgi_temp_path %[1]s/u;\nscgi_temp_path %[1]s/s;\n%[3]s\n}\n", dir, main, http)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(nginx, "-q", "-c", conf, "-p", dir)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); <-ended })
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) { // between two attempts
		c, err := net.Dial(network, address)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("nginx has ended: %s\n%s", &said, text)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("nginx does not listen: %v", err)
		}
	}
}
