package main

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// All pages of small Webs are fetched, once in each pass.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	var out strings.Builder
	must.OK(t, run(t.Context(), []string{"-pages", "1000,2000"}, &out))
	if got := out.String(); strings.Count(got, " first ") != 3 || strings.Count(got, " second ") != 3 || strings.Count(got, " third ") != 3 {
		t.Errorf("output:\n%s", got)
	}
	if err := run(t.Context(), []string{"-pages", "1500"}, &out); err == nil {
		t.Error("no error for 1500 pages")
	}
}
