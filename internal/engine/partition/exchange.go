package partition

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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

// A Carrier takes URLs to the crawlers of other partitions, and brings those for this one. It is for one goroutine.
type Carrier interface {
	// Send returns once the finds are stored where the other crawlers get them.
	Send(finds []Find) error

	// Receive calls store with the finds that have come, in batches, and forgets each batch once store has returned nil. Of a damaged
	// batch it calls store with those before the damage, too.
	Receive(ctx context.Context, store func(finds []Find, damaged error) error) error
}

// MostFinds is how many finds a file or message has at most.
const MostFinds = 1000

// Pack returns the finds as batches of lines of JSON, each for one partition and of at most so many bytes, unless a single find is longer.
func Pack(finds []Find, most int) iter.Seq2[int, []byte] {
	return func(yield func(to int, text []byte) bool) {
		of := map[int][]Find{}
		for _, f := range finds {
			of[f.Partition] = append(of[f.Partition], f)
		}
		for to, finds := range of {
			var text []byte
			n := 0
			for _, f := range finds {
				line, err := json.Marshal(f)
				if err != nil {
					panic("partition: " + err.Error()) // a Find has nothing that JSON has not
				}
				if n == MostFinds || n > 0 && len(text)+len(line) >= most {
					if !yield(to, text) {
						return
					}
					text, n = nil, 0
				}
				text, n = append(append(text, line...), '\n'), n+1
			}
			if !yield(to, text) {
				return
			}
		}
	}
}

// An Exchange is a Carrier: a directory that all crawlers can write to, such as one on a file server. It has a directory for each
// partition, named by its number, and in that a file for each batch, named by the sender and a random word:
//
//	5/2-K4PZQ2WBXV7MAD6EHJ3NT5UCRS.jsonl
//
// A file appears complete, and the crawler that it is for removes it once its finds are stored. After a crash a batch may be sent or
// taken in twice, which changes nothing: the URLs are known then.
type Exchange struct {
	Dir string
	Partition
}

const (
	mostFile  = 64 << 20 // bytes of a file
	extension = ".jsonl"
)

// Send implements Carrier.
func (x *Exchange) Send(finds []Find) error {
	for to, text := range Pack(finds, mostFile) {
		dir := x.box(to)
		err := os.MkdirAll(dir, 0o777)
		if err == nil {
			err = atomicfile.Write(filepath.Join(dir, fmt.Sprintf("%d-%s%s", x.Number, rand.Text(), extension)), string(text), 0o666)
		}
		if err != nil {
			return fmt.Errorf("send URLs to partition %d: %w", to, err)
		}
	}
	return atomicfile.SyncDir(x.Dir) // which may have new directories
}

func (x *Exchange) box(partition int) string { return filepath.Join(x.Dir, strconv.Itoa(partition)) }

// Receive implements Carrier. A file that is damaged is set aside, under another name.
func (x *Exchange) Receive(_ context.Context, store func([]Find, error) error) error {
	box := x.box(x.Number)
	list, err := os.ReadDir(box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		if err == nil && strings.HasSuffix(e.Name(), extension) && e.Type().IsRegular() {
			err = take(filepath.Join(box, e.Name()), store)
		}
	}
	return err
}

func take(name string, store func([]Find, error) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	finds, damaged := Unpack(io.LimitReader(f, mostFile))
	if errors.As(damaged, new(*fs.PathError)) {
		return damaged // which says nothing about what is in the file
	}
	if damaged != nil {
		damaged = fmt.Errorf("read %s: %w", name, damaged)
	}
	if err := store(finds, damaged); err != nil {
		return err
	}
	if damaged != nil {
		return os.Rename(name, name+".damaged")
	}
	return os.Remove(name)
}

// Unpack returns the finds of a batch, without their partition. With an error it returns those before it. No line is longer than that of the longest
// URL with each byte escaped.
func Unpack(r io.Reader) (finds []Find, err error) {
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
