package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// A finished crawl has copies of all its WARC files, and the commands read from them what is not here any more.
func TestWARCFilesAreCopied(t *testing.T) {
	_, site := crawledByCluster(t)
	dir, copies := t.TempDir(), filepath.Join(t.TempDir(), "copies")
	succeeds(t, "crawl", site.URL+"/", "--into", dir, "--copy-to", copies, "--max-warc", "1kB", "--wait", "0", "--allow-private")
	here := must.Get(filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz")))
	there := must.Get(filepath.Glob(filepath.Join(copies, "*.warc.gz")))
	if len(here) < 2 || len(there) != len(here) {
		t.Fatalf("%d of %d files are copied", len(there), len(here))
	}
	for _, name := range here {
		must.OK(t, os.Remove(name))
	}
	for _, page := range []string{"/a.html", "/b.html"} {
		if code, out, said := program(t.Context(), "get", site.URL+page, "--into", dir); code != 0 || out != page {
			t.Errorf("get %s: exit code %d, %q: %s", page, code, out, said)
		}
	}
	for _, bad := range [][]string{
		{"--copy-to: s3://b?endpoint=ftp://x: the endpoint must be", "--copy-to", "s3://b?endpoint=ftp://x"},
		{"--copy-to copies: it needs --store warc or both", "--copy-to", "copies", "--store", "mirror"},
	} {
		ends(t, 2, bad[0], append([]string{"crawl", site.URL + "/", "--into", t.TempDir(), "--allow-private"}, bad[1:]...)...)
	}
}
