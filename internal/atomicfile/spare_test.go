package atomicfile_test

import (
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/parleyweb/parley/internal/atomicfile"
)

func TestSpare(t *testing.T) {
	dir := t.TempDir()
	all, known := atomicfile.Spare(dir, 1)
	if !known {
		if runtime.GOOS == "linux" {
			t.Fatal("the free space is unknown")
		}
		t.Skip("the free space is unknown on this system")
	}
	if all <= 0 {
		t.Skip("the disk is full")
	}
	if less, ok := atomicfile.Spare(dir, 0); !ok || less >= all {
		t.Errorf("%d with the usual reserve, %d with none", less, all)
	}
	if none, ok := atomicfile.Spare(dir, math.MaxInt64); !ok || none >= 0 {
		t.Errorf("%d, %v", none, ok)
	}
	if _, ok := atomicfile.Spare(filepath.Join(dir, "none"), 0); ok {
		t.Error("free space of a missing directory is known")
	}
}
