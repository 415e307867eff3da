package crawl_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
)

// Batches are stored as files that a harvester can read: each page is in exactly one (V15).
func TestBatchFiles(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home", "/a", "/b"), "/a": page("a", "/c"), "/b": page("b"), "/c": page("c")})
	c := crawler(t, "", w.URL+"/")
	c.Batches = t.TempDir()
	finish(t, c)
	names, _ := filepath.Glob(filepath.Join(c.Batches, "*"))
	pages := map[string]int{}
	for _, name := range names {
		text := must.Get(os.ReadFile(name))
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, line := range lines[1 : len(lines)-1] {
			var s harvest.SiteBatch
			must.OK(t, json.Unmarshal([]byte(line), &s))
			for _, task := range s.Tasks {
				if task.Page != 0 {
					pages[task.URL]++
				}
			}
		}
	}
	if len(pages) != 4 || pages[w.URL+"/c"] != 1 {
		t.Errorf("%d files have %v", len(names), pages)
	}
}
