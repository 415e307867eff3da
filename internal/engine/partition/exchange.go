package partition

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/protocol"
)

// A Find is a URL that one crawler has found for another. In a file it is a line of JSON.
type Find struct {
	Partition int    `json:"-"`     // that has its host
	URL       string `json:"url"`   // at most protocol.MaxURL bytes
	Depth     int    `json:"depth"` // links from a start page
}

// An Exchange is a directory that all crawlers can write to, such as one on a file server. It has a directory for each partition, named by its
// number, and in that a file for each batch of finds, named by the sender and a random word:
//
//	5/2-K4PZQ2WBXV7MAD6EHJ3NT5UCRS.jsonl
//
// A file appears complete, and the crawler that it is for removes it once its finds are stored. After a crash a batch may be sent or
// taken in twice, which changes nothing: the URLs are known then.
type Exchange struct {
	Dir string
	Partition
}

// MostFinds is how many finds a file has at most. With the longest URLs, each byte of them escaped, it is shorter than what Read reads.
const MostFinds = 1000

const (
	mostFile  = 64 << 20 // bytes of a file that are read
	extension = ".jsonl"
)

// Send writes at most MostFinds finds for other partitions, and returns once they are on the disk.
func (x *Exchange) Send(finds []Find) error {
	texts := map[int]*bytes.Buffer{}
	for _, f := range finds {
		if texts[f.Partition] == nil {
			texts[f.Partition] = new(bytes.Buffer)
		}
		line, err := json.Marshal(f)
		if err != nil {
			return fmt.Errorf("send %.200q: %w", f.URL, err)
		}
		texts[f.Partition].Write(append(line, '\n'))
	}
	for to, text := range texts {
		dir := x.box(to)
		err := os.MkdirAll(dir, 0o777)
		if err == nil {
			err = atomicfile.Write(filepath.Join(dir, fmt.Sprintf("%d-%s%s", x.Number, rand.Text(), extension)), text.String(), 0o666)
		}
		if err != nil {
			return fmt.Errorf("send URLs to partition %d: %w", to, err)
		}
	}
	return atomicfile.SyncDir(x.Dir) // which may have new directories
}

func (x *Exchange) box(partition int) string { return filepath.Join(x.Dir, strconv.Itoa(partition)) }

// Waiting returns the files for this partition.
func (x *Exchange) Waiting() (files []string, err error) {
	box := x.box(x.Number)
	list, err := os.ReadDir(box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), extension) && e.Type().IsRegular() {
			files = append(files, filepath.Join(box, e.Name()))
		}
	}
	return files, err
}

// Read returns the finds of a file. With an error it returns those before it; the error wraps an *fs.PathError if the file cannot be read, and none if
// it is damaged.
func Read(file string) ([]Find, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	finds, err := parse(io.LimitReader(f, mostFile))
	if err != nil {
		err = fmt.Errorf("read %s: %w", file, err)
	}
	return finds, err
}

// parse reads lines of JSON. No line is longer than that of the longest URL with each byte escaped.
func parse(r io.Reader) (finds []Find, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 6*protocol.MaxURL+100)
	for n := 1; lines.Scan(); n++ {
		var f Find
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return finds, fmt.Errorf("line %d: %w", n, err)
		}
		if f.URL == "" || len(f.URL) > protocol.MaxURL || f.Depth < 0 {
			return finds, fmt.Errorf("line %d: want a url of at most %d bytes, and a depth of 0 or more", n, protocol.MaxURL)
		}
		if len(finds) == MostFinds {
			return finds, fmt.Errorf("line %d: more than %d URLs", n, MostFinds)
		}
		finds = append(finds, f)
	}
	return finds, lines.Err()
}
