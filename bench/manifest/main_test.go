package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/internal/must"
)

// Both sides do the same work; otherwise their ratio would be meaningless.
func TestSidesAgree(t *testing.T) {
	const n = 300
	var ours, theirs bytes.Buffer
	must.OK(t, writeOurs(&ours, n))
	must.OK(t, writeTheirs(&theirs, n))
	if a, b := ours.Len(), theirs.Len(); a < b*9/10 || b < a*9/10 {
		t.Errorf("%d and %d bytes", a, b)
	}
	if got, err := readOurs(bytes.NewReader(ours.Bytes())); got != n || err != nil {
		t.Errorf("ours: %d items, %v", got, err)
	}
	if got, err := readTheirs(&ours); got != n || err != nil {
		t.Errorf("theirs: %d items, %v", got, err)
	}
}

// One compressed list costs a small part of a request for each page.
func TestHeads(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, heads(t.Context(), 50, &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 8 || !strings.HasSuffix(lines[7], " 43.5 %") {
		t.Errorf("%d lines:\n%s", len(lines), &out)
	}
}

// The bench of edits runs to its end.
func TestEdits(t *testing.T) {
	var out bytes.Buffer
	if err := edit(t.Context(), 300, 3, 3*time.Millisecond, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 13 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
}
