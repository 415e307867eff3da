package docroot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/server/internal/docroot"
	"github.com/parleyweb/parley/server/inventory"
)

// A directory that cannot be read does not count as empty.
func TestUnreadableDirectoryIsNotEmpty(t *testing.T) {
	d := newDisk(t, "a.html", "closed/b.html", "closed/deep/c.html", "d/e.html", "f.html")
	for _, dir := range []string{d.dir, filepath.Join(d.dir, ".."), filepath.Join(d.dir, "../..")} { // no further: what follows is not the test's
		d.must(os.Chmod(dir, 0o755))
	}
	d.must(os.Chmod(d.path("closed"), 0))
	d.must(os.Chmod(d.path("f.html"), 0))
	defer os.Chmod(d.path("closed"), 0o755)
	unprivileged(t, d.lookUnreadable)
	d.site = &docroot.Site{Settings: docroot.Settings{Docroot: d.dir, Base: base, Exclude: []string{"/closed/"}}}
	unprivileged(t, func() { // excluded, its pages are known to be left out
		for _, scopes := range [][]inventory.Scope{nil, {{Prefix: base + "closed/"}}, {{Prefix: base + "closed/deep/", Deep: true}}} {
			for o, err := range d.site.Scan(d.Context(), scopes) {
				if err != nil || strings.HasPrefix(o.Place, "closed") && o.LeftOut != "excluded" {
					t.Errorf("%v: %+v, %v", scopes, o, err)
				}
			}
		}
	})
	d.must(os.Chmod(d.dir, 0o711))
	unprivileged(t, func() { d.wantLookError("docroot") })
	d.must(os.Chmod(d.dir, 0o755))
}

// unprivileged runs f so that it cannot read everything, as the superuser can.
func unprivileged(t *testing.T, f func()) {
	if os.Getuid() == 0 {
		if err := syscall.Setresuid(-1, 65534, -1); err != nil { // of all threads
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setresuid(-1, 0, -1); err != nil {
				panic(err)
			}
		}()
	}
	f()
}

func (d *disk) lookUnreadable() {
	for _, scopes := range [][]inventory.Scope{nil, {{Prefix: base + "closed/"}}, {{Prefix: base + "closed/deep/", Deep: true}}} {
		var unseen []string
		for o, err := range d.site.Scan(d.Context(), scopes) {
			var u *inventory.UnseenError
			switch {
			case errors.As(err, &u):
				if unseen = append(unseen, u.Prefix); u.Place != "closed/" {
					d.Errorf("%v: unseen %s", scopes, u.Place)
				}
			case err != nil:
				d.Error(err)
			case strings.HasPrefix(o.Place, "closed/"):
				d.Errorf("%s is offered", o.Place)
			case o.Place == "f.html":
				if r, err := d.site.Read(d.Context(), o); !errors.Is(err, os.ErrPermission) || !r.Digest.IsZero() {
					d.Errorf("read of f.html: %+v, %v", r, err)
				}
			}
		}
		if len(unseen) != 1 || !strings.HasPrefix(base+"closed/deep/", unseen[0]) {
			d.Errorf("%v: unseen %q", scopes, unseen)
		}
	}
}
