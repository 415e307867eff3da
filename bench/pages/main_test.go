package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyweb/parley/bench/internal/goal"
)

// All figures are measured, of small programs; whether they keep the limits depends on the machine.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs")
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-pages", "200", "-rounds", "1", "-for", "300ms", "-updates", "100"}, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
		t.Fatal(err)
	}
	for _, program := range []string{"crawler", "notifier"} {
		for _, row := range []string{`100 +PROGRAM: ms until the first byte of the page`, `100 +PROGRAM: ms until the page is complete`, `1 +PROGRAM: % of a processor for 3 viewers, who get \d+ updates, beside \d+\.\d %`,
			`2 +PROGRAM: MB of growth of the heap in 100 updates of \d+\.\d ms`, `10 +PROGRAM: goroutines more than before`} {
			if !regexp.MustCompile(`(?m)^goal (ok|MISSED) +-?\d+\.\d{4}  <= ` + strings.ReplaceAll(row, "PROGRAM", program) + `$`).MatchString(out.String()) {
				t.Errorf("of the %s there is no row %s:\n%s", program, row, out.String())
			}
		}
	}
	if err := run(t.Context(), []string{"-updates", "10"}, &out); err == nil || errors.Is(err, goal.ErrMissed) {
		t.Errorf("with too few updates: %v", err)
	}
}
