package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestQuickstart runs the commands of the README, and expects the requests that it claims.
func TestQuickstart(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), "", false, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		`first copy +[\d.]+ m?s +12 `,
		`edit \S+ +[\d.]+ m?s +1 `,
		`rename \S+ +[\d.]+ m?s +0 `,
		`rebuild: every file rewritten +[\d.]+ m?s +0 +0 B `,
		`kill -9, 3 edits meanwhile, restart +[\d.]+ m?s +3 `,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no line like %q in\n%s", want, out.String())
		}
	}
}
