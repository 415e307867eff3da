package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parleyweb/parley/server/inventory"
)

// Only the owner of a file may set its time, even if others may write to it.
func TestHealFileOfAnotherOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can use another user")
	}
	w := newWard(t, "a.html")
	w.must(os.Chmod(filepath.Dir(filepath.Dir(w.dir)), 0o755)) // the directory shared by all tests of this kind
	w.must(os.Chmod(w.path("a.html"), 0o666))
	o, err := w.site.Read(t.Context(), w.offer("a.html"))
	w.must(err)
	was := w.second("a.html")

	runtime.LockOSThread() // its user id changes for a moment
	defer runtime.UnlockOSThread()
	w.must(unix.Setfsuid(65534))
	defer unix.Setfsuid(0)
	h, err := w.site.Heal(t.Context(), o, o.Modified.Add(-time.Hour))
	if !errors.Is(err, os.ErrPermission) || errors.Is(err, inventory.ErrChanged) {
		t.Errorf("%v", err)
	}
	if string(h.Stamp) != string(o.Stamp) || !h.Modified.Equal(o.Modified) {
		t.Errorf("%+v", h)
	}
	if s := w.second("a.html"); s != was {
		t.Errorf("the file was healed anyway: %d, %d", s, was)
	}
}
