package atomicfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// A reader during concurrent writes finds one of the texts, whole.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	if err := atomicfile.Write(path, texts[0], 0o644); err != nil {
		t.Fatal(err)
	}
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
	if err := os.MkdirAll(filepath.Join(full, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(full, "x", 0o644); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v: left behind: %v", err, left)
	}
}
