// Pebble is the other side of bench/frontier: the same logical work in an LSM tree, in its idiomatic way. It
// is a module of its own, so that no other package depends on it.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	stateBytes = 40  // of a page without a successful visit
	visitBytes = 180 // of a visited page
)

type result struct {
	Done    int           `json:"done"`
	Elapsed time.Duration `json:"elapsed"`
	CPU     time.Duration `json:"cpu"`
	Written int64         `json:"written"`
	Anon    int64         `json:"anon"`
	Disk    int64         `json:"disk,omitempty"`
	Settled int64         `json:"settled,omitempty"`
	Seen    int64         `json:"seen,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// A side is the pebble process of the benchmark. Its database has page records, by id or by URL, an index of due
// pages, by time and record, and a journal of visits.
type side struct {
	db    *pebble.DB
	byURL bool
	hash  maphash.Seed
	seen  map[uint64]struct{}
	next  uint64
	seq   uint64
	now   uint64 // pages are due in the order of arrival
	rng   *rand.Rand
}

func main() {
	keys := flag.String("keys", "id", "key format: id or url")
	flag.Parse()
	if err := serve(flag.Arg(0), *keys == "url"); err != nil {
		fmt.Fprintln(os.Stderr, "pebble:", err)
		os.Exit(1)
	}
}

func serve(dir string, byURL bool) error {
	cache := pebble.NewCache(128 << 20)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, MemTableSize: 32 << 20, Logger: silent{}})
	if err != nil {
		return err
	}
	defer db.Close()
	s := &side{db: db, byURL: byURL, hash: maphash.MakeSeed(), seen: map[uint64]struct{}{}, rng: rand.New(rand.NewPCG(3, 4))}
	r := bufio.NewReaderSize(os.Stdin, 1<<20)
	answer := json.NewEncoder(os.Stdout)
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint32(head[1:]))
		var urls [][]byte
		if head[0] == 'I' {
			if urls, err = readURLs(r, n); err != nil {
				return err
			}
		}
		var res result
		began, cpu, wrote := time.Now(), processCPU(), written()
		err = nil
		switch head[0] {
		case 'I':
			res.Done, err = s.insert(urls)
		case 'R', 'V':
			res.Done, err = s.pop(n, head[0] == 'V')
		case 'S':
			err = db.Flush()
			debug.FreeOSMemory()
			res.Settled = anonymous()
			if !byURL {
				res.Seen = 17 * int64(len(s.seen)) // as an open-addressing table would need; the map has more
			}
			res.Disk = diskUse(dir)
		}
		res.Elapsed, res.CPU = time.Since(began), processCPU()-cpu
		res.Anon, res.Written = anonymous(), written()-wrote
		if err != nil {
			res.Error = err.Error()
		}
		if err := answer.Encode(res); err != nil {
			return err
		}
	}
}

func readURLs(r io.Reader, n int) ([][]byte, error) {
	urls := make([][]byte, n)
	var size [2]byte
	for i := range urls {
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return nil, err
		}
		urls[i] = make([]byte, binary.LittleEndian.Uint16(size[:]))
		if _, err := io.ReadFull(r, urls[i]); err != nil {
			return nil, err
		}
	}
	return urls, nil
}

// random appends incompressible bytes.
func (s *side) random(b []byte, n int) []byte {
	for range n / 8 {
		b = binary.LittleEndian.AppendUint64(b, s.rng.Uint64())
	}
	return append(b, make([]byte, n%8)...)
}

func (s *side) insert(urls [][]byte) (int, error) {
	b := s.db.NewBatch()
	defer b.Close()
	done := 0
	var key, value, due []byte
	for _, u := range urls {
		s.next++
		if s.byURL {
			key = append(append(key[:0], 'u'), u...)
			if _, closer, err := s.db.Get(key); err == nil {
				closer.Close()
				continue
			} else if !errors.Is(err, pebble.ErrNotFound) {
				return 0, err
			}
			value = s.random(value[:0], stateBytes)
		} else {
			h := maphash.Bytes(s.hash, u)
			if _, ok := s.seen[h]; ok {
				continue
			}
			s.seen[h] = struct{}{}
			key = binary.BigEndian.AppendUint64(append(key[:0], 'u'), s.next)
			value = append(s.random(value[:0], stateBytes), u...)
		}
		s.now++
		due = append(binary.BigEndian.AppendUint64(append(due[:0], 'd'), s.now), key...)
		if err := b.Set(key, value, nil); err != nil {
			return 0, err
		}
		if err := b.Set(due, nil, nil); err != nil {
			return 0, err
		}
		done++
	}
	return done, b.Commit(pebble.Sync)
}

func (s *side) pop(n int, visited bool) (int, error) {
	b := s.db.NewBatch()
	defer b.Close()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{'d'}, UpperBound: []byte{'d' + 1}})
	if err != nil {
		return 0, err
	}
	defer it.Close()
	done := 0
	var value, due, note []byte
	for ok := it.First(); ok && done < n; ok = it.Next() {
		key := it.Key()[9:]
		old, closer, err := s.db.Get(key)
		if err != nil {
			return 0, err
		}
		size := stateBytes
		if visited {
			size = visitBytes
		}
		value = s.random(value[:0], size)
		if !s.byURL {
			value = append(value, old[stateBytes:]...)
		}
		closer.Close()
		s.now++
		due = append(binary.BigEndian.AppendUint64(append(due[:0], 'd'), s.now), key...)
		if err := b.Delete(it.Key(), nil); err != nil {
			return 0, err
		}
		if err := b.Set(key, value, nil); err != nil {
			return 0, err
		}
		if err := b.Set(due, nil, nil); err != nil {
			return 0, err
		}
		if visited { // an event for an indexer: the change, with the URL and a digest
			s.seq++
			note = binary.BigEndian.AppendUint64(append(note[:0], 'j'), s.seq)
			if err := b.Set(note, value, nil); err != nil {
				return 0, err
			}
		}
		done++
	}
	if err := it.Error(); err != nil {
		return 0, err
	}
	return done, b.Commit(pebble.Sync)
}

func processCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func diskUse(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

func anonymous() int64 { return procNumber("/proc/self/status", "RssAnon:") << 10 }

func written() int64 { return procNumber("/proc/self/io", "wchar:") }

func procNumber(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pebble: "+format+"\n", args...)
	os.Exit(1)
}
