package docroot_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// A page of any size is opened completely and can be read again from any offset; a file that is not regular
// is not opened, and closing a page twice closes nothing else.
func TestOpenPageWhole(t *testing.T) {
	d := newDisk(t)
	d.must(os.Mkdir(d.path("dir.html"), 0o755))
	for name, size := range map[string]int{"empty.html": 0, "small.html": 3000, "edge.html": 64 << 10, "large.html": 64<<10 + 1} {
		want := strings.Repeat("0123456789", size/10+1)[:size]
		must.Write(d, d.path(name), want)
		r, err := d.site.OpenPage(t.Context(), base+name)
		d.must(err)
		for _, from := range []int{0, size / 2} {
			if at, err := r.(io.Seeker).Seek(int64(from), io.SeekStart); err != nil || at != int64(from) {
				t.Errorf("%s: at %d, %v", name, at, err)
			}
			if b, err := io.ReadAll(r); err != nil || string(b) != want[from:] {
				t.Errorf("%s from %d: %d bytes, %v", name, from, len(b), err)
			}
		}
		d.must(r.Close())
		other, err := os.Open(d.path("dir.html")) // it reuses the free file descriptor
		d.must(err)
		if err := r.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: closed twice: %v", name, err)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("%s: read after it was closed: %v", name, err)
		}
		if _, err := other.Stat(); err != nil {
			t.Errorf("%s: another file was closed: %v", name, err)
		}
		d.must(other.Close())
	}
	if _, err := d.site.OpenPage(t.Context(), base+"dir.html"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
}

// Pages opened one after the other share an open docroot, but none is read from a docroot older than the last
// scan.
func TestOpenPageIsNoOlderThanLastScan(t *testing.T) {
	d := newDisk(t)
	releases := filepath.Dir(d.dir)
	d.must(os.Remove(d.dir))
	for _, name := range []string{"1", "2", "3"} {
		d.must(os.Mkdir(filepath.Join(releases, name), 0o755))
		must.Write(d, filepath.Join(releases, name, "a.html"), name)
		d.must(os.Symlink(name, d.dir+".new"))
		d.must(os.Rename(d.dir+".new", d.dir)) // as a deployment does it
		d.look()
		for range 3 {
			r := must.Get(d.site.OpenPage(t.Context(), base+"a.html"))
			b := must.Get(io.ReadAll(r))
			d.must(r.Close())
			if string(b) != name {
				t.Errorf("after a scan of release %s the page is of release %s", name, b)
			}
		}
	}
}
