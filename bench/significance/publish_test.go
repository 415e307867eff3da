package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A site is rebuilt: some pages keep their bytes, others have an edit, a new version number or another name;
// some appear, and some vanish.
func TestRebuiltSite(t *testing.T) {
	t.Parallel()
	older, newer := t.TempDir(), t.TempDir()
	page := func(version, body string) string {
		return "<!doctype html><title>t</title><main><p>Version " + version + "<p>" + body + "</main>"
	}
	write(t, older, map[string]string{
		"index.html":               page("1.0", "home"),
		"same.html":                "<p>the same bytes",
		"a/index.html":             page("1.0", "a directory"),
		"a/gone.html":              page("1.0", "what goes"),
		"old/name.html":            "<p>what moves, with all its bytes",
		"twin-1.html":              "<p>two of these go",
		"twin-2.html":              "<p>two of these go",
		"it's 100 % (ä) [b]/x.htm": page("1.0", "what must be escaped"),
		"paper.pdf":                "%PDF-1.0",
		"hidden-later.html":        page("1.0", "public once"),
		"hidden.html":              "<meta name=robots content=noindex><p>never public",
		".git/index.html":          "<p>nobody's business",
		"style.css":                "p {}",
		"large.html":               page("1.0", strings.Repeat("many words ", 200_000)),
	})
	write(t, newer, map[string]string{
		"index.html":               page("1.1", "home"),
		"same.html":                "<p>the same bytes",
		"a/index.html":             page("1.1", "a directory, and what else there is to say of it"),
		"new/name.html":            "<p>what moves, with all its bytes",
		"twin-3.html":              "<p>two of these go",
		"it's 100 % (ä) [b]/x.htm": page("1.1", "what must be escaped"),
		"paper.pdf":                "%PDF-1.1",
		"hidden-later.html":        `<meta content="noindex, nofollow" name="robots">` + page("1.1", "public once"),
		"hidden.html":              "<p>public after all",
		".git/index.html":          "<p>nobody's business, again",
		"style.css":                "p { color: red }",
		"large.html":               page("1.1", strings.Repeat("many words ", 200_000)),
	})
	for i := range 40 {
		write(t, older, map[string]string{fmt.Sprintf("n/%d.html", i): page("1.0", fmt.Sprint("number ", i))})
		write(t, newer, map[string]string{fmt.Sprintf("n/%d.html", i): page("1.1", fmt.Sprint("number ", i))})
	}
	must.OK(t, os.Symlink("a/index.html", filepath.Join(older, "link.html")))
	must.OK(t, os.Symlink("same.html", filepath.Join(newer, "link.html")))
	out := mustRun(t, older, newer)
	wantLines(t, out,
		"a comparison of all files: 2 created, 46 updated, 4 deleted, 1 moved",
		"copied without times, without masks: published 2 created, 46 updated, 4 deleted, 1 moved; 3 runs",
		"copied without times, with masks: published 2 created, 46 updated, 4 deleted, 1 moved; 3 runs",
		"symbolic link swapped, without masks: published 2 created, 46 updated, 4 deleted, 1 moved; 3 runs",
		"symbolic link swapped, with masks: published 2 created, 46 updated, 4 deleted, 1 moved; 3 runs",
		"1 files read again with unchanged bytes, 0 differences",
		"with masks: 2 = 4.35 %, and 2 unknown; target 5 %: MISSED")
}

// Most pages vanish: a person must confirm that this was intended.
func TestMostPagesVanish(t *testing.T) {
	older, newer := t.TempDir(), t.TempDir()
	for i := range 50 {
		write(t, older, map[string]string{fmt.Sprintf("%d.html", i): fmt.Sprint("<p>page ", i)})
	}
	write(t, newer, map[string]string{"1.html": "<p>page 1", "2.html": "<p>another page 2"})
	wantLines(t, mustRun(t, older, newer), "published 0 created, 1 updated, 48 deleted, 0 moved")
}

// The pages of git-doc, built again on another day: most pages have a new date at their end, two are edited,
// one is renamed, one is gone and one is new.
func TestGitDoc(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	gitDoc := machine.GitDoc(t)
	updated := regexp.MustCompile(`Last updated\s+\d+-\d+-\d+ \d+:\d+:\d+`)
	older, newer := t.TempDir(), t.TempDir()
	for _, dir := range []string{older, newer} {
		must.OK(t, copyVersion(dir, gitDoc))
	}
	must.OK(t, filepath.WalkDir(newer, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(name) != ".html" {
			return err
		}
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(name, updated.ReplaceAll(page, []byte("Last updated 2039-04-05 06:07:08")), 0o644)
	}))
	for _, name := range []string{"git-add.html", "git-mv.html"} {
		page := must.Get(os.ReadFile(filepath.Join(newer, name)))
		edited := bytes.Replace(page, []byte("<p>"), []byte("<p>Here somebody has edited this very page. "), 1)
		if bytes.Equal(edited, page) {
			t.Fatalf("%s has no paragraph", name)
		}
		write(t, newer, map[string]string{name: string(edited)})
	}
	same := must.Get(os.ReadFile(filepath.Join(older, "git-rm.html")))
	write(t, newer, map[string]string{"new.html": "<p>a new page", "renamed.html": string(same)})
	for _, name := range []string{"git-rm.html", "git-stash.html"} {
		must.OK(t, os.Remove(filepath.Join(newer, name)))
	}
	out := mustRun(t, older, newer)
	wantLines(t, out, "1 created, ", "1 deleted, 1 moved", "target 5 %: met")
	if !strings.Contains(out, "masks learned from the first two versions: 1\n") {
		t.Errorf("no mask was learned for the build date:\n%s", out)
	}
}

// Every kind of wrong report is found.
func TestDifferences(t *testing.T) {
	a, b := file{protocol.Sum([]byte("a")), 1}, file{protocol.Sum([]byte("b")), 1}
	older := tree{"gone.html": a, "edited.html": a, "same.html": a, "d/index.html": b}
	newer := tree{"new.html": b, "edited.html": b, "same.html": a}
	happened := facts(older, newer)
	item := func(place string, f file) protocol.Item {
		return protocol.Item{URL: base + place, Digest: f.digest, Length: f.size}
	}
	right := []protocol.Change{
		{Op: protocol.Delete, Item: protocol.Item{URL: base + "gone.html", Length: -1}},
		{Op: protocol.Update, Item: item("edited.html", b)},
		{Op: protocol.Move, From: base + "d/", Item: item("new.html", b)},
	}
	check := func(changes ...protocol.Change) []string {
		said, wrong := told(base, changes)
		return append(wrong, differences(happened, said)...)
	}
	if wrong := check(right...); len(wrong) > 0 {
		t.Errorf("correct changes are reported as wrong: %q", wrong)
	}
	for i := range right {
		if len(check(slices.Delete(slices.Clone(right), i, i+1)...)) != 1 {
			t.Errorf("the missing change %v is not found", right[i])
		}
		if len(check(append(slices.Clone(right), right[i])...)) != 1 {
			t.Errorf("the duplicate change %v is not found", right[i])
		}
	}
	for what, changes := range map[string]protocol.Change{
		"an update of what is the same": {Op: protocol.Update, Item: item("same.html", a)},
		"a page of another site":        {Op: protocol.Delete, Item: protocol.Item{URL: "https://example.com/"}},
		"a page that never was":         {Op: protocol.Delete, Item: protocol.Item{URL: base + "never.html"}},
	} {
		if len(check(append(slices.Clone(right), changes)...)) != 1 {
			t.Errorf("not found: %s", what)
		}
	}
	for what, change := range map[string]func(*protocol.Change){
		"another digest":  func(c *protocol.Change) { c.Item.Digest = a.digest },
		"another length":  func(c *protocol.Change) { c.Item.Length++ },
		"another op":      func(c *protocol.Change) { c.Op = protocol.Create },
		"another old URL": func(c *protocol.Change) { c.From = base + "gone.html" },
	} {
		changes := slices.Clone(right)
		change(&changes[2])
		if len(check(changes...)) == 0 {
			t.Errorf("not found: %s", what)
		}
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		must.Write(t, name, content)
	}
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), append([]string{"-cost=false"}, args...), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

func wantLines(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not printed, but\n%s", w, out)
		}
	}
}
