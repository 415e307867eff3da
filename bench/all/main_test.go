package main

import (
	"os"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// Each measurement is a program beside this one.
func TestList(t *testing.T) {
	var out strings.Builder
	must.OK(t, run(t.Context(), []string{"-list"}, &out))
	for _, m := range measurements {
		name, _, _ := strings.Cut(m, " ")
		if _, err := os.Stat("../" + name); err != nil || !strings.Contains(out.String(), "go run ./bench/"+m+"\n") {
			t.Errorf("%s: %v; listed are\n%s", m, err, out.String())
		}
	}
	if err := run(t.Context(), []string{"-only", "none such"}, &out); err == nil {
		t.Error("a word that no command contains is accepted")
	}
}
