package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/bench/internal/goal"
)

// The program works, on a small site, and keeps its tree for the next run.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	dir := filepath.Join(t.TempDir(), "docroot")
	for range 2 {
		var out strings.Builder
		if err := run(t.Context(), []string{"--files", "120", "--rounds", "2", "--sitemap", "--npm", "none", "--dir", dir}, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
			t.Fatal(err)
		}
		if got := out.String(); strings.Count(got, "\nunchanged ") != 2 || strings.Count(got, "\none edit ") != 2 || !strings.HasPrefix(got, "120 files, ") {
			t.Errorf("output:\n%s", got)
		}
	}
}

// An edit in a large directory causes a scan of one page, which finds it.
func TestEdits(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--files", "300", "--edits", "3"}, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "mean of 3\n") {
		t.Errorf("output:\n%s", out.String())
	}
}
