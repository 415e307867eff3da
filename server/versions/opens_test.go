package versions_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/versions"
)

// A shelf has the same page at every URL. It counts the open files.
type shelf struct {
	page   []byte
	gate   chan struct{} // reads wait until it is closed; nil: no wait
	open   atomic.Int64
	opened atomic.Int64
}

type lent struct {
	*shelf
	io.Reader
}

func (s *shelf) Open(context.Context, string) (io.ReadCloser, error) {
	s.open.Add(1)
	s.opened.Add(1)
	return lent{s, bytes.NewReader(s.page)}, nil
}

func (l lent) Read(p []byte) (int, error) {
	if l.gate != nil {
		<-l.gate
	}
	return l.Reader.Read(p)
}

func (l lent) Close() error {
	l.shelf.open.Add(-1)
	return nil
}

// For any number of requests for larger pages or deltas, a request that waits for its slot has no file open.
func TestWaitingRequestHasNoOpenFile(t *testing.T) {
	rnd := rand.New(rand.NewPCG(61, 62))
	page := func(ctx context.Context, s *versions.Store, it *protocol.Item) error {
		b, err := s.Page(ctx, it, 4<<20)
		if err == nil && protocol.Sum(b) != it.Digest {
			err = fmt.Errorf("%d other bytes", len(b))
		}
		return err
	}
	version := func(ctx context.Context, s *versions.Store, it *protocol.Item) error {
		_, err := s.Version(ctx, it, 4<<20)
		return err
	}
	delta := func(ctx context.Context, s *versions.Store, it *protocol.Item) error {
		_, err := s.Delta(ctx, it, it.Digest)
		return err
	}
	for _, c := range []struct {
		name       string
		ask        func(context.Context, *versions.Store, *protocol.Item) error
		size, many int

		open  int64 // while reads are blocked
		begun int64 // opened until then
		total int64
	}{
		{"pages", page, 64<<10 + 1, 40, 8, 48, 80},
		{"pages of unknown size", page, -1, 40, 8, 48, 80},
		{"versions", version, 64<<10 + 1, 40, 8, 48, 80},
		{"small pages", page, 64 << 10, 40, 40, 40, 40},
		{"differences", delta, 64<<10 + 1, 10, 2, 14, 30},
		{"differences of small pages", delta, 64 << 10, 10, 2, 12, 20},
		{"differences of large pages", delta, 2<<20 + 1, 3, 1, 5, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			held := &shelf{page: noise(rnd, max(c.size, 1000)), gate: make(chan struct{})}
			s := &versions.Store{Open: held.Open, MaxAtOnce: 2}
			var all sync.WaitGroup
			for n := range c.many {
				it := item(childURL(uint64(n)), held.page)
				it.Length = int64(c.size)
				all.Go(func() {
					if err := c.ask(t.Context(), s, it); err != nil {
						t.Errorf("%s: %v", it.URL, err)
					}
				})
			}
			for end := time.Now().Add(20 * time.Second); held.opened.Load() != c.begun || held.open.Load() != c.open; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Errorf("%d files are open, of %d, during %d requests; want %d of %d", held.open.Load(), held.opened.Load(), c.many, c.open, c.begun)
					break
				}
			}
			close(held.gate)
			all.Wait()
			if open, opened := held.open.Load(), held.opened.Load(); open != 0 || opened != c.total {
				t.Errorf("%d files are open afterwards, of %d, want 0 of %d", open, opened, c.total)
			}
		})
	}
}

// A larger page that is removed while a request waits for its slot is not returned, even if it is stored.
func TestPageRemovedWhileRequestWaits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(63, 64))
	var left atomic.Int64
	held := &shelf{page: noise(rnd, 100_000)}
	s := &versions.Store{Dir: t.TempDir(), Open: func(ctx context.Context, url string) (io.ReadCloser, error) {
		if left.Add(-1) < 0 {
			return nil, fs.ErrNotExist
		}
		return held.Open(ctx, url)
	}}
	s.KeepPage(base, held.page)
	for opens, there := range []bool{false, false, true} {
		left.Store(int64(opens))
		b, err := s.Page(t.Context(), item(base, held.page), 1<<20)
		if !there {
			noVersion(t, fmt.Sprintf("after %d opens", opens), b, err)
		} else if err != nil || !bytes.Equal(b, held.page) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
	if n := held.open.Load(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

// A page is opened once for each request, to prove that it exists. If it cannot be opened for another reason,
// it may be available later.
func TestPageIsOpenedOncePerRequest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(65, 66))
	r := newRig(t, nil)
	var opened atomic.Int64
	var trouble atomic.Value
	r.open(func(s *versions.Store) {
		open := s.Open
		s.Open = func(ctx context.Context, url string) (io.ReadCloser, error) {
			opened.Add(1)
			if err, ok := trouble.Load().(syscall.Errno); ok {
				return nil, &fs.PathError{Op: "open", Path: "index.html", Err: err}
			}
			return open(ctx, url)
		}
	})
	page := text(rnd, 3000)
	r.first(map[string][]byte{"index.html": page})
	f := r.front()
	for _, c := range []struct {
		trouble syscall.Errno
		status  int // 0: as without an error
	}{{0, 0}, {syscall.EACCES, 404}, {syscall.ENOENT, 404}, {syscall.EMFILE, 503}} {
		if c.trouble != 0 {
			trouble.Store(c.trouble)
		}
		for head, status := range map[[2]string]int{
			{"Accept-Encoding", "gzip"}:                200,
			{"If-None-Match", `"` + tagOf(page) + `"`}: 304,
			{"Range", "bytes=0-9"}:                     206,
		} {
			before := opened.Load()
			a := ask(t, f, "GET", "/", head[:]...)
			if n := opened.Load() - before; c.status == 0 && (a.StatusCode != status || n != 1) {
				t.Errorf("%s: %s, and %d opens", head, a.Status, n)
			}
			if c.status != 0 && (a.StatusCode != c.status || a.Header.Get("ETag") != "" || a.Header.Get("Use-As-Dictionary") != "" ||
				(a.Header.Get("Retry-After") != "") != (c.status == 503) || bytes.Contains(a.body, page[:100])) {
				t.Errorf("%v, %s: %s, %v", c.trouble, head, a.Status, a.Header)
			}
		}
	}
}
