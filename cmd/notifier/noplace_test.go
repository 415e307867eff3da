package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// If the paths for archives or for crawlers' programs are unusable, those forms are not offered; everything
// else works as usual.
func TestUnusableDirectoriesDisableForms(t *testing.T) {
	callers := filepath.Join(t.TempDir(), "callers")
	must.Write(t, callers, "NiceBot 0123456789abcdefnice agents\n")
	s := startSidecar(t, map[string]string{"index.html": text("one"), "../state.archive": "x", "../state.agents": "x", "../state.versions": "x"},
		"--preset", "high", "--trust-docroot", "--callers", callers)
	for _, name := range []string{"archive", "agents", "versions"} {
		if b, err := os.ReadFile(s.state + "." + name); err != nil || !bytes.Equal(b, []byte("x")) {
			t.Fatalf("%s is not where this test puts it: %q, %v", name, b, err)
		}
	}
	d := s.found()
	if d.Site != "" || d.Agents != "" || slices.Contains(d.Forms, protocol.AsSite) || d.Batch == "" {
		t.Errorf("found %+v", d)
	}
	s.write("index.html", text("two"))
	until(t, func() bool {
		m := s.changes(d.Head, "&as=page")
		return len(m.Bodies) == 1 && string(m.Bodies[0].Bytes) == text("two")
	})
}
