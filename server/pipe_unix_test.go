//go:build unix

package server_test

import (
	"strings"
	"syscall"
	"testing"
)

// A pipe in the manifest's place does not block.
func TestPublishedPipe(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.must(syscall.Mkfifo(w.out(), 0o600))
	w.restart()
	if _, err := w.pub.Turn(t.Context()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}
