package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/inventory"
)

// runAsNobody is run for a user who cannot read everything, as the superuser can.
func (d *desk) runAsNobody(code int, flags ...string) (stdout, stderr string) {
	d.t.Helper()
	asNobody(func() { stdout, stderr = d.run(code, flags...) })
	return stdout, stderr
}

func asNobody(f func()) {
	if os.Getuid() == 0 {
		asUser := func(id int) {
			if err := syscall.Setresuid(-1, id, -1); err != nil { // of all threads
				panic(err)
			}
		}
		asUser(65534)
		defer asUser(0)
	}
	f()
}

// openToNobody lets every user write to the docroot and beside it, and have temporary files, wherever those of the tests are.
func (d *desk) openToNobody() {
	d.t.Helper()
	d.chmod(0o777, "../..", "..", ".")
	d.t.Setenv("TMPDIR", d.dir)
}

func (d *desk) chmod(mode os.FileMode, names ...string) {
	d.t.Helper()
	for _, name := range names {
		must.OK(d.t, os.Chmod(filepath.Join(d.root, name), mode))
	}
}

// What cannot be read has not vanished: it stays published, whatever else changes. Each run names it with the pattern that
// leaves it out, and exits with 1, but not before it has published the rest.
func TestUnreadableIsNamedAndStays(t *testing.T) {
	names := []string{"a.html", "closed/b.html", "closed/deep/c.html", "it's/d.html", "we[i]rd*/e.html"}
	d := newDesk(t, append(names, "home.html", "open/f.html", "open/g.html")...)
	must.OK(t, os.Symlink("closed/b.html", filepath.Join(d.root, "index.html")))
	d.openToNobody()
	d.runAsNobody(0, d.published()...)
	// A file, a directory with another one in it, names that have a meaning in patterns, and a link into the directory.
	closed := []string{"a.html", "closed", "it's/d.html", "we[i]rd*/e.html"}
	d.chmod(0, closed...)
	defer d.chmod(0o755, closed...)
	d.write("open/f.html", "edited")
	if err := os.Remove(filepath.Join(d.root, "open/g.html")); err != nil { // a link that may lead anywhere does not hide this
		t.Fatal(err)
	}
	asNobody(func() {
		list := d.doctor(1, "http://127.0.0.1:1/")
		i := slices.IndexFunc(list, func(f diagnosis) bool { return f.Check == "docroot" && f.State == fault })
		if i < 0 || !strings.HasPrefix(list[i].Says, "cannot read all of ") || !strings.Contains(list[i].Fix, "\n    --exclude '/closed/' ") {
			t.Errorf("doctor: %+v", list)
		}
	})
	patterns := []string{"/a.html", "/closed/", "/index.html", "/it's/d.html", `/we\[i\]rd\*/e.html`}
	for i := range 3 {
		out, said := d.runAsNobody(1, append(d.published(), "--json")...)
		for _, p := range patterns {
			if !strings.Contains(said, "\n    --exclude '"+p+"' ") && !strings.Contains(said, fmt.Sprintf("\n    --exclude %q ", p)) {
				t.Errorf("no pattern %s in\n%s", p, said)
			}
		}
		var found inventory.Report
		must.OK(t, json.Unmarshal([]byte(out), &found))
		if found.Unread != 5 || found.Unreadable["closed/"] != "permission denied" || found.Withdrawn > 0 ||
			i == 0 != (found.Changed == 1) || i == 0 != (found.Held == 1) || i == 1 != (found.Gone == 1) || found.HeldNow != found.Held {
			t.Errorf("run %d found %+v", i, found)
		}
		manifest, err := os.ReadFile(filepath.Join(d.root, "robots.rdf"))
		if n := strings.Count(string(manifest), "<item "); err != nil || n != 9-min(i, 1) {
			t.Errorf("run %d: %d pages are published: %v", i, n, err)
		}
	}
	if out, said := d.runAsNobody(1); strings.Count(out, "<item ") != 2 || !strings.Contains(said, "--exclude '/closed/'") {
		t.Errorf("a manifest on standard output: %s%s", out, said)
	}
	if out, said := d.runAsNobody(1, "--dry-run"); !strings.Contains(out, "2 pages would be published") || !strings.Contains(said, "--exclude '/closed/'\n") {
		t.Errorf("a dry run: %s%s", out, said)
	}

	flags := d.published()
	for _, p := range patterns {
		flags = append(flags, "--exclude", p)
	}
	if out, said := d.runAsNobody(0, flags...); out+said != "" {
		t.Errorf("with all patterns: %q", out+said)
	}
	d.runAsNobody(0, append(flags, "--dry-run")...)
}

// At most ten patterns are named, and how many more there are.
func TestManyUnreadableFiles(t *testing.T) {
	d := newDesk(t, "home.html")
	d.openToNobody()
	for i := range 13 {
		name := fmt.Sprintf("%02d.html", i)
		d.write(name, name)
		d.chmod(0, name)
	}
	_, said := d.runAsNobody(1, d.published()...)
	if n := strings.Count(said, "--exclude"); n != 10 || !strings.HasSuffix(said, "    and 3 more, which --dry-run lists\n") {
		t.Errorf("%d patterns in\n%s", n, said)
	}
}
