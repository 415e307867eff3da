package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// A desk is a docroot and the files that rdfgen writes about it.
type desk struct {
	t         *testing.T
	dir, root string
}

func newDesk(t *testing.T, pages ...string) *desk {
	d := &desk{t: t, dir: t.TempDir()}
	d.root = filepath.Join(d.dir, "public")
	for _, p := range pages {
		d.write(p, "the page "+p)
	}
	return d
}

func (d *desk) write(page, content string) {
	d.t.Helper()
	name := filepath.Join(d.root, page)
	must.Write(d.t, name, content)
}

// ran runs a command and checks its exit code.
func ran(t *testing.T, what func() *command.Command, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	if got := command.Main(t.Context(), what, args, nil, &out, &errs); got != code {
		t.Errorf("%q: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// run runs rdfgen on the docroot.
func (d *desk) run(code int, flags ...string) (stdout, stderr string) {
	d.t.Helper()
	return ran(d.t, rdfgen, code, append([]string{"--docroot", d.root, "--base", "https://Example.org"}, flags...)...)
}

func (d *desk) published() []string {
	return []string{"--state", filepath.Join(d.dir, "state"), "--out", filepath.Join(d.root, "robots.rdf")}
}

// More pages than --max-pages are an error, and the published file stays as it is: it is not cut.
func TestMaxPages(t *testing.T) {
	d := newDesk(t, "a.html", "b.html")
	most := func(n string, flags ...string) []string { return append([]string{"--max-pages", n}, flags...) }
	if out, said := d.run(1, most("1")...); out != "" || !strings.Contains(said, "2 pages were found, more than the maximum, max-pages 1: ") {
		t.Errorf("stdout %q, stderr %q", out, said)
	}
	if out, said := d.run(1, most("1", "--dry-run")...); !strings.Contains(out, "2 pages would be published.") || !strings.Contains(said, "more than --max-pages 1") {
		t.Errorf("stdout %q, stderr %q", out, said)
	}
	d.run(0, most("2", d.published()...)...)
	was := must.Get(os.ReadFile(d.path("public/robots.rdf")))
	d.write("c.html", "the page that is too many")
	for range 2 {
		d.run(1, most("2", d.published()...)...)
		if is, err := os.ReadFile(d.path("public/robots.rdf")); err != nil || string(is) != string(was) {
			t.Errorf("%v: the manifest was rewritten:\n%s", err, is)
		}
	}
	d.run(0, most("2", append(d.published(), "--exclude", "b.html")...)...)
	d.has("public/robots.rdf", "https://example.org/c.html")
	d.run(0, most("3", d.published()...)...)
	d.has("public/robots.rdf", "https://example.org/b.html")
}

func TestManifestOnStandardOutput(t *testing.T) {
	d := newDesk(t, "index.html", "a.html", "b/c.html", ".hidden.html", "notes.txt")
	d.write("a.html", "<html><head><title>\n Fish &amp;\tchips </title></head></html>")
	d.write("x.html", `<meta name="parley" content="NoIndex">`)
	out, said := d.run(0)
	if said != "" {
		t.Errorf("output %q", said)
	}
	var urls, titles []string
	r := protocol.NewManifestReader(strings.NewReader(out), protocol.ManifestOptions{})
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, rec.Item.URL)
		if title := rec.Item.Title; title != "" {
			titles = append(titles, title)
		}
	}
	if len(titles) != 1 || titles[0] != "Fish & chips" {
		t.Errorf("titles are %q", titles)
	}
	if got := strings.Join(urls, " "); got != "https://example.org/ https://example.org/a.html https://example.org/b/c.html" {
		t.Errorf("URLs are %s", got)
	}
	if h := r.Head(); !h.Complete || !h.Cursor.IsZero() || h.Stream != "" {
		t.Errorf("head is %+v", h)
	}
}

func TestDryRun(t *testing.T) {
	d := newDesk(t, "a.html", "secret/b.html", "a.html~", "new\nline.html")
	d.write("x.html", `<!DOCTYPE html><title>X</title><meta name="robots" content="noindex">`)
	d.write("robots.txt", "User-agent: *\nDisallow: /secret/\n")
	out, _ := d.run(0, "--dry-run")
	for _, want := range []string{"publish  https://example.org/a.html\n", "publish  https://example.org/new%0Aline.html\n",
		`leave out "secret/b.html": robots.txt`, `leave out "a.html~": backup`,
		`leave out "x.html": noindex`, "2 pages would be published."} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var list struct{ Published []string }
	out, _ = d.run(0, "--dry-run", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Published) != 2 {
		t.Errorf("as JSON: %v: %s", err, out)
	}
}

// Nothing is printed, since cron mails any output, and an unchanged manifest keeps its mtime, which web
// servers use for conditional requests.
func TestUnchangedSitePrintsNothing(t *testing.T) {
	d := newDesk(t, "a.html", "b.html")
	d.run(0, d.published()...)
	before := must.Get(os.Stat(filepath.Join(d.root, "robots.rdf")))
	if out, said := d.run(0, d.published()...); out+said != "" {
		t.Errorf("output %q", out+said)
	}
	after := must.Get(os.Stat(filepath.Join(d.root, "robots.rdf")))
	if !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the manifest of an unchanged site was rewritten")
	}
	d.write("a.html", "changed")
	if _, said := d.run(0, append(d.published(), "--verbose")...); !strings.HasPrefix(said, "new 0 changed 1 moved 0 gone 0 touched only 0\nrobots.txt: ") || strings.Count(said, "\n") != 2 {
		t.Errorf("output %q", said)
	}
}

func TestDeletionsWaitForTheNextRun(t *testing.T) {
	d := newDesk(t, "a.html", "b.html", "c.html")
	d.run(0, d.published()...)
	must.OK(t, os.Remove(filepath.Join(d.root, "a.html")))
	var found inventory.Report
	for _, want := range []inventory.Report{{Held: 1, HeldNow: 1}, {Gone: 1}} {
		out, _ := d.run(0, append(d.published(), "--json")...)
		must.OK(t, json.Unmarshal([]byte(out), &found))
		if found.Held != want.Held || found.HeldNow != want.HeldNow || found.Gone != want.Gone {
			t.Errorf("found %+v, want %+v", found, want)
		}
	}
}

func TestMassDisappearanceNeedsConfirmation(t *testing.T) {
	d := newDesk(t, "a.html", "b.html")
	d.run(0, d.published()...)
	for _, p := range []string{"a.html", "b.html"} {
		must.OK(t, os.Remove(filepath.Join(d.root, p)))
	}
	for range 3 {
		if _, said := d.run(1, d.published()...); !strings.Contains(said, "2 pages are missing") || !strings.Contains(said, "--accept-deletions") {
			t.Errorf("output %q", said)
		}
	}
	d.run(0, append(d.published(), "--accept-deletions")...)
	d.run(0, d.published()...)
}

// A docroot in which no page was ever found is probably another one than was meant. One whose pages were all deleted is not.
func TestDocrootWithoutPages(t *testing.T) {
	d := newDesk(t)
	d.write("posts/hello.md", "# Hello")
	for _, flags := range [][]string{nil, {"--dry-run"}, d.published(), d.published()} {
		if out, said := d.run(1, flags...); !strings.Contains(said, "no page was found in "+d.root) || strings.Contains(out, "<item ") {
			t.Errorf("rdfgen %q: %s%s", flags, out, said)
		}
	}
	if _, err := os.Stat(filepath.Join(d.root, "robots.rdf")); err != nil {
		t.Error(err)
	}
	d.write("a.html", "a")
	d.run(0, d.published()...)
	must.OK(t, os.Remove(filepath.Join(d.root, "a.html")))
	d.run(0, append(d.published(), "--accept-deletions")...)
	if out, said := d.run(0, d.published()...); out+said != "" {
		t.Errorf("when all pages were deleted: %q", out+said)
	}
}

func TestMisuse(t *testing.T) {
	d := newDesk(t, "a.html")
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--state", filepath.Join(d.root, "state")}, "inside the docroot"},
		{[]string{"--base", "example.org"}, "--base"},
		{[]string{"--base", "ftp://example.org/"}, "--base"},
		{[]string{"--base", "https://bücher.example/x"}, "--base https://bücher.example/x: write the host's name as the DNS has it: https://xn--bcher-kva.example/x/\n"},
		{[]string{"--docroot", ""}, "--docroot is required"},
		{[]string{"--nonsense"}, "--nonsense"},
		{[]string{"--include", "[", "--dry-run"}, "["},
		{[]string{"argument"}, "argument"},
	} {
		if _, said := d.run(2, c.flags...); !strings.Contains(said, c.want) {
			t.Errorf("rdfgen %q said %q, not %q", c.flags, said, c.want)
		}
	}
	if _, said := d.run(1, "--docroot", filepath.Join(d.dir, "missing")); !strings.Contains(said, "missing") {
		t.Errorf("missing docroot: stderr %q", said)
	}
}

func TestOptionsFromFileAndEnvironment(t *testing.T) {
	d := newDesk(t, "a.html", "notes.txt", "b.html")
	conf := filepath.Join(d.dir, "rdfgen.conf")
	must.Write(t, conf, "include *.txt\n")
	t.Setenv("PARLEY_EXCLUDE", "b.*")
	out, _ := d.run(0, "--dry-run", "--config", conf)
	for _, want := range []string{"publish  https://example.org/notes.txt\n", `leave out "b.html": excluded`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
