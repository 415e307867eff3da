package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

var _ content.Pages = (*Store)(nil)

const (
	smallPage = 64 << 10 // bytes: pages up to this size are not cached, since reading them again is about as fast
	largePage = 2 << 20  // bytes: differences of larger pages are computed one at a time
)

// Page returns the bytes of a page, as [content.Pages] says, if the page exists
// and item is the current version by the journal: former versions are available
// only as the base of a difference, and by Version. Do not modify the bytes.
func (s *Store) Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	f, err := s.isThere(ctx, item)
	if err != nil {
		return nil, fmt.Errorf("page %s: %w", item.URL, err)
	}
	return s.bytesOf(ctx, item, max, f)
}

// Version returns the bytes of the current version of a page, or of a stored
// former one. For a page that is gone, or has vanished, it returns an error. It is
// for readers whom the site trusts with former versions, and otherwise like Page.
func (s *Store) Version(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	_, f, err := s.there(ctx, item.URL)
	if err != nil {
		return nil, fmt.Errorf("version of %s: %w", item.URL, err)
	}
	return s.bytesOf(ctx, item, max, f)
}

// Present reports whether Page may return the bytes of item, without reading them: a
// caller that caches the bytes calls it before each use. See [content.Pages].
func (s *Store) Present(item *protocol.Item) bool {
	f, err := s.isThere(context.Background(), item)
	if err != nil {
		return false
	}
	f.Close()
	return s.public(item.URL)
}

// isThere opens a page that exists and whose digest by the journal is that of item.
// The error wraps content.ErrNoVersion, except for errors of the journal or of ctx.
func (s *Store) isThere(ctx context.Context, item *protocol.Item) (io.ReadCloser, error) {
	is, f, err := s.there(ctx, item.URL)
	if err == nil && s.Journal != nil && is != item.Digest {
		f.Close()
		return nil, fmt.Errorf("it has changed: %w", content.ErrNoVersion)
	}
	return f, err
}

// there opens a page that exists, and returns its digest if there is a journal. A
// page that was removed, or is unreadable for the notifier, is refused with an error
// that wraps content.ErrNoVersion even before its deletion is announced, or if it never
// is: its owner means the bytes too. The file is opened last, so that it is the current
// one.
func (s *Store) there(ctx context.Context, url string) (d protocol.Digest, f io.ReadCloser, err error) {
	if s.Journal != nil {
		e, ok, err := s.Journal.Get(url)
		switch {
		case err != nil:
			return d, nil, err
		case !ok || !e.Held.IsZero():
			return d, nil, fmt.Errorf("it is gone: %w", content.ErrNoVersion)
		}
		d = e.Item.Digest
	}
	f, err = s.open(ctx, url)
	return d, f, err
}

// open opens the current page of a URL: a page that cannot be opened is not
// served, even if it is stored. The error wraps content.ErrNoVersion, and
// fs.ErrNotExist or fs.ErrPermission if that is the cause. Without Open it returns
// a file that does not exist.
func (s *Store) open(ctx context.Context, url string) (io.ReadCloser, error) {
	if s.Open == nil {
		return absent{}, nil
	}
	f, err := s.Open(ctx, url)
	switch {
	case err == nil:
		return f, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !errors.Is(err, fs.ErrNotExist):
		s.disk().log.Debug("a page cannot be opened", "url", url, "err", err)
	}
	return nil, fmt.Errorf("it cannot be opened: %w: %w", content.ErrNoVersion, err)
}

// absent is a file that does not exist.
type absent struct{}

func (absent) Read([]byte) (int, error) { return 0, fs.ErrNotExist }
func (absent) Close() error             { return nil }

// bytesOf returns the version item of a page whose current file is f. It closes f.
func (s *Store) bytesOf(ctx context.Context, item *protocol.Item, max int64, f io.ReadCloser) ([]byte, error) {
	max = min(max, s.maxPage())
	if item.Length > max || item.Digest.IsZero() || !s.public(item.URL) {
		f.Close()
		return nil, fmt.Errorf("page %s of %d bytes: %w", item.URL, item.Length, content.ErrNoVersion)
	}
	page, err := s.page(ctx, item, f)
	if err == nil && int64(len(page)) > max {
		return nil, fmt.Errorf("page %s of %d bytes: %w", item.URL, len(page), content.ErrNoVersion)
	}
	return page, err
}

// isSmall reports whether a page is known to be so small that it is read without waiting.
func isSmall(item *protocol.Item) bool { return item.Length >= 0 && item.Length <= smallPage }

// page returns the version item of a page: from its current file f if it is small
// and matches, and else by versionOf. It closes f before it waits.
func (s *Store) page(ctx context.Context, item *protocol.Item, f io.ReadCloser) ([]byte, error) {
	if isSmall(item) {
		b, err := s.standing(item, f)
		f.Close()
		if err == nil {
			return b, nil
		}
	} else {
		f.Close()
	}
	return s.versionOf(ctx, item, item.Digest)
}

// versionOf returns the version d of a page: from the cache, from its current file
// if it is larger, or from disk.
func (s *Store) versionOf(ctx context.Context, item *protocol.Item, d protocol.Digest) ([]byte, error) {
	m := s.memory()
	return m.recent.load(ctx, versionKey{id: idOf(item.URL), digest: d}, m.opens, func() ([]byte, bool, error) {
		b, err := s.read(ctx, item, d)
		return b, true, err
	})
}

// read returns a version from the current file, if it is not small (the caller has
// already tried that for small pages), or else from disk.
func (s *Store) read(ctx context.Context, item *protocol.Item, d protocol.Digest) ([]byte, error) {
	if d == item.Digest && !isSmall(item) {
		f, err := s.open(ctx, item.URL) // the page may be gone since
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", item.URL, err)
		}
		b, err := s.standing(item, f)
		f.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			return b, nil
		}
	}
	if b, ok := s.disk().get(idOf(item.URL), d); ok {
		return b, nil
	}
	if d != item.Digest && s.Earlier != nil {
		f, err := s.Earlier(ctx, item, d)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAll(f, -1, s.maxPage())
	}
	return nil, fmt.Errorf("page %s: %w", item.URL, content.ErrNoVersion)
}

// errOther says that the current file is another version than the wanted one.
var errOther = errors.New("it has changed meanwhile")

// standing returns the content of f, if it has the digest of item.
func (s *Store) standing(item *protocol.Item, f io.Reader) ([]byte, error) {
	most := s.maxPage()
	if item.Length >= 0 {
		most = min(most, item.Length)
	}
	b, err := readAll(f, item.Length, most)
	if errors.Is(err, errLarge) || err == nil && protocol.Sum(b) != item.Digest {
		err = errOther
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errOther) {
		s.disk().log.Debug("a page cannot be read", "url", item.URL, "err", err)
	}
	return b, err
}

// errNotWorth is the error for a difference that is no smaller than the page.
var errNotWorth = fmt.Errorf("it is no smaller than the page: %w", content.ErrNoVersion)

// Delta returns the difference from an earlier version of a page, or the same one,
// to item, as [content.Pages] says. item must be the current version: intermediate
// versions are not served. If the difference is not smaller than the page compressed
// by gzip, Delta returns an error. It is computed once, and cached as long as there is
// room. Do not modify it.
func (s *Store) Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) (delta []byte, err error) {
	m := s.memory()
	defer func() { m.asked(err) }()
	f, err := s.isThere(ctx, item)
	if err != nil {
		return nil, fmt.Errorf("difference of %s: %w", item.URL, err)
	}
	f.Close()
	id := idOf(item.URL)
	if item.Digest.IsZero() || base.IsZero() || item.Length > s.maxPage() || !s.public(item.URL) || base != item.Digest && !s.hasEarlier(ctx, item, base) {
		return nil, fmt.Errorf("difference of %s against %v: %w", item.URL, base, content.ErrNoVersion)
	}
	// While it waits for a token, a request holds no pages and no file.
	tokens := m.small
	if item.Length < 0 || item.Length > largePage {
		tokens = m.large
	}
	delta, err = m.recent.load(ctx, deltaKey{id, base, item.Digest}, tokens, func() ([]byte, bool, error) {
		b, err := s.delta(ctx, item, base)
		return b, true, err
	})
	if err == nil && delta == nil {
		err = errNotWorth
	}
	if err != nil {
		return nil, fmt.Errorf("difference of %s: %w", item.URL, err)
	}
	return delta, nil
}

// hasEarlier reports whether an earlier version of a page is stored, and marks it as used.
func (s *Store) hasEarlier(ctx context.Context, item *protocol.Item, d protocol.Digest) bool {
	if s.disk().use(idOf(item.URL), d) {
		return true
	} else if s.Earlier == nil {
		return false
	}
	f, err := s.Earlier(ctx, item, d)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// delta computes a difference. It is nil if it is too large.
func (s *Store) delta(ctx context.Context, item *protocol.Item, before protocol.Digest) ([]byte, error) {
	f, err := s.open(ctx, item.URL)
	if err != nil {
		return nil, err
	}
	page, err := s.page(ctx, item, f)
	if err != nil {
		return nil, err
	}
	base := page
	if before != item.Digest {
		if base, err = s.versionOf(ctx, item, before); err != nil {
			return nil, err
		}
	}
	m := s.memory()
	m.deltas.Add(1)
	delta, err := coding.Delta(base, page)
	if err != nil && !errors.Is(err, coding.ErrDeltaSize) {
		s.disk().log.Warn("a difference cannot be computed", "url", item.URL, "err", err)
	}
	if err != nil || len(delta) >= len(page) || len(delta) >= len(press(&m.gzips, "gzip", page)) {
		delta = nil
	}
	return delta, nil
}
