//go:build unix

package manifest_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// The web server may run as another user: it can read the parts, whatever the umask of the writer is.
func TestPartsAreReadableUnderAnyUmask(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 500)
	was := syscall.Umask(0o077)
	defer syscall.Umask(was)
	r.write()
	for _, name := range append(r.files(), r.path()+".parts") {
		info := must.Get(os.Stat(name))
		want := os.FileMode(0o644)
		if info.IsDir() {
			want = 0o755
		}
		if mode := info.Mode().Perm(); mode != want {
			t.Errorf("%s has mode %o, not %o", name, mode, want)
		}
	}
}
