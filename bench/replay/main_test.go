package main

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
)

// A short replay ends well: the copies are what the requests say, and no more is requested than the budget allows.
func TestReplay(t *testing.T) {
	machine.Data(t, "changes")
	var out strings.Builder
	err := run(t.Context(), t, []string{"-traces", "python-peps", "-seeds", "1", "-pages", "40", "-days", "8", "-within", "5", "-spend", "2"}, &out)
	if err != nil || t.Failed() {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, mode := range []string{"push", "manifest", "neither"} {
		if !strings.Contains(out.String(), mode+" python-peps") {
			t.Errorf("no line of %s in\n%s", mode, out.String())
		}
	}
	if !strings.Contains(out.String(), "unknown") {
		t.Errorf("one seed has a limit of error:\n%s", out.String())
	}
}
