package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
)

func TestBothSitesStayFresh(t *testing.T) {
	machine.Tool(t, "nginx")
	root := t.TempDir()
	for i := range 10 {
		name := fmt.Sprintf("%d.html", i)
		if i == 0 {
			name = "index.html"
		}
		page := fmt.Sprintf("<!DOCTYPE html><title>Page %d</title><body><p>Text of page %d. <a href=%d.html>on</a></body>", i, i, i+1)
		if err := os.WriteFile(filepath.Join(root, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-docroot", root, "-edits", "30", "-over", "2s", "-period", "1s", "-limit", "1m"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"10 pages on each site", "30 edits of each", `with the notifier +\d`, `silent +\d`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("it does not print %q but\n%s", want, out.String())
		}
	}
}
