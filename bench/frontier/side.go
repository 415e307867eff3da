package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A side is Parley's: a collection and the frontier over it.
type side struct {
	dir    string
	c      *collection.Collection
	front  *frontier.Frontier
	rng    *rand.Rand
	reopen time.Duration
}

// serve executes orders until the input ends.
func serve(dir string, in io.Reader, out io.Writer) error {
	s := &side{dir: dir, rng: rand.New(rand.NewPCG(3, 4))}
	if err := s.open(); err != nil {
		return err
	}
	defer func() { s.c.Close() }()
	r := bufio.NewReaderSize(in, 1<<20)
	answer := json.NewEncoder(out)
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint32(head[1:]))
		var finds []collection.Find
		if head[0] == 'I' {
			var err error
			if finds, err = readFinds(r, n); err != nil {
				return err
			}
		}
		res := result{}
		began, cpu, wrote := time.Now(), cost.Processor(), written()
		err := error(nil)
		switch head[0] {
		case 'I':
			err = s.insert(finds)
			res.Done = n
		case 'R', 'V':
			res.Done, err = s.pop(n, head[0] == 'V')
		case 'S':
			err = s.settle(&res)
		}
		res.Elapsed, res.CPU = time.Since(began), cost.Processor()-cpu
		res.Anon, res.Written = anonymous(), written()-wrote
		if err != nil {
			res.Error = err.Error()
		}
		if err := answer.Encode(res); err != nil {
			return err
		}
	}
}

func readFinds(r io.Reader, n int) ([]collection.Find, error) {
	finds := make([]collection.Find, n)
	var buf [2]byte
	url := make([]byte, 1<<16)
	for i := range finds {
		if _, err := io.ReadFull(r, buf[:]); err != nil {
			return nil, err
		}
		u := url[:binary.LittleEndian.Uint16(buf[:])]
		if _, err := io.ReadFull(r, u); err != nil {
			return nil, err
		}
		finds[i] = collection.Find{URL: string(u), Depth: 1 + i%5, By: collection.ByLink}
	}
	return finds, nil
}

func (s *side) open() (err error) {
	began := time.Now()
	if s.c, err = collection.Open(s.dir, &collection.Options{MaxSites: 1 << 20}); err != nil {
		return err
	}
	if s.front, err = frontier.New(nil, s.c.Queue(), nil); err != nil {
		return err
	}
	s.reopen = time.Since(began)
	return nil
}

func (s *side) insert(finds []collection.Find) error {
	done, err := s.c.Commit(&collection.Commit{Finds: finds})
	if err != nil {
		return err
	}
	if len(done.New) != len(finds) {
		return fmt.Errorf("only %d of %d URLs are new", len(done.New), len(finds))
	}
	s.front.Add(done.Queue)
	return nil
}

// pop takes the first pages of the queue, and records the results of their visits.
func (s *side) pop(n int, visited bool) (int, error) {
	list, err := s.front.Batch(time.Now().UnixMilli(), frontier.BatchOptions{Size: n})
	if err != nil {
		return 0, err
	}
	var t collection.Commit
	var pages []frontier.PageID
	now := time.Now()
	for _, site := range list {
		for _, e := range site.Entries {
			v := collection.Visit{Page: e.Page, Asked: now, Fault: "no answer within 30 s"}
			if visited {
				v = collection.Visit{Page: e.Page, Asked: now, Latency: 80 * time.Millisecond, Took: 100 * time.Millisecond, Status: 200,
					Type: "text/html", ETag: fmt.Sprintf(`"%x"`, s.rng.Uint64()), LastModified: "Tue, 02 Jun 2026 10:11:12 GMT",
					Modified: now.Add(-time.Duration(s.rng.Int64N(1e16))), Title: "Some page of some site", Language: "en"}
				for i := range v.Digest {
					v.Digest[i], v.Parsed[i] = byte(s.rng.Uint32()), byte(s.rng.Uint32())
				}
			}
			t.Visits = append(t.Visits, v)
			pages = append(pages, e.Page)
		}
	}
	done, err := s.c.Commit(&t)
	if err != nil {
		return 0, err
	}
	s.front.Done(pages)
	s.front.Drop(done.Dropped)
	s.front.Add(done.Queue)
	return len(pages), nil
}

// settle records memory and disk use when idle, and reopens the collection.
func (s *side) settle(res *result) error {
	debug.FreeOSMemory()
	res.Settled = anonymous()
	res.Seen = int64(s.c.Memory())
	if err := s.c.Close(); err != nil {
		return err
	}
	res.Disk = diskUse(s.dir)
	s.front = nil
	if err := s.open(); err != nil {
		return err
	}
	res.Reopened = s.reopen
	return nil
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
