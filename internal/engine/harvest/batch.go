package harvest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// batchHead is the first line of a batch as a file, and batchEnd the last,
// without which it is not whole.
type batchHead struct {
	Batch uint64 `json:"batch"`
}

type batchEnd struct {
	End   bool `json:"end"`
	Sites int  `json:"sites"`
	Tasks int  `json:"tasks"`
}

func writeBatch(w io.Writer, b *Batch) error {
	buf := bufio.NewWriter(w)
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	err := e.Encode(batchHead{b.Number})
	end := batchEnd{End: true, Sites: len(b.Sites)}
	for i := range b.Sites {
		err = cmp.Or(err, e.Encode(&b.Sites[i]))
		end.Tasks += len(b.Sites[i].Tasks)
	}
	err = cmp.Or(err, e.Encode(end), buf.Flush())
	if err != nil {
		return fmt.Errorf("write batch %d: %w", b.Number, err)
	}
	return nil
}

// StoreBatch writes a batch of a crawl that began at a time into a file of the directory: a line of JSON that begins it, one for each
// site, and one that ends it. The file records what was chosen, and is all that a harvester needs, on any machine (V15).
func StoreBatch(dir string, b *Batch, began time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%08d.jsonl", began.UTC().Format("20060102T150405"), b.Number))
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	if err := writeBatch(f, b); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}
