package server_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Pages that are opened one after the other share a docroot; but none of them
// is from before the last look, which told what it is.
func TestOpenPageAfterALookIsNoOlder(t *testing.T) {
	d := newDocroot(t)
	releases := filepath.Dir(d.dir)
	d.must(os.Remove(d.dir))
	for _, name := range []string{"1", "2", "3"} {
		d.must(os.Mkdir(filepath.Join(releases, name), 0o755))
		d.must(os.WriteFile(filepath.Join(releases, name, "a.html"), []byte(name), 0o644))
		d.must(os.Symlink(name, d.dir+".new"))
		d.must(os.Rename(d.dir+".new", d.dir)) // as a deployment does it
		d.look()
		for range 3 {
			r, err := d.site.OpenPage(t.Context(), base+"a.html")
			d.must(err)
			b, err := io.ReadAll(r)
			d.must(err)
			d.must(r.Close())
			if string(b) != name {
				t.Errorf("after a look at release %s the page is that of release %s", name, b)
			}
		}
	}
}
