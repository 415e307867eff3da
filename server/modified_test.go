package server_test

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// A deployment is a build that is copied to its docroot.
type deployment struct {
	*testing.T
	dir     string // contains the build and the docroot
	journal *server.Journal
	pub     *server.Publisher
	site    *server.Site
}

func newDeployment(t *testing.T, pages ...string) *deployment {
	d := &deployment{T: t, dir: t.TempDir()}
	d.build("build", pages...)
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(d.dir, "state"), server.JournalOptions{Base: base}))
	t.Cleanup(func() { j.Close() })
	d.journal = j
	d.site = &server.Site{Docroot: filepath.Join(d.dir, "root"), Base: base}
	d.pub = &server.Publisher{Inventory: d.site, Journal: j, Pace: server.Pace{Once: true},
		Snapshot: &manifest.Snapshot{Path: filepath.Join(d.dir, "robots.rdf"), Manifest: doors.Describe(base)}}
	return d
}

func (d *deployment) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// build writes pages with random mtimes within the last year.
func (d *deployment) build(name string, pages ...string) {
	d.Helper()
	for _, p := range pages {
		file := filepath.Join(d.dir, name, p)
		must.Write(d, file, "content of "+p)
		at := time.Now().Add(-time.Duration(rand.Int64N(int64(365*24*time.Hour))) - 48*time.Hour)
		d.must(os.Chtimes(file, at, at))
	}
}

// clone copies the build into a new docroot, with new files and current mtimes, as git does, and replaces the
// old one.
func (d *deployment) clone() {
	d.Helper()
	next := filepath.Join(d.dir, "next")
	d.must(os.CopyFS(next, os.DirFS(filepath.Join(d.dir, "build"))))
	d.must(os.RemoveAll(filepath.Join(d.dir, "root")))
	d.must(os.Rename(next, filepath.Join(d.dir, "root")))
}

// modified runs a Turn and returns the modified times in the published manifest, and the mtimes of the files.
func (d *deployment) modified() (told, files map[string]time.Time) {
	d.Helper()
	time.Sleep(60 * time.Millisecond) // old enough for stamps to be trusted
	must.Get(d.pub.Turn(d.Context()))
	f := must.Get(os.Open(d.pub.Snapshot.Path))
	defer f.Close()
	told, files = map[string]time.Time{}, map[string]time.Time{}
	for r := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: base + "robots.rdf"}); ; {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		d.must(err)
		told[rec.Item.URL] = rec.Item.Modified
	}
	root := filepath.Join(d.dir, "root")
	d.must(filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi := must.Get(e.Info())
		rel := must.Get(filepath.Rel(root, path))
		files[base+filepath.ToSlash(rel)] = fi.ModTime()
		return nil
	}))
	return told, files
}

// wantUnmoved deploys and checks that every page keeps its modified time, except changed pages, which must
// have a later one. Moves says whether deploying changes the mtimes; if it should and does not, the test
// proves nothing.
func (d *deployment) wantUnmoved(how string, deploy func(), moves bool, changed ...string) {
	d.Helper()
	was, before := d.modified()
	head := d.journal.Head()
	deploy()
	now, files := d.modified()
	if len(was) != len(before) || len(now) != len(was) {
		d.Fatalf("%s: %d pages in %d files, then %d", how, len(was), len(before), len(now))
	}
	moved := 0
	for url := range before {
		if !files[url].Equal(before[url]) {
			moved++
		}
	}
	if moves && moved != len(files) {
		d.Errorf("%s: only %d of %d files have another mtime: the test shows nothing", how, moved, len(files))
	}
	for _, p := range changed {
		if url := base + p; !now[url].After(was[url]) {
			d.Errorf("%s: %s has other bytes, and was modified %v as before %v", how, p, now[url], was[url])
		} else {
			now[url] = was[url]
		}
	}
	if !maps.EqualFunc(was, now, time.Time.Equal) {
		d.Errorf("%s: modified\n\t%v\nwas\n\t%v", how, now, was)
	}
	if n := d.journal.Head().Seq - head.Seq; n != uint64(len(changed)) {
		d.Errorf("%s: %d changes were reported", how, n)
	}
}

// A fresh clone has new files, all with current mtimes. Only pages with other bytes count as modified.
func TestModifiedAfterClone(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, "x.html", "a.html", "b/c.html", "b/d.html")
	d.clone()
	for _, heal := range []bool{false, true} {
		if heal {
			d.pub.Pages.Healer = d.site
		}
		d.wantUnmoved("a clone", d.clone, !heal)
		must.Write(d, filepath.Join(d.dir, "build", "a.html"), "other content")
		d.wantUnmoved("a clone of another build", d.clone, !heal, "a.html")
		must.Write(d, filepath.Join(d.dir, "build", "a.html"), "content of a.html")
		d.wantUnmoved("a clone of the build before", d.clone, !heal, "a.html")
	}
}

// Rsync replaces files; with -t they get the mtimes of the source, without it the current time.
func TestModifiedAfterRsync(t *testing.T) {
	t.Parallel()
	rsync := tool(t, "rsync")
	d := newDeployment(t, "x.html", "a.html", "b/c.html", "b/d.html")
	sync := func(flags ...string) func() {
		return func() {
			t.Helper()
			args := append(flags, "--recursive", "--delete", filepath.Join(d.dir, "build")+"/", filepath.Join(d.dir, "root")+"/")
			if out, err := exec.Command(rsync, args...).CombinedOutput(); err != nil {
				t.Fatalf("rsync: %v\n%s", err, out)
			}
		}
	}
	rebuild := func(changed ...string) {
		d.build("build", "x.html", "a.html", "b/c.html", "b/d.html") // with other times
		for _, p := range changed {
			f := must.Get(os.OpenFile(filepath.Join(d.dir, "build", p), os.O_APPEND|os.O_WRONLY, 0))
			must.Get(f.WriteString(time.Now().String()))
			d.must(f.Close())
		}
	}
	sync("--times")()
	for how, flags := range map[string][]string{"with times": {"--times"}, "without times": {"--no-times"}, "by checksum": {"--checksum"}} {
		rebuild()
		sync(flags...)()
		rebuild()
		d.wantUnmoved(how, sync(flags...), how != "by checksum")
		rebuild("a.html")
		d.wantUnmoved(how+", with other bytes", sync(flags...), how != "by checksum", "a.html")
		rebuild()
		d.wantUnmoved(how+", with the bytes before", sync(flags...), how != "by checksum", "a.html")
	}
}

func TestModifiedIsHonest(t *testing.T) {
	w := newWorld(t)
	modified := func() time.Time {
		e, ok, err := w.journal.Get(base + "a.html")
		w.must(err)
		if !ok {
			w.Fatal("a.html does not exist")
		}
		return e.Item.Modified
	}
	is := func(what string, want time.Time) {
		t.Helper()
		w.look()
		if got := modified(); !got.Equal(want) {
			t.Errorf("%s: modified is %v, want %v", what, got, want)
		}
	}
	long := w.now.Add(-1000 * time.Hour)
	w.put("a.html", "1", long)
	is("first seen", long)
	w.pass(time.Hour)
	w.put("a.html", "1", w.now)
	is("touched", long)
	w.put("a.html", "2", w.now.Add(-time.Minute))
	is("changed", w.now.Add(-time.Minute))
	w.pass(time.Hour)
	w.put("a.html", "3", long) // rsync -t, cp -p
	is("changed with an old time", w.now)
	w.put("a.html", "4", long)
	is("again at the same moment", w.now.Add(time.Millisecond))
	w.pass(time.Hour)
	w.put("a.html", "5", w.now.Add(time.Hour))
	is("changed with a time to come", w.now)
	was := w.now
	w.pass(time.Hour)
	w.rename("a.html", "b.html")
	w.look()
	e, _, err := w.journal.Get(base + "b.html")
	w.must(err)
	if !e.Item.Modified.Equal(was) {
		t.Errorf("moved: modified is %v, want %v", e.Item.Modified, was)
	}
	w.put("new.html", "n", w.now.Add(time.Hour))
	w.look()
	e, _, err = w.journal.Get(base + "new.html")
	w.must(err)
	if !e.Item.Modified.Equal(w.now) {
		t.Errorf("first seen with a future mtime: modified is %v, want %v", e.Item.Modified, w.now)
	}
}
