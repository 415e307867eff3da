package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/parleyweb/parley/bench/internal/goal"
)

// The program runs the requested measurements, and reports for each goal whether it is met.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-only", "12"}, &out); err == nil {
		t.Error("no error for -only 12")
	}
	err := run(t.Context(), []string{"-quick", "-only", "1,8,9", "-data", ""}, &out)
	if err != nil && !errors.Is(err, goal.ErrMissed) { // the sample is so small that goals may be missed
		t.Fatal(err)
	}
	for _, want := range []string{"1. known rates\n", "gamma/zipf/0, B=0.5: push", "8. speed and size\n", "per decision"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
