package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// All figures are measured, of small programs; whether they keep the limits depends on the machine.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs")
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-pages", "200", "-rounds", "1", "-for", "300ms", "-updates", "100"}, &out); err != nil && !errors.Is(err, errMissed) {
		t.Fatal(err)
	}
	for _, program := range []string{"crawler", "notifier"} {
		for _, row := range []string{`first byte of the page +\d+\.\d\d ms +100 ms`, `whole page +\d+\.\d\d ms +100 ms`, `processor for 3 viewers, who get \d+ updates, beside \d+\.\d % +-?\d+\.\d\d % +1 %`,
			`growth of the heap in 100 updates of \d+\.\d ms +-?\d+\.\d\d MB +2 MB`, `growth of goroutines +-?\d+\.00 +10 `} {
			if !regexp.MustCompile(`(?m)^` + program + ` +` + row + ` +(ok|MISSED)$`).MatchString(out.String()) {
				t.Errorf("of the %s there is no row %s:\n%s", program, row, out.String())
			}
		}
	}
	if err := run(t.Context(), []string{"-updates", "10"}, &out); err == nil || errors.Is(err, errMissed) {
		t.Errorf("with too few updates: %v", err)
	}
}
