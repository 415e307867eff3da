package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

func TestDeltasOfTwoVersions(t *testing.T) {
	dir := t.TempDir()
	older, newer := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	for v, root := range []string{older, newer} {
		must.OK(t, os.MkdirAll(root, 0o755))
		for n := range 20 {
			page := fmt.Sprintf("<title>%d</title>", n)
			for line := range 200 {
				page += fmt.Sprintf("<p>%d times %d is %d.</p>\n", n, line, n*line*7919)
			}
			if n >= 5 {
				page += fmt.Sprintf("<p>Version %d</p>", v)
			}
			must.Write(t, filepath.Join(root, fmt.Sprint(n, ".html")), page)
		}
	}
	var out strings.Builder
	must.OK(t, run(context.Background(), []string{older, newer}, &out))
	for _, want := range []string{"20 pages", "20 versions", "changed pages: 15; without a useful delta: 0", "correct deltas by Parley's decoder: 15;"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if err := run(context.Background(), []string{older, older}, &out); err == nil {
		t.Error("no error for two equal versions")
	}
	if err := run(context.Background(), []string{older}, &out); err == nil {
		t.Error("no error for one version")
	}
}
