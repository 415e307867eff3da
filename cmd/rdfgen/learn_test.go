package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/must"
)

// twoBuilds writes two builds of a site of 40 pages. All have a version, in the
// main text or not, and a build stamp; two have a new sentence.
func twoBuilds(t *testing.T) (monday, tuesday string) {
	dir := t.TempDir()
	for i, build := range []struct{ name, version, stamp, more string }{
		{"monday", "6.1.187-1", "2025-03-03 09:10 UTC", ""},
		{"tuesday", "6.1.190-1", "2025-03-04 10:11 UTC", "<p>A new sentence."},
	} {
		for n := range 40 {
			page := fmt.Sprintf("<!DOCTYPE html><title>Page %d</title><nav>Version %s</nav><main><h1>Page %d of %s</h1>"+
				"<p>Some words on page %d, the same since 2.4.1.%s</main><footer>Not the main text: %s</footer>",
				n, build.version, n, build.version, n, map[bool]string{true: build.more}[n%20 == 3], build.stamp)
			if n%2 == 1 {
				page = strings.NewReplacer("<main>", "<div>", "</main>", "</div>", "<footer>", "<p>", "</footer>", "</p>", "Not the main text:", "Last updated").Replace(page)
			}
			name := filepath.Join(dir, build.name, fmt.Sprint("d", n%3), fmt.Sprintf("p%d.html", n))
			if n%5 == 0 {
				name = strings.TrimSuffix(name, "l")
			}
			must.Write(t, name, page)
		}
		must.Write(t, filepath.Join(dir, build.name, "same.html"), "<p>Nothing changes here.")
		must.Write(t, filepath.Join(dir, build.name, "script.js"), "var version = '"+build.version+"'")
		must.Write(t, filepath.Join(dir, build.name, fmt.Sprintf("only-%d.html", i)), build.version)
	}
	return filepath.Join(dir, "monday"), filepath.Join(dir, "tuesday")
}

func TestLearnProposesMasks(t *testing.T) {
	monday, tuesday := twoBuilds(t)
	out, said := ran(t, learnCommand, 0, monday, tuesday)
	const want = `# on 40 of 40 changed pages, "Page 0 of 6.1.187-1" -> "Page 0 of 6.1.190-1"
mask ^Page \d+ of \d+(\.\d+)*([-+~_.]?[a-z]{0,8}\d+)*$
# on 20 of 40 changed pages, "Last updated 2025-03-03 09:10 UTC" -> "Last updated 2025-03-04 10:11 UTC"
mask ^Last updated \d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z|UTC|GMT|[-+]\d\d:?\d\d))?$
`
	if out != want {
		t.Errorf("stdout\n%s\nwant\n%s", out, want)
	}
	if want := "41 pages are in both builds. 40 differ in bytes, and 40 in main text; with the 2 proposed masks, 2.\n"; !strings.HasPrefix(said, want) {
		t.Errorf("stderr\n%s", said)
	}

	// The output is a configuration file: with it, only the edits remain.
	conf := filepath.Join(t.TempDir(), "parley.conf")
	must.Write(t, conf, "docroot /srv/www\n"+out)
	out, said = ran(t, learnCommand, 0, monday, tuesday, "--config", conf)
	if out != "" || !strings.Contains(said, "and 2 in main text.") || !strings.Contains(said, "No mask is proposed") {
		t.Errorf("with the masks: output\n%s%s", out, said)
	}
}

func TestLearnJSON(t *testing.T) {
	monday, tuesday := twoBuilds(t)
	out, said := ran(t, learnCommand, 0, tuesday, monday, "--json", "--min-share", "0.6", "--mask", `^Last updated .*`)
	var found learned
	if err := json.Unmarshal([]byte(out), &found); err != nil || said != "" {
		t.Fatalf("%v\n%s%s", err, out, said)
	}
	if found.Pages != 41 || found.Changed != 40 || found.ChangedText != 40 || found.Left != 2 || len(found.Masks) != 1 ||
		found.Masks[0].Pages != 40 || found.Masks[0].Explained != 38 || found.Masks[0].Before != "Page 0 of 6.1.190-1" {
		t.Errorf("%+v", found)
	}
	if _, err := maintext.ParseMasks([]string{found.Masks[0].Pattern}); err != nil {
		t.Error(err)
	}
	out, _ = ran(t, learnCommand, 0, monday, monday, "--json")
	if err := json.Unmarshal([]byte(out), &found); err != nil || found.Changed != 0 || found.Masks == nil || len(found.Masks) != 0 {
		t.Errorf("of one build twice: %v\n%s", err, out)
	}
}

func TestLearnMisuse(t *testing.T) {
	monday, tuesday := twoBuilds(t)
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{monday}, "BUILD2 is required"},
		{2, []string{monday, tuesday, "--mask", "("}, `mask "("`},
		{2, []string{monday, tuesday, "--min-share", "2"}, "--min-share 2: want a share above 0, up to 1"},
		{1, []string{monday, filepath.Join(tuesday, "missing")}, "missing"},
		{1, []string{filepath.Join(monday, "missing"), tuesday}, "missing"},
		{1, []string{t.TempDir(), tuesday}, "two builds of one site"},
	} {
		if _, said := ran(t, learnCommand, c.code, c.args...); !strings.Contains(said, c.want) {
			t.Errorf("learn %q said %q, not %q", c.args, said, c.want)
		}
	}
	if out, _ := ran(t, learnCommand, 0, "-h"); !strings.Contains(out, ">> parley.conf") || !strings.Contains(out, "--min-share SHARE") {
		t.Errorf("help:\n%s", out)
	}
}

// Pages whose names are not UTF-8 are read, too.
func TestLearnReadsEveryName(t *testing.T) {
	dir := t.TempDir()
	for i, build := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, build), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, build, "lat\xe9.html"), []byte(fmt.Sprint("<p>Build ", i)), 0o644); err != nil {
			t.Skip("the system takes no such name: ", err)
		}
	}
	if _, said := ran(t, learnCommand, 0, filepath.Join(dir, "one"), filepath.Join(dir, "two")); !strings.HasPrefix(said, "1 pages are in both builds. 1 differ in bytes") {
		t.Errorf("stderr\n%s", said)
	}
}
