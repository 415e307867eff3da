package docroot_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, name)
		must.Write(t, name, content)
	}
}

func TestCopySurveyAndEdit(t *testing.T) {
	from := t.TempDir()
	write(t, from, map[string]string{
		"home.html":        `<a href="a%20b/">1</a> <a href="none.html">broken</a> <a href="x.html?y">2</a> <a href="a.css">3</a>`,
		"a b/index.html":   `<body><a href="../x.html#z">4</a> <a href="http://elsewhere.test/x.html">5</a></body>`,
		"x.html":           `<a href="/">home</a> <a href="a b/../x.html">me</a>`,
		"lost.html":        `<a href="/">home</a>`,
		"a.css":            "",
		"directory.html/x": "",
	})
	if err := os.Symlink("home.html", filepath.Join(from, "index.html")); err != nil {
		t.Skip(err)
	}
	d := must.Get(docroot.Copy(from, filepath.Join(t.TempDir(), "copy")))
	if want := []string{"/", "/a%20b/", "/home.html", "/lost.html", "/x.html"}; !slices.Equal(d.Pages, want) {
		t.Errorf("pages are %q, want %q", d.Pages, want)
	}
	s := d.Survey()
	if want := []string{"/", "/a%20b/", "/x.html"}; !slices.Equal(s.Pages, want) || s.Depth != 2 {
		t.Errorf("links lead to %q in %d steps, want %q", s.Pages, s.Depth, want)
	}
	before := must.Get(os.Stat(d.File("/a%20b/")))
	b := must.Get(d.Edit("/a%20b/", "More."))
	after := must.Get(os.Stat(d.File("/a%20b/")))
	if got, err := os.ReadFile(d.File("/a%20b/")); err != nil || !bytes.Equal(got, b) || !bytes.HasSuffix(b, []byte("<p>More.</p>\n</body>")) || !after.ModTime().After(before.ModTime()) {
		t.Errorf("after the edit: %q, %v, of %v", got, err, after.ModTime())
	}
	if original, err := os.ReadFile(filepath.Join(from, "a b/index.html")); err != nil || bytes.Contains(original, []byte("More")) {
		t.Errorf("the edit changed the original: %q, %v", original, err)
	}
	if _, err := docroot.Copy(t.TempDir(), t.TempDir()); err == nil {
		t.Error("no error for a directory without pages")
	}
}

// The survey agrees with an independent count.
func TestSurveyAgreesWithIndependentCount(t *testing.T) {
	b := must.Get(os.ReadFile(machine.Data(t, "docroots.jsonl")))
	counted := 0
	for line := range bytes.Lines(b) {
		var c struct {
			Pkg, Docroot       string
			HTML, Reach, Depth int
		}
		must.OK(t, json.Unmarshal(line, &c))
		if _, err := os.Stat(c.Docroot); err != nil || c.Pkg != "cppreference-doc-en-html" {
			continue
		}
		counted++
		d := must.Get(docroot.Copy(c.Docroot, filepath.Join(t.TempDir(), "copy")))
		if s := d.Survey(); len(d.Pages) != c.HTML || len(s.Pages) != c.Reach || s.Depth != c.Depth {
			t.Errorf("%s: %d pages, %d reachable in %d steps; the other count: %d, %d, %d", c.Pkg, len(d.Pages), len(s.Pages), s.Depth, c.HTML, c.Reach, c.Depth)
		}
	}
	if counted == 0 {
		t.Skip("the counted docroot is not on this machine")
	}
}
