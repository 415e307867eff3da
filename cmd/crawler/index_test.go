package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

func TestIndexBuildMergeSearch(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	var indexes []string
	for name, files := range map[string]map[string]string{
		"one": {"index.html": `<title>Home</title><main>fresh apples <a href=a.html>a</a></main>`, "a.html": "<main>apples and apples, and pears</main>"},
		"two": {"index.html": `<main>pears, not plums</main>`},
	} {
		site := sitetest.NewSite(t, files)
		succeeds(t, append([]string{"crawl", site.Base}, own(in(name))...)...)
		out := in(name + ".index")
		succeeds(t, "index", "build", out, "--into", in(name))
		indexes = append(indexes, out)
	}
	all := in("all.index")
	succeeds(t, append([]string{"index", "merge", all}, indexes...)...)
	succeeds(t, "index", "merge", all, all, indexes[0])
	for question, want := range map[string][]string{
		"apples": {"/a.html", "/"}, "Pears": {"/", "/a.html"}, "apples pears": {"/a.html"}, "plums": {"/"}, "cherries": nil, "": nil,
	} {
		code, out, said := program(t.Context(), "index", "search", all, question, "--json")
		var f found
		if err := json.Unmarshal([]byte(out), &f); err != nil || f.Found != len(want) || len(f.Hits) != len(want) || (code == 3) != (len(want) == 0) {
			t.Errorf("search %q: exit code %d: %s%s", question, code, out, said)
			continue
		}
		for i, h := range f.Hits {
			if !strings.HasSuffix(h.URL, want[i]) {
				t.Errorf("search %q: %v, want %v", question, f.Hits, want)
			}
		}
	}
	code, out, said := program(t.Context(), "index", "search", all, "apples", "--limit", "1")
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "/a.html") || !strings.Contains(said, "1 of 2 pages") {
		t.Errorf("search: exit code %d: %s%s", code, out, said)
	}
	before := must.Get(os.ReadFile(all))
	must.OK(t, os.WriteFile(in("bad.index"), before[:len(before)/2], 0o600))
	other := bytes.Replace(before, []byte("pples"), []byte("pplez"), 1)
	if err := os.WriteFile(in("other.index"), other, 0o600); err != nil || bytes.Equal(other, before) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "damaged", []string{"merge", all, indexes[0], in("bad.index")}},
		{1, "damaged", []string{"search", in("bad.index"), "apples"}},
		{1, "wrong checksum", []string{"search", in("other.index"), "plums"}},
		{1, "no such file", []string{"merge", all, in("none")}},
		{1, "no collection", []string{"build", all, "--into", in("none")}},
		{2, "either --into or --from", []string{"build", all}},
		{2, "--from needs --program", []string{"build", all, "--from", "https://www.example.org/"}},
		{2, "need --from", []string{"build", all, "--into", in("one"), "--program", "x.wasm"}},
		{2, "--program", []string{"build", all, "--from", "https://www.example.org/", "--contact", "me@example.net", "--program", in("none.wasm")}},
		{2, "IN is required", []string{"merge", all}},
		{2, "0 or more", []string{"search", all, "x", "--limit", "-1"}},
	} {
		if code, _, said := program(t.Context(), append([]string{"index"}, c.args...)...); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("index %q: exit code %d: %s; want %d and %q", c.args, code, said, c.code, c.says)
		}
	}
	if after, err := os.ReadFile(all); err != nil || string(after) != string(before) {
		t.Error("a failed command changed the index")
	}
	if left, _ := filepath.Glob(in(".parley-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	for _, part := range []string{"build", "merge", "search"} {
		ends(t, 0, "crawler index "+part, "index", part, "-h")
	}
}
