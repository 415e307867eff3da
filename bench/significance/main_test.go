package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

func TestThreeVersions(t *testing.T) {
	dir := t.TempDir()
	var versions []string
	for v := range 3 {
		root := filepath.Join(dir, fmt.Sprint(v))
		versions = append(versions, root)
		must.OK(t, os.MkdirAll(root, 0o755))
		for n := range 30 {
			page := fmt.Sprintf("<title>%d</title><nav>Version 1.%d</nav><main><p>Version 1.%d<p>some words of page %d", n, v, v, n)
			if n == 3*v {
				page += " and of an edit"
			}
			must.Write(t, filepath.Join(root, fmt.Sprint(n, ".html")), page)
		}
	}
	must.OK(t, os.Remove(filepath.Join(versions[2], "17.html")))
	for _, flags := range [][]string{nil, {"-whole"}} {
		var out strings.Builder
		must.OK(t, run(t.Context(), append(flags, versions...), &out))
		for _, want := range []string{
			"learned from the first two versions: 1\n  on 30 of 30 changed pages: ^Version",
			"pages: 0 unchanged, 30 changed and 0 too large for a significance, 0 created, 0 deleted",
			"pages: 0 unchanged, 29 changed and 0 too large for a significance, 0 created, 1 deleted",
			"30 = 100.00 %       30 = 100.00 %",
			"2 =   6.67 %        2 =   6.67 %",
			"0 created, 30 updated, 0 deleted, 0 moved; 2 runs",
			"0 created, 29 updated, 1 deleted, 0 moved; 3 runs",
			"error relative to the share: 0.0 %",
			"us a page",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q does not print %q but\n%s", flags, want, out.String())
			}
		}
	}
	if err := run(t.Context(), versions[:1], new(strings.Builder)); err == nil {
		t.Error("no error for one version")
	}
	if err := run(t.Context(), []string{versions[0], t.TempDir()}, new(strings.Builder)); err == nil {
		t.Error("no error for a directory without pages")
	}
}
