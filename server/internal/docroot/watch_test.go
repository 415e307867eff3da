package docroot_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/internal/docroot"
	"github.com/parleyweb/parley/server/inventory"
)

// A watchedRoot collects the scopes that Watch reports as dirty.
type watchedRoot struct {
	*disk
	mu    sync.Mutex
	all   int // how often everything was dirty
	dirty []inventory.Scope
	wake  chan struct{}
}

const patience = 20 * time.Second

// watch starts Watch and returns once it is watching.
func (d *disk) watch() *watchedRoot {
	d.Helper()
	w := &watchedRoot{disk: d, wake: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.site.Watch(ctx, w.take) }()
	d.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			d.Errorf("watch: %v", err)
		}
	})
	w.until("everything is dirty at the beginning", func() bool { return w.all > 0 })
	w.reset()
	return w
}

func (w *watchedRoot) take(scopes []inventory.Scope) {
	w.mu.Lock()
	if len(scopes) == 0 {
		w.all++
	}
	w.dirty = append(w.dirty, scopes...)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watchedRoot) reset() {
	w.mu.Lock()
	w.all, w.dirty = 0, nil
	w.mu.Unlock()
}

// until waits for a condition, which is checked whenever something becomes dirty.
func (w *watchedRoot) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		yes := ok()
		w.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-w.wake:
		case <-deadline:
			w.mu.Lock()
			defer w.mu.Unlock()
			w.Fatalf("timed out: %s\neverything dirty %d times, and %v", what, w.all, w.dirty)
		}
	}
}

// covered reports whether a URL below the base lies in a dirty scope. w.mu must be held.
func (w *watchedRoot) covered(url string) bool {
	return w.all > 0 || w.told(url)
}

// told is covered, except when everything is dirty.
func (w *watchedRoot) told(url string) bool {
	return slices.ContainsFunc(w.dirty, func(s inventory.Scope) bool { return s.Has(base + url) })
}

// expect does something and waits until all the given URLs are reported as dirty.
func (w *watchedRoot) expect(what string, do func(), urls ...string) {
	w.Helper()
	w.reset()
	do()
	w.until(what, func() bool {
		return !slices.ContainsFunc(urls, func(u string) bool { return !w.told(u) })
	})
}

func (w *watchedRoot) run(name string, args ...string) {
	w.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func TestWatchEdits(t *testing.T) {
	d := newDisk(t, "a.html", "b.html", "sub/c.html", "sub/deep/d.html", "other/e.html", "data/target.src", ".hidden/target.src")
	d.link("sub", "linked")
	d.link("data/target.src", "page.html")
	d.link(".hidden/target.src", "kept.html")
	w := d.watch()
	p := d.path
	w.expect("write", func() { d.write("a.html", "x") }, "a.html")
	w.expect("truncate and write", func() {
		d.must(os.Truncate(p("a.html"), 0))
		d.write("a.html", "y")
	}, "a.html")
	w.expect("vim", func() {
		d.write("4913", "")
		d.must(os.Remove(p("4913")))
		d.must(os.Rename(p("a.html"), p("a.html~")))
		d.write("a.html", "z")
		d.must(os.Remove(p("a.html~")))
	}, "a.html")
	w.expect("save by rename", func() {
		d.write("sub/.c.tmp", "z")
		d.must(os.Rename(p("sub/.c.tmp"), p("sub/c.html")))
	}, "sub/c.html", "linked/c.html")
	w.expect("chmod", func() { d.must(os.Chmod(p("a.html"), 0o600)) }, "a.html")
	w.expect("remove", func() { d.must(os.Remove(p("b.html"))) }, "b.html")
	w.expect("hard link", func() { d.must(os.Link(p("a.html"), p("b.html"))) }, "b.html")
	w.expect("write below a link to a directory", func() { d.write("sub/deep/d.html", "x") }, "sub/deep/d.html", "linked/deep/d.html")
	w.expect("write to what a link leads to", func() { d.write("data/target.src", "x") }, "page.html")
	w.expect("write to what a link leads to, hidden", func() { d.write(".hidden/target.src", "x") }, "kept.html")
	w.expect("a link replaced", func() {
		d.must(os.Symlink("a.html", p("tmp")))
		d.must(os.Rename(p("tmp"), p("page.html")))
	}, "page.html")
	w.expect("and its new target", func() { d.write("a.html", "new") }, "page.html")
	w.expect("an empty file", func() { d.write("empty.html", "") }, "empty.html")
	w.expect("a directory moved in", func() {
		aside := filepath.Join(filepath.Dir(d.dir), "aside")
		d.must(os.MkdirAll(filepath.Join(aside, "x/y"), 0o755))
		must.Write(d, filepath.Join(aside, "x/y/z.html"), "z")
		d.must(os.Rename(aside, p("in")))
	}, "in/x/y/z.html")
	w.expect("and written to", func() { d.write("in/x/y/z.html", "zz") }, "in/x/y/z.html")
	w.expect("a directory renamed", func() { d.must(os.Rename(p("in"), p("renamed"))) }, "in/x/y/z.html", "renamed/x/y/z.html")
	w.expect("and written to", func() { d.write("renamed/x/y/z.html", "zzz") }, "renamed/x/y/z.html")
	w.mu.Lock()
	if slices.ContainsFunc(w.dirty, func(s inventory.Scope) bool { return strings.HasPrefix(s.Prefix, base+"in/") }) {
		t.Errorf("events have the old name: %v", w.dirty)
	}
	w.mu.Unlock()
	w.expect("a directory moved out", func() { d.must(os.Rename(p("renamed"), filepath.Join(filepath.Dir(d.dir), "out"))) }, "renamed/x/y/z.html")
	w.expect("two directories swapped", func() {
		d.must(os.Rename(p("sub"), p("tmp")))
		d.must(os.Rename(p("other"), p("sub")))
		d.must(os.Rename(p("tmp"), p("other")))
	}, "sub/e.html", "other/deep/d.html")
	w.expect("and written to", func() {
		d.write("sub/e.html", "e")
		d.write("other/deep/d.html", "d")
	}, "sub/e.html", "other/deep/d.html")
	w.expect("removed and built anew", func() {
		d.must(os.RemoveAll(p("other")))
		d.write("other/deep/d.html", "d")
	}, "other/deep/d.html")
	w.expect("and written to", func() { d.write("other/deep/d.html", "dd") }, "other/deep/d.html")
	if _, err := exec.LookPath("sed"); err == nil {
		w.expect("sed", func() { w.run("sed", "-i", "s/e/f/", "sub/e.html") }, "sub/e.html")
	}
}

// Changes of files that are never published cause no scan.
func TestWatchIgnores(t *testing.T) {
	d := newDisk(t, "a.html", "out/b.html", ".git/c.html")
	d.site.Settings.Own = []string{d.path("own.html"), d.path("own.parts")}
	w := d.watch()
	d.look() // learns its own outputs
	w.reset()
	for i := range 20 {
		for _, f := range []string{"robots.rdf", "own.html", "x.png", ".a.html.swp", "a.html~", "#a.html#", ".git/c.html", ".git/new/d.html", "own.parts/a.html"} {
			d.write(f, fmt.Sprint(i))
		}
	}
	d.write("out/b.html", "x")
	w.until("out/b.html", func() bool { return w.told("out/b.html") })
	if !slices.Equal(w.dirty, []inventory.Scope{{Page: base + "out/b.html"}}) || w.all != 0 {
		t.Errorf("dirty: %v, everything %d times", w.dirty, w.all)
	}
}

// A file in directories that have just been made is never missed.
func TestWatchNewDirectories(t *testing.T) {
	d := newDisk(t, "a.html")
	w := d.watch()
	var want []string
	for i := range 100 {
		place := fmt.Sprintf("%d/b/c/x.html", i)
		d.write(place, "x")
		want = append(want, place)
	}
	// Scanning the dirty scopes finds them all.
	found := make(map[string]bool)
	w.until("100 files", func() bool {
		for _, s := range w.dirty {
			for o := range d.site.Scan(t.Context(), []inventory.Scope{s}) {
				if o.LeftOut == "" && !o.Unsettled {
					found[o.Place] = true
				}
			}
		}
		w.dirty = nil
		return !slices.ContainsFunc(want, func(p string) bool { return !found[p] })
	})
	// And each of the directories is watched.
	for _, place := range want {
		w.expect(place, func() { d.write(place, "y") }, place)
	}
}

func TestWatchRootSwap(t *testing.T) {
	d := newDisk(t)
	d.must(os.Remove(d.dir))
	for i := range 4 {
		d.must(os.MkdirAll(fmt.Sprintf("%s-releases/%d/sub", d.dir, i), 0o755))
	}
	d.must(os.Symlink("root-releases/0", d.dir))
	d.must(os.MkdirAll(d.dir+"-far", 0o755))
	d.must(os.Symlink("../root", d.dir+"-far/current"))
	d.site.Settings.Docroot = d.dir + "-far/current"
	w := d.watch()
	d.write("sub/a.html", "x")
	w.until("before", func() bool { return w.told("sub/a.html") })
	for i := 1; i < 4; i++ {
		w.reset()
		d.must(os.Symlink(fmt.Sprintf("root-releases/%d", i), d.dir+"-tmp"))
		d.must(os.Rename(d.dir+"-tmp", d.dir))
		w.until("everything after a swap", func() bool { return w.all > 1 }) // at once, and again when all is watched
		w.expect("a write in the new tree", func() { d.write("sub/a.html", "x") }, "sub/a.html")
	}
	w.reset()
	d.must(os.Rename(d.dir+"-releases/3", d.dir+"-releases/moved"))
	w.until("everything after the root has gone", func() bool { return w.all > 0 })
	w.reset()
	d.must(os.Rename(d.dir+"-releases/moved", d.dir+"-releases/3"))
	w.until("everything after its return", func() bool { return w.all > 0 })
	w.reset()
	d.write("sub/a.html", "y")
	w.until("a write after its return", func() bool { return w.covered("sub/a.html") })
}

func TestWatchLateRoot(t *testing.T) {
	d := newDisk(t)
	d.must(os.Remove(d.dir))
	w := d.watch()
	d.write("sub/a.html", "x")
	w.until("everything once it is there", func() bool { return w.all > 1 })
	w.expect("a write", func() { d.write("sub/a.html", "y") }, "sub/a.html")
}

func TestWatchRobots(t *testing.T) {
	d := newDisk(t, "a.html")
	w := d.watch()
	d.write("robots.txt", "User-agent: *\nDisallow: /")
	w.until("everything", func() bool { return w.all > 0 })
	w.reset()
	d.must(os.Remove(d.path("robots.txt")))
	w.until("everything", func() bool { return w.all > 0 })
}

// An emptied robots.txt is about to be rewritten: until then the old one counts.
func TestWatchRobotsHalfWritten(t *testing.T) {
	d := newDisk(t, "a.html", "private/b.html")
	d.write("robots.txt", "User-agent: *\nDisallow: /private/")
	w := d.watch()
	d.wantOffered("a.html")
	d.must(os.Truncate(d.path("robots.txt"), 0))
	d.must(os.Truncate(d.path("a.html"), 0))
	until := time.Now().Add(patience)
	for !slices.ContainsFunc(d.look(inventory.Scope{Prefix: base}), func(o inventory.Offer) bool { return o.Unsettled }) {
		if time.Now().After(until) {
			t.Fatal("no event")
		}
	}
	d.wantOffered("a.html")
	w.until("everything", func() bool { return w.all > 0 })
	d.wantOffered("a.html")
}

// Pages that a robots.txt newly allows are scanned when the wait is over, without an event; also if
// robots.txt is fetched.
func TestWatchRobotsAccepted(t *testing.T) {
	d := newDisk(t, "a.html", "b.html")
	d.site.Settings.RobotsWait, d.site.Settings.Hurry = 50*time.Millisecond, 20*time.Millisecond
	d.write("robots.txt", "User-agent: *\nDisallow: /a")
	d.wantOffered("b.html")
	w := d.watch()
	d.write("robots.txt", "User-agent: *\nDisallow: /b")
	for all := 0; !slices.Equal(offered(d.look()), []string{"a.html"}); {
		w.until("everything again", func() bool { more := w.all > all; all = w.all; return more })
	}

	var text atomic.Pointer[string]
	says := func(s string) { text.Store(&s) }
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, *text.Load()) }))
	t.Cleanup(web.Close)
	says("User-agent: *\nDisallow: /a")
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Robots: web.URL + "/robots.txt", Hurry: 20 * time.Millisecond}}
	d.wantOffered("b.html")
	w = d.watch()
	w.reset()
	says("User-agent: *\nDisallow: /")
	w.until("everything", func() bool { return w.all > 0 })
	d.wantOffered()
}

func TestWatchRobotsOutsideDocroot(t *testing.T) {
	d := newDisk(t, "a.html")
	d.site.Settings.Robots = filepath.Join(t.TempDir(), "robots.txt")
	d.must(os.WriteFile(d.site.Settings.Robots, nil, 0o644))
	w := d.watch()
	must.Write(d, d.site.Settings.Robots, "User-agent: *\nDisallow: /")
	w.until("everything", func() bool { return w.all > 0 })
}

// The target of a link on the path may be swapped, as some container mounts do.
func TestWatchLinkSwap(t *testing.T) {
	d := newDisk(t, "..v1/a.html", "..v1/sub/b.html", "..v2/a.html", "..v2/sub/b.html")
	d.link("..v1", "..data")
	d.link("..data/a.html", "a.html")
	d.link("..data/sub", "sub")
	d.wantOffered("a.html", "sub/b.html")
	w := d.watch()
	w.expect("a write", func() { d.write("..v1/sub/b.html", "x") }, "sub/b.html")
	d.link("..v2", "..tmp")
	d.must(os.Rename(d.path("..tmp"), d.path("..data")))
	w.until("everything", func() bool { return w.all > 1 })
	w.expect("a write to the new one", func() { d.write("..v2/a.html", "x") }, "a.html")
	w.expect("a write below the new one", func() { d.write("..v2/sub/b.html", "x") }, "sub/b.html")
}

// A file with two names: the event names one of them, and everything is dirty afterwards.
func TestWatchHardLink(t *testing.T) {
	d := newDisk(t, "a.html", "sub/keep.html")
	d.must(os.Link(d.path("a.html"), d.path("sub/b.html")))
	w := d.watch()
	w.expect("the name written to", func() { d.write("a.html", "x") }, "a.html")
	w.until("everything", func() bool { return w.all > 0 })
}

// While a page is being written, a scan caused by its neighbour skips it.
func TestScanSkipsPageBeingWritten(t *testing.T) {
	d := newDisk(t, "a.html", "b.html")
	w := d.watch()
	f := must.Get(os.OpenFile(d.path("a.html"), os.O_WRONLY|os.O_TRUNC, 0))
	until := time.Now().Add(patience)
	for !d.offer("a.html").Unsettled {
		if time.Now().After(until) {
			t.Fatal("an emptied page is never unsettled")
		}
	}
	must.Get(f.WriteString("half"))
	w.expect("neighbour", func() { d.write("b.html", "x") }, "b.html")
	d.must(f.Close())
	w.until("settled", func() bool { return w.told("a.html") })
	for d.offer("a.html").Unsettled {
		if time.Now().After(until) {
			t.Fatal("the page stays unsettled")
		}
	}
}

func TestWatchOverflow(t *testing.T) {
	told, again := docroot.OverflowedWatch(newDisk(t).site)
	if len(told) != 1 || len(told[0]) != 0 || !again {
		t.Errorf("reported %v, and restarts: %v", told, again)
	}
}

func TestWatchStorm(t *testing.T) {
	d := newDisk(t, "a.html")
	w := d.watch()
	for i := range 3000 {
		d.write(fmt.Sprintf("%d/%d.html", i%7, i), "x")
	}
	found := make(map[string]bool)
	w.until("all files", func() bool {
		scopes := w.dirty
		if w.all > 0 {
			scopes = nil
		} else if len(scopes) == 0 {
			return false
		}
		w.dirty, w.all = nil, 0
		for o := range d.site.Scan(t.Context(), scopes) {
			if !o.Unsettled && o.Place != "a.html" {
				found[o.Place] = true
			}
		}
		return len(found) == 3000
	})
}

// A directory that is deleted and recreated may get the same inode number: later writes in the new one are
// noticed.
func TestWatchRebuilt(t *testing.T) {
	d := newDisk(t, "a.html", "other/deep/d.html")
	d.site.Settings.Hurry = 50 * time.Millisecond
	w := d.watch()
	for i := range 50 {
		w.expect("built anew", func() {
			d.must(os.RemoveAll(d.path("other")))
			d.write("other/deep/d.html", fmt.Sprint(i))
		}, "other/deep/d.html")
		w.expect("and written to", func() { d.write(fmt.Sprintf("other/deep/%d.html", i), "d") }, fmt.Sprintf("other/deep/%d.html", i))
	}
}
