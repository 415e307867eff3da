package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerateAndTake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-make", "-into", dir, "-pages", "3000"}, &out); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-take", "-into", dir}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "3000 URLs; ") || !strings.Contains(out.String(), " linked_sites 20 ") {
		t.Error(out.String())
	}
	if err := run(t.Context(), []string{"-pages", "0"}, &out); err == nil {
		t.Error("no error for -pages 0")
	}
}
