package crawl_test

import (
	"os"
	"path/filepath"
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
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := harvest.ReadBatch(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, s := range b.Sites {
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
