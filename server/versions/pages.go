package versions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

var _ server.Pages = (*Store)(nil)

const (
	maxOpens  = 8       // pages that are read at one time
	largePage = 2 << 20 // bytes: differences of larger ones are computed one at a time
)

func (s *Store) prepare() {
	n := s.MaxAtOnce
	if n < 1 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	s.small, s.large, s.opens = make(chan struct{}, n), make(chan struct{}, 1), make(chan struct{}, maxOpens)
	s.recent.max = orElse(s.MaxMemory, 64<<20)
}

// take waits for a token; its caller gives it back by reading from tokens.
func take(ctx context.Context, tokens chan struct{}) error {
	select {
	case tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Page returns the bytes of a version of a page, as [server.Pages] says: as
// they were kept, or as they stand there now. They are not to be changed.
func (s *Store) Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	s.ready()
	max = min(max, s.maxPage())
	if item.Length > max || item.Digest.IsZero() || !s.public(item.URL) {
		return nil, fmt.Errorf("page %s of %d bytes: %w", item.URL, item.Length, server.ErrNoVersion)
	}
	page, err := s.page(ctx, item.URL, item.Digest)
	if err == nil && int64(len(page)) > max {
		return nil, fmt.Errorf("page %s of %d bytes: %w", item.URL, len(page), server.ErrNoVersion)
	}
	return page, err
}

func (s *Store) page(ctx context.Context, url string, d protocol.Digest) ([]byte, error) {
	key := versionKey{id: idOf(url), digest: d}
	if b, ok := s.recent.get(key); ok {
		return b, nil
	}
	return s.loads.do(ctx, key, func() ([]byte, error) {
		if err := take(ctx, s.opens); err != nil {
			return nil, err
		}
		defer func() { <-s.opens }()
		b, err := s.read(ctx, url, d)
		if err != nil {
			return nil, err
		}
		s.recent.put(key, b)
		return b, nil
	})
}

// read returns a version from where it is.
func (s *Store) read(ctx context.Context, url string, d protocol.Digest) ([]byte, error) {
	if b, ok := s.get(idOf(url), d); ok {
		return b, nil
	}
	now, err := s.standing(ctx, url)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && protocol.Sum(now) == d:
		return now, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errLarge):
		s.log().Debug("a page cannot be read", "url", url, "err", err)
	}
	return nil, fmt.Errorf("page %s: %w", url, server.ErrNoVersion)
}

// standing returns what stands at a URL at this moment, whatever it is.
func (s *Store) standing(ctx context.Context, url string) ([]byte, error) {
	if s.Open == nil {
		return nil, fs.ErrNotExist
	}
	r, err := s.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAll(r, s.maxPage())
}

// errNotWorth is what is remembered of a difference that is no smaller than the page.
var errNotWorth = fmt.Errorf("it is no smaller than the page: %w", server.ErrNoVersion)

// Delta returns what leads from an earlier version of a page, or the same one,
// to that of item, as [server.Pages] says. It is worth it if it is smaller than
// the page compressed by gzip. It is computed once, and remembered as long as
// there is room. It is not to be changed.
func (s *Store) Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) (delta []byte, err error) {
	s.ready()
	defer func() { s.asked(err) }()
	id := idOf(item.URL)
	if item.Digest.IsZero() || base.IsZero() || item.Length > s.maxPage() || !s.public(item.URL) || base != item.Digest && !s.has(id, base, true) {
		return nil, fmt.Errorf("difference of %s against %v: %w", item.URL, base, server.ErrNoVersion)
	}
	key := deltaKey{id, base, item.Digest}
	delta, ok := s.recent.get(key)
	if !ok {
		delta, err = s.works.do(ctx, key, func() ([]byte, error) { return s.delta(ctx, item, key) })
	}
	if err == nil && delta == nil {
		err = errNotWorth
	}
	if err != nil {
		return nil, fmt.Errorf("difference of %s: %w", item.URL, err)
	}
	return delta, nil
}

// asked counts a difference that was asked for.
func (s *Store) asked(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.given++
	case errors.Is(err, server.ErrNoVersion):
		s.refused++
	}
}

// delta computes a difference. It is nil if it is not worth it.
func (s *Store) delta(ctx context.Context, item *protocol.Item, key deltaKey) ([]byte, error) {
	tokens := s.small
	if item.Length < 0 || item.Length > largePage {
		tokens = s.large
	}
	// Whoever waits for his turn holds no pages.
	if err := take(ctx, tokens); err != nil {
		return nil, err
	}
	defer func() { <-tokens }()
	page, err := s.page(ctx, item.URL, item.Digest)
	if err != nil {
		return nil, err
	}
	base := page
	if key.base != key.now {
		if base, err = s.page(ctx, item.URL, key.base); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.deltas++
	s.mu.Unlock()
	delta, err := coding.Delta(base, page)
	if err != nil && !errors.Is(err, coding.ErrDeltaSize) {
		s.log().Warn("a difference cannot be made", "url", item.URL, "err", err)
	}
	if err != nil || len(delta) >= len(page) || len(delta) >= len(s.gzip(page)) {
		delta = nil
	}
	s.recent.put(key, delta)
	return delta, nil
}

// gzip returns a page as it is sent to most.
func (s *Store) gzip(page []byte) []byte {
	p, _ := s.gzips.Get().(*coding.Packer)
	if p == nil {
		var err error
		if p, err = coding.NewPacker("gzip"); err != nil {
			panic("versions: " + err.Error()) // it knows gzip
		}
	}
	defer s.gzips.Put(p)
	return p.Append(nil, page)
}

// packed returns a page in a coding, "gzip" or "zstd", and nil if it would not
// be smaller. The page has digest d.
func (s *Store) packed(ctx context.Context, url string, d protocol.Digest, page []byte, name string) ([]byte, error) {
	key := versionKey{idOf(url), d, name}
	b, ok := s.recent.get(key)
	if ok {
		return b, nil
	}
	return s.loads.do(ctx, key, func() ([]byte, error) {
		if err := take(ctx, s.opens); err != nil {
			return nil, err
		}
		defer func() { <-s.opens }()
		var b []byte
		if name == "gzip" {
			b = s.gzip(page)
		} else {
			b = s.zstd(page)
		}
		if len(b) >= len(page) {
			b = nil
		}
		s.recent.put(key, b)
		return b, nil
	})
}

func (s *Store) zstd(page []byte) []byte {
	p, _ := s.packers.Get().(*coding.Packer)
	if p == nil {
		var err error
		if p, err = coding.NewPacker("zstd"); err != nil {
			panic("versions: " + err.Error()) // it knows zstd
		}
	}
	defer s.packers.Put(p)
	return p.Append(nil, page)
}

// A seekingFile is a file that can be sent from its middle.
type seekingFile interface {
	fs.File
	io.Seeker
}

// youth is how long ago a file must have been written for its date to say that
// it was not written since.
const youth = 2 * time.Second

// isVersion reports whether a file is the version that item says, and
// remembers that for as long as the file is not touched. It leaves the file at
// its beginning.
func (s *Store) isVersion(ctx context.Context, item *protocol.Item, f seekingFile) (bool, error) {
	s.ready()
	before, err := f.Stat()
	if err != nil || before.Size() != item.Length {
		return false, err
	}
	key := versionKey{idOf(item.URL), item.Digest, fmt.Sprintf("file of %d at %d", before.Size(), before.ModTime().UnixNano())}
	said, ok := s.recent.get(key)
	if !ok {
		said, err = s.loads.do(ctx, key, func() ([]byte, error) {
			if err := take(ctx, s.opens); err != nil {
				return nil, err
			}
			defer func() { <-s.opens }()
			sum := sha256.New()
			if _, err := io.Copy(sum, withContext{ctx, f}); err != nil {
				return nil, err
			}
			after, err := f.Stat()
			if err != nil {
				return nil, err
			}
			said := []byte("no")
			if bytes.Equal(sum.Sum(nil), item.Digest[:]) && after.ModTime().Equal(before.ModTime()) {
				said = []byte("yes")
			}
			if time.Since(before.ModTime()) > youth {
				s.recent.put(key, said)
			}
			return said, nil
		})
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
	}
	return string(said) == "yes", err
}

// withContext reads until its context ends.
type withContext struct {
	ctx context.Context
	r   io.Reader
}

func (c withContext) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
