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
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

var (
	_ server.Pages    = (*Store)(nil)
	_ server.Presence = (*Store)(nil)
)

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

// Page returns the bytes of a page, as [server.Pages] says, if the page is
// there and item is what the journal says of it: what it held before is to be had as
// the base of a difference, and by Version. They are not to be changed.
func (s *Store) Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	is, err := s.there(ctx, item.URL)
	if err != nil {
		return nil, fmt.Errorf("page %s: %w", item.URL, err)
	}
	if s.Journal != nil && is != item.Digest {
		return nil, fmt.Errorf("page %s as it was: %w", item.URL, server.ErrNoVersion)
	}
	return s.bytesOf(ctx, item, max)
}

// Version returns the bytes of a page as it is, or as it was: as they were
// kept, or as they stand there now. Of a page that is gone, or vanished, it
// returns none. It is for those whom the site trusts with what a page held
// before, and is otherwise as Page.
func (s *Store) Version(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	if _, err := s.there(ctx, item.URL); err != nil {
		return nil, fmt.Errorf("version of %s: %w", item.URL, err)
	}
	return s.bytesOf(ctx, item, max)
}

// Present reports whether Page may give what item is, as far as it is to be had:
// whoever keeps the bytes for those who ask next asks this first. See [server.Presence].
func (s *Store) Present(item *protocol.Item) bool {
	is, err := s.there(context.Background(), item.URL)
	return err == nil && (s.Journal == nil || is == item.Digest) && s.public(item.URL)
}

// there returns the digest of a page that is there, and can be opened. Whoever
// takes a page away, or from the notifier, means its bytes too, even while that
// is not announced yet, or is not to be; so the error wraps server.ErrNoVersion.
func (s *Store) there(ctx context.Context, url string) (protocol.Digest, error) {
	if err := s.opened(ctx, url); err != nil {
		return protocol.Digest{}, err
	}
	if s.Journal == nil {
		return protocol.Digest{}, nil
	}
	e, ok, err := s.Journal.Get(url)
	switch {
	case err != nil:
		return protocol.Digest{}, err
	case !ok || !e.Held.IsZero():
		return protocol.Digest{}, fmt.Errorf("it is gone: %w", server.ErrNoVersion)
	}
	return e.Item.Digest, nil
}

// opened opens what stands at a URL now, and closes it again: what cannot be
// opened is given to nobody, however well it may have been kept. The error wraps
// server.ErrNoVersion, and fs.ErrNotExist or fs.ErrPermission if it is that.
func (s *Store) opened(ctx context.Context, url string) error {
	if s.Open == nil {
		return nil
	}
	f, err := s.Open(ctx, url)
	switch {
	case err == nil:
		f.Close()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, fs.ErrNotExist):
		s.log().Debug("a page cannot be opened", "url", url, "err", err)
	}
	return fmt.Errorf("it cannot be opened: %w: %w", server.ErrNoVersion, err)
}

func (s *Store) bytesOf(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
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
		since := s.recent.since()
		b, err := s.read(ctx, url, d)
		if err != nil {
			return nil, err
		}
		s.recent.put(key, b, since)
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
// to that of item, as [server.Pages] says, which is to be the present one: what
// was between is told to nobody. It is worth it if it is smaller than the page
// compressed by gzip. It is computed once, and remembered as long as there is
// room. It is not to be changed.
func (s *Store) Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) (delta []byte, err error) {
	s.ready()
	defer func() { s.asked(err) }()
	is, err := s.there(ctx, item.URL)
	if err == nil && s.Journal != nil && is != item.Digest {
		err = fmt.Errorf("it was so: %w", server.ErrNoVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("difference of %s: %w", item.URL, err)
	}
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
	since := s.recent.since()
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
	s.recent.put(key, delta, since)
	return delta, nil
}

// press returns a page in a coding. Packers of that coding are kept in pool.
func press(pool *sync.Pool, coded string, page []byte) []byte {
	p, _ := pool.Get().(*coding.Packer)
	if p == nil {
		var err error
		if p, err = coding.NewPacker(coded); err != nil {
			panic("versions: " + err.Error()) // gzip and zstd are known
		}
	}
	defer pool.Put(p)
	return p.Append(nil, page)
}

// gzip returns a page as it is sent to most.
func (s *Store) gzip(page []byte) []byte { return press(&s.gzips, "gzip", page) }

func (s *Store) zstd(page []byte) []byte { return press(&s.packers, "zstd", page) }

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
		since := s.recent.since()
		var b []byte
		if name == "gzip" {
			b = s.gzip(page)
		} else {
			b = s.zstd(page)
		}
		if len(b) >= len(page) {
			b = nil
		}
		s.recent.put(key, b, since)
		return b, nil
	})
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
			since := s.recent.since()
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
				s.recent.put(key, said, since)
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
