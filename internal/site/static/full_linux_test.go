package static_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A full disk is an error, every file stays as it was, and no other files are left. The disk is simulated by
// a limit on this process's file size.
func TestFullDiskChangesNothing(t *testing.T) {
	if os.Getenv(childDir) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFullDiskChangesNothing$")
		cmd.Env = append(os.Environ(), childDir+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	w := newWeb(t)
	w.pages(400)
	s := w.sitemap()
	s.MaxURLs, s.Precompress = 250, true
	must.Get(s.Write(t.Context(), w.journal))
	w.step(protocol.Create, webBase+"p/new.html", "", -1, "x")
	was := w.look()
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	var before syscall.Rlimit
	w.must(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	for _, size := range []uint64{0, 500, 8 << 10, 20 << 10} {
		w.must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}))
		wrote, err := s.Write(t.Context(), w.journal)
		w.must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		if err == nil || wrote || !strings.Contains(err.Error(), filepath.Join(w.root, "sitemap")) {
			t.Errorf("room for %d bytes: %v, %v", size, wrote, err)
		}
		if n := was.touched(w.look()); len(n) > 0 {
			t.Errorf("room for %d bytes: touched %v", size, n)
		}
	}
	must.Get(s.Write(t.Context(), w.journal))
	w.wantListed("afterwards")
}
