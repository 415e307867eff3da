package harvest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// Limits of a batch that is read from a file.
const (
	maxBatchLine  = 16 << 20  // bytes of a site with its tasks
	maxBatchTasks = 1_000_000 // ten times G12; no more sites than that, either
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

// WriteBatch writes a batch as lines of JSON: one that begins, one for each
// site, and one that ends it. With such a file a harvester can run on a
// machine that has nothing else (V15).
func WriteBatch(w io.Writer, b *Batch) error {
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

// StoreBatch writes a batch of a crawl that began at a time as a file of a directory, as a record of the choices.
func StoreBatch(dir string, b *Batch, began time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%08d.jsonl", began.UTC().Format("20060102T150405"), b.Number))
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	if err := WriteBatch(f, b); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

// ReadBatch reads a batch that WriteBatch has written. For a truncated file the
// error wraps io.ErrUnexpectedEOF. A task whose URL is not of its site's origin is
// an error, too.
func ReadBatch(r io.Reader) (*Batch, error) {
	b, err := readBatch(r)
	if err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	return b, nil
}

func readBatch(r io.Reader) (*Batch, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxBatchLine)
	next := func(v any) error {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return err
			}
			return io.ErrUnexpectedEOF
		}
		return json.Unmarshal(lines.Bytes(), v)
	}
	var head struct {
		Batch *uint64 `json:"batch"`
	}
	if err := next(&head); err != nil {
		return nil, err
	}
	if head.Batch == nil {
		return nil, errors.New("the first line has no batch number")
	}
	b, tasks := &Batch{Number: *head.Batch}, 0
	for {
		var line struct {
			SiteBatch
			End   bool            `json:"end"`
			Sites int             `json:"sites"`
			Tasks json.RawMessage `json:"tasks"`
		}
		if err := next(&line); err != nil {
			return nil, err
		}
		if line.End {
			var n int
			if err := json.Unmarshal(line.Tasks, &n); err != nil || n != tasks || line.Sites != len(b.Sites) {
				return nil, fmt.Errorf("%d tasks of %d sites, but the last line states other numbers", tasks, len(b.Sites))
			}
			return b, nil
		}
		sb := line.SiteBatch
		if err := json.Unmarshal(line.Tasks, &sb.Tasks); err != nil {
			return nil, fmt.Errorf("site %d: %w", sb.Site, err)
		}
		if tasks += len(sb.Tasks); tasks > maxBatchTasks || len(b.Sites) == maxBatchTasks {
			return nil, fmt.Errorf("more than %d tasks or sites", maxBatchTasks)
		}
		if err := sb.check(); err != nil {
			return nil, err
		}
		b.Sites = append(b.Sites, sb)
	}
}

// check refuses tasks that Run would give back without a request.
func (sb *SiteBatch) check() error {
	if _, err := newSite(sb.Origin); err != nil {
		return fmt.Errorf("site %d: %w", sb.Site, err)
	}
	for _, t := range sb.Tasks {
		if _, err := pathOf(sb.Origin, t.URL); err != nil || protocol.Origin(t.URL) != sb.Origin {
			return fmt.Errorf("site %d: %.200q is not a URL of %s", sb.Site, t.URL, sb.Origin)
		}
	}
	return nil
}
