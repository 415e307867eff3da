package docroot_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/internal/docroot"
)

// What the system reports of the ways in which files are saved.
func TestFileEvents(t *testing.T) {
	d := newDisk(t, "a.html", "open.html")
	got := must.Get(docroot.FileEvents(d.dir, func() {
		d.write("a.html", "x")
		d.must(os.Rename(d.path("a.html"), d.path("b.html")))
		d.must(os.Chmod(d.path("b.html"), 0o600))
		d.must(os.Truncate(d.path("b.html"), 0))
		d.write("new.html", "x")
		d.must(os.Link(d.path("new.html"), d.path("linked.html")))
		d.must(os.Remove(d.path("b.html")))
		d.must(os.Mkdir(d.path("sub"), 0o755))
		must.Get(os.ReadFile(d.path("open.html")))
		d.write("end", "")
	}))
	want := []string{"a.html written", "a.html complete", "a.html left", "b.html complete", "b.html touched", "b.html written",
		"new.html created", "new.html written", "new.html complete", "linked.html created", "b.html left", "sub other directory"}
	// Equal events in a row may be reported as one.
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A page that its writer has open is not scanned until the writer closes it, while its neighbours are.
func TestWatchWaitsForWriter(t *testing.T) {
	d := newDisk(t, "a.html", "b.html")
	w := d.watch()
	f := must.Get(os.OpenFile(d.path("a.html"), os.O_WRONLY, 0))
	half := func() {
		must.Get(f.WriteString("half of it"))
	}
	half()
	until := time.Now().Add(patience)
	for told := false; !told && !d.offer("a.html").Unsettled; {
		w.mu.Lock()
		told = w.told("a.html")
		w.mu.Unlock()
		if time.Now().After(until) {
			t.Fatal("the page that is being written is not unsettled")
		}
	}
	half() // now its writer is known
	neighbour := func() { w.expect("neighbour", func() { d.must(os.Chmod(d.path("b.html"), 0o600)) }, "b.html") }
	neighbour()
	for range 4 {
		neighbour()
		w.mu.Lock()
		told := w.told("a.html")
		w.mu.Unlock()
		if told {
			t.Error("a page was reported that is being written")
		}
	}
	d.must(f.Close())
	w.until("the page, once it is closed", func() bool { return w.told("a.html") })
	w.expect("a page renamed to its name", func() {
		must.Write(d, filepath.Join(filepath.Dir(d.dir), "aside"), "x")
		d.must(os.Rename(filepath.Join(filepath.Dir(d.dir), "aside"), d.path("b.html")))
	}, "b.html")
}
