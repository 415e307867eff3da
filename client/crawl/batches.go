package crawl

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
)

// writeBatch stores a batch as a file of a directory before it is fetched, as a record of the choices.
// harvest.ReadBatch reads it, here or on a machine that has nothing else (V15).
func writeBatch(dir string, b *harvest.Batch, began time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%08d.jsonl", began.UTC().Format("20060102T150405"), b.Number))
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	if err := harvest.WriteBatch(f, b); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}
