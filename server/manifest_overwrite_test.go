package server_test

import (
	"os"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// If a page exists at the manifest's path, the page is kept.
func TestManifestDoesNotReplaceHTMLPage(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "1")
	const page = "<!DOCTYPE HTML>\n<title>ours</title>"
	must.Write(w, w.out(), page)
	if _, err := w.pub.Turn(t.Context()); err == nil || !strings.Contains(err.Error(), "an HTML page") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(w.out()); err != nil || string(b) != page {
		t.Errorf("%v: the page is %q now", err, b)
	}
	must.Write(w, w.out(), "half a mani")
	w.turn()
}
