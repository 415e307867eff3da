package endtoend

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// The README stays short, and no page links to a missing file.
func TestManualPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		pages = append(pages, "../../"+name)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range pages {
		text := must.Get(os.ReadFile(page))
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
		if n := len(strings.Fields(string(text))); strings.HasSuffix(page, "README.md") && n > 900 {
			t.Errorf("%s has %d words, want at most 900", page, n)
		}
	}
}
