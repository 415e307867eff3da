package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

func TestGenerateAndTake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	var out bytes.Buffer
	must.OK(t, run(t.Context(), []string{"-make", "-into", dir, "-pages", "3000"}, &out))
	must.OK(t, run(t.Context(), []string{"-take", "-into", dir}, &out))
	if !strings.Contains(out.String(), "3000 URLs; ") || !strings.Contains(out.String(), " linked_sites 20 ") {
		t.Error(out.String())
	}
	if err := run(t.Context(), []string{"-pages", "0"}, &out); err == nil {
		t.Error("no error for -pages 0")
	}
}
