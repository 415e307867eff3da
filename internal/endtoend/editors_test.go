package endtoend

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// TestEditors saves pages in all the ways that people and programs do, and wants exactly the right changes
// for each: no more, no fewer.
func TestEditors(t *testing.T) {
	r := newRig(t)
	r.flags = []string{"--grace", "400ms"}
	for _, name := range []string{"a", "b", "c", "dir/x", "dir/y", "dir/deep/z"} {
		r.write(name+".html", "first version of "+name)
	}
	outside := t.TempDir()
	r.startNotifier()
	p := r.path

	shell := func(tool, script string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			machine.Tool(t, tool)
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = r.root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", script, err, out)
			}
		}
	}
	old := func(name, content string) string {
		f := filepath.Join(outside, name)
		must.Write(r.t, f, content)
		long := time.Now().AddDate(-3, 0, 0)
		r.must(os.Chtimes(f, long, long))
		return f
	}

	for _, c := range []struct {
		how  string
		do   func(*testing.T)
		want []string
	}{
		{"vim: probe, back up by rename, write anew, drop the backup", func(t *testing.T) {
			r.write("4913", "")
			r.must(os.Remove(p("4913")))
			r.must(os.Rename(p("a.html"), p("a.html~")))
			r.write("a.html", "saved by vim")
			r.must(os.Remove(p("a.html~")))
		}, []string{"update /a.html"}},
		{"emacs: lock, autosave, back up by rename, write anew, keep the backup", func(t *testing.T) {
			r.must(os.Symlink("me@host.1:1", p(".#b.html")))
			r.write("#b.html#", "autosaved")
			r.must(os.Rename(p("b.html"), p("b.html~")))
			r.write("b.html", "saved by emacs")
			r.must(os.Remove(p(".#b.html")))
			r.must(os.Remove(p("#b.html#")))
		}, []string{"update /b.html"}},
		{"sed -i", shell("sed", "sed -i s/first/second/ c.html"), []string{"update /c.html"}},
		{"rsync -t with an old time", func(t *testing.T) {
			from := old("rsynced.html", "came by rsync")
			shell("rsync", "rsync -t "+from+" a.html")(t)
		}, []string{"update /a.html"}},
		{"rsync -t --inplace with an old time", func(t *testing.T) {
			from := old("inplace.html", "came in place")
			shell("rsync", "rsync -t --inplace "+from+" b.html")(t)
		}, []string{"update /b.html"}},
		{"cp -p of an old file", func(t *testing.T) {
			from := old("copied.html", "copied with its time")
			shell("cp", "cp -p "+from+" c.html")(t)
		}, []string{"update /c.html"}},
		{"truncate in place, then write", func(t *testing.T) {
			f := must.Get(os.OpenFile(p("a.html"), os.O_TRUNC|os.O_WRONLY, 0))
			time.Sleep(150 * time.Millisecond) // a slow writer
			must.Get(f.WriteString("written after a pause"))
			r.must(f.Close())
		}, []string{"update /a.html"}},
		{"the same bytes again", shell("cp", "cp c.html t && mv t c.html && touch a.html b.html"), nil},
		// The new version is made elsewhere: each that is in the docroot for a moment may be announced.
		{"git checkout", shell("git", "git init -q . && git config user.email a@b.c && git config user.name n && git add . && git commit -qm 1 && "+
			"git worktree add -qb two "+outside+"/two && cd "+outside+"/two && echo two x >dir/x.html && echo two y >dir/y.html && git commit -qam 2 && "+
			"cd "+r.root+" && git checkout -q --detach two"),
			[]string{"update /dir/x.html", "update /dir/y.html"}},
		{"mv of a directory", func(t *testing.T) { r.must(os.Rename(p("dir"), p("dir2"))) },
			[]string{"move /dir2/x.html /dir/x.html", "move /dir2/y.html /dir/y.html", "move /dir2/deep/z.html /dir/deep/z.html"}},
		{"mv of a directory out of the docroot, until the grace period ends", func(t *testing.T) { r.must(os.Rename(p("dir2/deep"), filepath.Join(outside, "deep"))) },
			[]string{"delete /dir2/deep/z.html"}},
		{"mv of a directory in", func(t *testing.T) {
			must.Write(r.t, filepath.Join(outside, "in/er/1.html"), "one")
			must.Write(r.t, filepath.Join(outside, "in/2.html"), "two")
			r.must(os.Rename(filepath.Join(outside, "in"), p("in")))
		}, []string{"create /in/2.html", "create /in/er/1.html"}},
		{"mkdir -p and a file, at once", shell("sh", "mkdir -p n/e/s/t && echo deep >n/e/s/t/ed.html"), []string{"create /n/e/s/t/ed.html"}},
		{"a hard link", func(t *testing.T) { r.must(os.Link(p("a.html"), p("linked.html"))) }, []string{"create /linked.html"}},
		{"an edit through a hard link", func(t *testing.T) { r.edit("linked.html") }, []string{"update /a.html", "update /linked.html"}},
		{"two names for equal files", func(t *testing.T) {
			r.write("twin.html", "twins")
			r.write("twin2.html", "twins")
		}, []string{"create /twin.html", "create /twin2.html"}},
		{"a rename beside an equal file", func(t *testing.T) { r.must(os.Rename(p("twin.html"), p("triplet.html"))) },
			[]string{"move /triplet.html /twin.html"}},
		{"two renames of equal files", func(t *testing.T) {
			r.must(os.Mkdir(p("t"), 0o755))
			r.must(os.Rename(p("triplet.html"), p("t/triplet.html")))
			r.must(os.Rename(p("twin2.html"), p("t/twin2.html")))
		},
			[]string{"create /t/triplet.html", "create /t/twin2.html", "delete /triplet.html", "delete /twin2.html"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			from := r.head()
			c.do(t)
			r.exactly(from, c.want)
		})
	}
}

// TestRootSwap deploys by swapping a symbolic link.
func TestRootSwap(t *testing.T) {
	r := newRig(t)
	site := filepath.Dir(r.root)
	r.must(os.Remove(r.root))
	for release, changed := range map[string]string{"1": "old", "2": "new"} {
		dir := filepath.Join(site, "releases", release)
		r.must(os.MkdirAll(dir, 0o755))
		for i := range 10 {
			r.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d.html", i)), fmt.Appendf(nil, "page %d", i), 0o644))
		}
		must.Write(r.t, filepath.Join(dir, "changed.html"), changed)
	}
	r.must(os.Symlink("releases/1", r.root))
	r.startNotifier()
	from := r.head()
	r.must(os.Symlink("releases/2", r.root+".new"))
	r.must(os.Rename(r.root+".new", r.root))
	r.exactly(from, []string{"update /changed.html"})
	// The new tree is watched now, and the old one is no longer the site.
	from = r.head()
	must.Write(r.t, filepath.Join(site, "releases/1/p1.html"), "nobody sees this")
	r.write("p2.html", "edited in release 2")
	r.exactly(from, []string{"update /p2.html"})
}

// TestRebuildDeletesNothing empties the docroot and fills it again, removes it and restores it, and only then
// really deletes the pages.
func TestRebuildDeletesNothing(t *testing.T) {
	r := newRig(t)
	r.flags = []string{"--grace", "200ms"}
	build := func() {
		for i := range 40 {
			r.write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("page %d", i))
		}
	}
	build()
	r.startNotifier()
	from := r.head()

	r.must(os.RemoveAll(r.root))
	time.Sleep(time.Second) // a slow build, longer than the grace
	build()
	r.exactly(from, nil)

	r.must(os.Rename(r.root, r.root+".unmounted"))
	time.Sleep(500 * time.Millisecond)
	if out, code := r.rdfgen(); code == 0 {
		t.Errorf("rdfgen beside a missing docroot: exit 0: %s", out)
	}
	r.must(os.Mkdir(r.root, 0o755)) // an empty mount point
	r.until("rdfgen asks for a confirmation", func() bool {
		out, code := r.rdfgen()
		return code == 1 && strings.Contains(out, "--accept-deletions")
	})
	if got := r.changes(from); len(got) > 0 {
		t.Fatalf("an unmounted docroot was announced as %q", got)
	}
	r.must(os.Remove(r.root))
	r.must(os.Rename(r.root+".unmounted", r.root))
	r.exactly(from, nil)

	r.must(os.RemoveAll(r.root))
	r.must(os.Mkdir(r.root, 0o755))
	r.until("the deletions are held", func() bool { _, code := r.rdfgen(); return code == 1 })
	if out, code := r.rdfgen("--accept-deletions"); code != 0 {
		t.Fatalf("accept deletions: exit %d: %s", code, out)
	}
	if got := r.changes(from); len(got) != 40 || !strings.HasPrefix(got[0], "delete /p") {
		t.Errorf("accepted deletions were announced as %q", got)
	}
}

// TestCronBesideNotifier runs rdfgen, as cron would, on the state of a running notifier.
func TestCronBesideNotifier(t *testing.T) {
	r := newRig(t)
	out := filepath.Join(r.root, "robots.rdf")
	r.flags = []string{"--out", out}
	r.write("a.html", "a")
	r.startNotifier()
	if said, code := r.rdfgen("--out", out, "--self-check"); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
	if said, code := r.rdfgen("--out", out+".other"); code != 1 || !strings.Contains(said, "publishes at "+out) {
		t.Errorf("with another --out: exit %d: %s", code, said)
	}
}

func (r *rig) head() protocol.Cursor {
	r.t.Helper()
	resp := must.Get(http.Get(r.base + ".well-known/parley"))
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))
	_, after, ok := strings.Cut(string(b), `"head":"`)
	if !ok {
		r.t.Fatalf("well-known: no head in %s", b)
	}
	text, _, _ := strings.Cut(after, `"`)
	return must.Get(protocol.ParseCursor(text))
}

// changes returns the changes since a cursor, as "op path [from]", sorted.
func (r *rig) changes(after protocol.Cursor) []string {
	r.t.Helper()
	resp, err := http.Get(r.base + "parley/changes?after=" + after.String())
	r.must(err)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))
	m, err := protocol.ParseMessage(b)
	if err != nil {
		r.t.Fatalf("changes: %v: %s", err, b)
	}
	var list []string
	for _, c := range m.Changes {
		s := string(c.Op) + " /" + strings.TrimPrefix(c.Item.URL, r.base)
		if c.From != "" {
			s += " /" + strings.TrimPrefix(c.From, r.base)
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// exactly waits until the wanted changes are published, makes the notifier scan everything once more, and
// wants no other change.
func (r *rig) exactly(after protocol.Cursor, want []string) {
	r.t.Helper()
	want = slices.Sorted(slices.Values(want))
	r.until(fmt.Sprintf("%q is announced; announced: %q", want, r.changes(after)), func() bool { return len(r.changes(after)) >= len(want) })
	r.until("no page is held or unsettled", func() bool {
		found, code := r.look()
		return code == 0 && found.HeldNow == 0 && found.Unsettled == 0
	})
	if got := r.changes(after); !slices.Equal(got, want) {
		r.t.Errorf("announced %q, want %q", got, want)
	}
}
