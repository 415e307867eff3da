package crawl_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/harvest"
)

// Batches are stored as files that a harvester can read: each page is in exactly one (V15).
func TestBatchFiles(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home", "/a", "/b"), "/a": page("a", "/c"), "/b": page("b"), "/c": page("c")})
	dir := t.TempDir()
	col := open(t, filepath.Join(dir, "crawl"))
	defer col.Close()
	c := crawler(col, w.URL+"/")
	c.Batches = filepath.Join(dir, "batches")
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "batches", "*"))
	pages := map[string]int{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, line := range lines[1 : len(lines)-1] {
			var s harvest.SiteBatch
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
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
