package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSpeed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.html": "<a href=b.html>b</a> <a href=c.html?x&amp;y>c</a>", "b/c.html": "<p>nothing", "d.txt": "<a href=no>"})
	out := printed(t, "-rounds", "3", dir)
	if !strings.Contains(out, ": 2 pages") {
		t.Error(out)
	}
	for _, c := range contenders() {
		i := strings.Index(out, "\n"+c.name+" ")
		if i < 0 {
			t.Fatalf("nothing of %q in\n%s", c.name, out)
		}
		line, _, _ := strings.Cut(out[i+1:], "\n")
		if !strings.HasSuffix(line, " 1.0") && !strings.HasPrefix(c.name, "sha") {
			t.Errorf("not one reference a page: %s", line)
		}
	}
	if err := run(t.Context(), []string{t.TempDir()}, &strings.Builder{}); err == nil {
		t.Error("a directory without pages is no error")
	}
}

func TestReach(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"index.html":  "<a href=a/x.html>a <a href=b/x.html>b <a href=style.css> <a href=gone.html> <a href=http://other.example/>",
		"a/x.html":    "<p>one <a href=y.html>",
		"b/x.html":    "<div>one <a href=y.html>", // the same content, in other bytes
		"a/y.html":    "a",
		"b/y.html":    "b", // lost
		"orphan.html": "nobody leads here",
	})
	out := printed(t, "-reach", filepath.Join(dir, "index.html"))
	for _, want := range []string{"index.html: 5 pages reached", "0 duplicates and 0 pages lost, if the links of pages are ignored that have the same bytes",
		"1 duplicates and 1 pages lost, if the links of pages are ignored that have the same content after parsing",
		"0 duplicates and 0 pages lost, if the links of pages are ignored that have the same content, leading"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
