package static_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/internal/site/static"
)

const robotsBase = "https://www.example.org/"

func ourRobots(path string) *static.Robots {
	return &static.Robots{Path: path, Base: robotsBase, Sitemaps: []string{robotsBase + "sitemap.xml"}, Manifest: robotsBase + "robots.rdf"}
}

func TestRobotsMerge(t *testing.T) {
	block := "# Parley: begin\nSitemap: https://www.example.org/sitemap.xml\nManifest: https://www.example.org/robots.rdf\n# Parley: end\n"
	crlf := strings.ReplaceAll(block, "\n", "\r\n")
	cr := strings.ReplaceAll(block, "\n", "\r")
	r := ourRobots("")
	for _, c := range []struct{ before, after string }{
		{"", block},
		{"User-agent: *\nDisallow: /x\n", "User-agent: *\nDisallow: /x\n\n" + block},
		{"User-agent: *\nDisallow: /x", "User-agent: *\nDisallow: /x\n" + block},
		{"User-agent: *\r\nDisallow: /x\r\n", "User-agent: *\r\nDisallow: /x\r\n\r\n" + crlf},
		{"User-agent: *\rDisallow: /x", "User-agent: *\rDisallow: /x\r" + cr},
		{"User-agent: *\nDisallow: /x\r", "User-agent: *\nDisallow: /x\r\n" + block},
		{"User-agent: *\rDisallow: /x\r\n", "User-agent: *\rDisallow: /x\r\n\n" + block},
		{"\uFEFF", "\uFEFF\n" + block},
		{"\uFEFF# comment", "\uFEFF# comment\n" + block},
		{"\n\n\n", "\n\n\n\n" + block},
		{"caf\xe9: in Latin-1\n", "caf\xe9: in Latin-1\n\n" + block},
		{"sitemap:https://www.example.org/sitemap.xml # ours\n",
			"sitemap:https://www.example.org/sitemap.xml # ours\n\n# Parley: begin\nManifest: https://www.example.org/robots.rdf\n# Parley: end\n"},
		{"Sitemap: https://www.example.org/sitemap.xml\nManifest: https://www.example.org/robots.rdf\n",
			"Sitemap: https://www.example.org/sitemap.xml\nManifest: https://www.example.org/robots.rdf\n"},
	} {
		got, err := r.Merge([]byte(c.before))
		if err != nil || string(got) != c.after {
			t.Errorf("merge into %q:\n%q, %v, want\n%q", c.before, got, err, c.after)
		}
		if again, err := r.Merge(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("merge into %q is not idempotent: %q, %v", c.before, again, err)
		}
		if out, err := new(static.Robots).Merge(got); err != nil || string(out) != c.before {
			t.Errorf("removed from %q: %q, %v", got, out, err)
		}
	}

	// A person's lines after the block stay after it.
	mine := "User-agent: a\nDisallow: /\n\n" + block + "\nUser-agent: b\nDisallow: /b\n"
	other := &static.Robots{Sitemaps: []string{robotsBase + "new.xml"}}
	want := "User-agent: a\nDisallow: /\n\n# Parley: begin\nSitemap: https://www.example.org/new.xml\n# Parley: end\n\nUser-agent: b\nDisallow: /b\n"
	if got, err := other.Merge([]byte(mine)); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}

	// These contain no person's rule, and lines that the block separates stay separate.
	with := func(more string) string { return strings.Replace(block, "# Parley: end", more+"# Parley: end", 1) }
	for text, want := range map[string]string{
		with("# mine\n\n  \nsitemap : https://www.example.org/old.xml # old\n"): "",
		"User-agent: *\n" + block + "Disallow: /x\n":                            "User-agent: *\nDisallow: /x\n",
		"User-agent: *\r\n\r\n" + crlf + "Disallow: /x\r\n":                     "User-agent: *\r\nDisallow: /x\r\n",
		block + "User-agent: *\n":                                               "User-agent: *\n",
	} {
		if got, err := new(static.Robots).Merge([]byte(text)); err != nil || string(got) != want {
			t.Errorf("removed from %q: %q, %v, want %q", text, got, err, want)
		}
	}

	for text, says := range map[string]string{
		"<!DOCTYPE html><title>Not found</title>":      "HTML",
		"\uFEFF \n<html>":                              "HTML",
		"User-agent: *\x00":                            "not plain text",
		"\xff\xfeU\x00s\x00":                           "not plain text",
		"\x1f\x8b\x08\x00":                             "not plain text",
		strings.Repeat("# long\n", 80_000):             "longer than 500 KiB",
		strings.Repeat("#", robots.MaxBytes-10) + "\n": "longer than 500 KiB",
		"# Parley: begin\nSitemap: x\n":                `no "# Parley: end"`,
		block + block:                                  "line 5",
		"# Parley: end\n" + block:                      "line 1",
		// A person's lines inside the block would be lost, and their pages published.
		with("User-agent: *\nDisallow: /private/\n"): "line 4 is \"User-agent: *\"",
		with("# mine\n\nDisallow: /private/\n"):      "line 6 is \"Disallow: /private/\"",
		with("Disalow /private/\n"):                  "line 4",
		with("Sitemap Disallow: /\n"):                "line 4",
		with(": /private/\n"):                        "line 4",
		with("Disallow: /x # Sitemap: x\r"):          "line 4",
	} {
		if got, err := r.Merge([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("merge into %.60q: %.60q, %v, want an error with %q", text, got, err, says)
		}
	}
	if _, err := (&static.Robots{Manifest: "/robots.rdf"}).Merge(nil); err == nil {
		t.Error("a relative URL is written")
	}
}

func TestRobotsWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "robots.txt")
	r := ourRobots(path)
	write := func(want bool) {
		t.Helper()
		if wrote, err := r.Write(t.Context(), nil); err != nil || wrote != want {
			t.Errorf("wrote %v, %v, want %v", wrote, err, want)
		}
	}
	read := func() string {
		t.Helper()
		return string(must.Get(os.ReadFile(path)))
	}
	write(true)
	write(false)
	if f := robots.Parse([]byte(read())); !f.Allowed("*", "/x") || !slices.Equal(f.Lines("sitemap"), r.Sitemaps) || !slices.Equal(f.Lines("manifest"), []string{r.Manifest}) {
		t.Errorf("a new file: %q", read())
	}
	must.Write(t, path, "User-agent: *\nDisallow: /x\n")
	must.OK(t, os.Chmod(path, 0o600))
	write(true)
	write(false)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	was := read()
	mine := strings.Replace(was, "# Parley: end", "User-agent: bad\nDisallow: /\n# Parley: end", 1)
	must.Write(t, path, mine)
	if wrote, err := r.Write(t.Context(), nil); err == nil || wrote || read() != mine {
		t.Errorf("rules within the block: wrote %v, %v, %q", wrote, err, read())
	}
	must.Write(t, path, was)
	none := &static.Robots{Path: path}
	if wrote, err := none.Write(t.Context(), nil); err != nil || !wrote || read() != "User-agent: *\nDisallow: /x\n" {
		t.Errorf("removed: %v, %v, %q", wrote, err, read())
	}
	if wrote, err := (&static.Robots{Path: filepath.Join(dir, "nothing.txt")}).Write(t.Context(), nil); err != nil || wrote {
		t.Errorf("no lines and no file: %v, %v", wrote, err)
	}

	// A link within the docroot is followed and stays a link; a link out of it is rejected.
	sub := filepath.Join(dir, "common", "robots.txt")
	outside := filepath.Join(t.TempDir(), "robots.txt")
	for _, err := range []error{os.Mkdir(filepath.Dir(sub), 0o755), os.Rename(path, sub), os.Symlink("common/robots.txt", path), os.WriteFile(outside, nil, 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(true)
	write(false)
	if to, err := os.Readlink(path); err != nil || to != "common/robots.txt" || !strings.Contains(read(), "Sitemap:") {
		t.Errorf("the link is %q, %v, and gives %q", to, err, read())
	}
	for _, err := range []error{os.Remove(path), os.Symlink(outside, path)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Write(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "outside the docroot") {
		t.Errorf("written through a link out of the docroot: %v", err)
	}
	if b, err := os.ReadFile(outside); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRobotsCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "robots.txt")
	r := ourRobots(path)
	check := func(text string, want ...string) {
		t.Helper()
		if text != "" {
			must.Write(t, path, text)
		}
		faults := must.Get(r.Check())
		for i, f := range faults {
			if i >= len(want) || !strings.Contains(f.String(), want[i]) || f.Cure == "" {
				t.Errorf("%q: %s", text, f)
			}
		}
		if len(faults) < len(want) {
			t.Errorf("%q: %v, want %q", text, faults, want)
		}
	}
	check("", "the file does not exist")
	if faults, err := (&static.Robots{Path: r.Path, Base: r.Base}).Check(); len(faults) > 0 || err != nil {
		t.Errorf("without a list of pages nothing is missing in it: %v, %v", faults, err)
	}
	check("<html>", "HTML")
	check("User-agent: *\nDisallow:\n", "does not name all")
	for _, name := range []string{"sitemap.xml", "robots.rdf"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	good := "User-agent: *\nDisallow: /private/\n\nSitemap: https://www.example.org/sitemap.xml\nManifest: https://www.example.org/robots.rdf\n"
	check(good)
	check("# comment\r\n\r\nSitemap: /sitemap.xml\r\n"+good, "line 3: Sitemap: /sitemap.xml is not an absolute URL")
	check(good+"sitemap: http://www.example.org/sitemap.xml\n", "line 6: Sitemap: http://www.example.org/sitemap.xml is at another origin")
	check(good+"Sitemap: https://www.example.org/old-sitemap.xml\n", "line 6: Sitemap: https://www.example.org/old-sitemap.xml has no file")
	check(good+"Sitemap: https://www.example.org/private/s.xml\n", "line 6: Sitemap: https://www.example.org/private/s.xml is forbidden")
	check(good+"# Parley: begin\n", "has no")
	check(good+"# Parley: begin\nDisallow: /x\n# Parley: end\n", "line 7 is \"Disallow: /x\"")
	r.Base = robotsBase + "docs/"
	check(good, "not at the root of its host")
	if got := r.Propose([]byte("User-agent: *\n")); got != "Sitemap: https://www.example.org/sitemap.xml\nManifest: https://www.example.org/robots.rdf" {
		t.Errorf("proposed %q", got)
	}
}

var (
	corpusAgents = []string{"*", "Googlebot", "bingbot", "Yandex", "parley", "AhrefsBot"}
	corpusPaths  = []string{"/", "/index.html", "/wp-admin/", "/search?q=a", "/a/b/c.php", "/private/x", "/cgi-bin/a", "/tmp", "/%7Euser/", "/b.gif"}
)

// Files from the wild: the merge changes the meaning of none.
func TestRobotsMergeOfRecordedFiles(t *testing.T) {
	var texts [][]byte
	for _, b := range machine.Recorded(t, "robots-top1m-2017") {
		texts = append(texts, b)
	}
	r := ourRobots("")
	refused, merged := map[string]int{}, 0
	type pair struct {
		Before, After []byte
	}
	var sample []pair
	for i, text := range texts {
		got, err := r.Merge(text)
		if err != nil {
			says, _, _ := strings.Cut(err.Error(), ":")
			refused[says]++
			continue
		}
		merged++
		if !bytes.HasPrefix(got, text) {
			t.Fatalf("file %d: bytes were altered", i)
		}
		if again, err := r.Merge(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("file %d: not idempotent: %v", i, err)
		}
		if out, err := new(static.Robots).Merge(got); err != nil || !bytes.Equal(out, text) {
			t.Errorf("file %d: not restored: %v", i, err)
		}
		a, b := robots.Parse(text), robots.Parse(got)
		for _, agent := range corpusAgents {
			for _, path := range corpusPaths {
				if a.Allowed(agent, path) != b.Allowed(agent, path) {
					t.Errorf("file %d: %s %s: allowed %v before, not after", i, agent, path, a.Allowed(agent, path))
				}
			}
			if a.CrawlDelay(agent) != b.CrawlDelay(agent) {
				t.Errorf("file %d: %s: another delay", i, agent)
			}
		}
		if !slices.Contains(b.Lines("sitemap"), r.Sitemaps[0]) || !slices.Contains(b.Lines("manifest"), r.Manifest) {
			t.Errorf("file %d: the lines are not read back", i)
		}
		if i%20 == 0 && len(text) < 20_000 {
			sample = append(sample, pair{text, got})
		}
	}
	t.Logf("%d files, %d merged, refused: %v", len(texts), merged, refused)
	if len(texts) < 8000 || merged < len(texts)*9/10 || refused["it is HTML, not a robots.txt"] == 0 {
		t.Error("not the expected corpus")
	}

	python := machine.Tool(t, "python3")
	in, err := json.Marshal(map[string]any{"files": sample, "agents": corpusAgents, "paths": corpusPaths, "sitemap": r.Sitemaps[0]})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", witness)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "same ") {
		t.Errorf("python3: %v\n%s", err, out)
	}
}

// witness compares the results of the parser in Python's standard library.
const witness = `
import base64, json, sys, urllib.robotparser
q = json.load(sys.stdin)
def read(text):
    p = urllib.robotparser.RobotFileParser("https://www.example.org/robots.txt")
    p.parse(base64.b64decode(text).decode("utf-8", "replace").splitlines())
    p.modified()
    return p
n = 0
for i, f in enumerate(q["files"]):
    try:
        a, b = read(f["Before"]), read(f["After"])
    except ValueError:
        continue # some ports and URLs it cannot read at all
    for agent in q["agents"]:
        for path in q["paths"]:
            url = "https://www.example.org" + path
            if a.can_fetch(agent, url) != b.can_fetch(agent, url):
                sys.exit("file %d: %s %s differs" % (i, agent, path))
            n += 1
        if a.crawl_delay(agent) != b.crawl_delay(agent):
            sys.exit("file %d: %s: another delay" % (i, agent))
    was, now = a.site_maps() or [], b.site_maps() or []
    if now[:len(was)] != was or q["sitemap"] not in now:
        sys.exit("file %d: sitemaps %r, then %r" % (i, was, now))
print("same %d" % n)
`

func FuzzRobotsMerge(f *testing.F) {
	for _, s := range []string{"User-agent: *\nDisallow: /x", "a\r# Parley: begin\r\n# Parley: end", "\uFEFF\r\r\n", "Sitemap: https://www.example.org/sitemap.xml",
		"User-agent: *\n# Parley: begin\nSitemap: x\n# Parley: end\nDisallow: /tmp", "# Parley: begin\nUser-agent: a\nDisallow: /\n# Parley: end"} {
		f.Add([]byte(s))
	}
	r := ourRobots("")
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := r.Merge(text)
		if err != nil {
			return
		}
		again, err := r.Merge(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not idempotent: %q, %q, %v", got, again, err)
		}
		out, err := new(static.Robots).Merge(got)
		if err != nil || !bytes.Contains(text, []byte("# Parley:")) && (!bytes.Equal(out, text) || !bytes.HasPrefix(got, text)) {
			t.Fatalf("%q became %q, and then %q, %v", text, got, out, err)
		}
		a, b, c := robots.Parse(text), robots.Parse(got), robots.Parse(out)
		for _, path := range corpusPaths {
			if a.Allowed("a", path) != b.Allowed("a", path) || a.Allowed("a", path) != c.Allowed("a", path) {
				t.Fatalf("%q: the rule for %s changed in %q, or in %q", text, path, got, out)
			}
		}
	})
}
