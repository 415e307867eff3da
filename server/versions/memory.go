package versions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// A memory computes pages, compressed pages and differences, a bounded number at a time, and caches them. Its methods
// may be called by many goroutines at once.
type memory struct {
	once   sync.Once // makes recent and the channels
	recent cache

	small, large chan struct{} // a token for each difference being computed
	opens        chan struct{} // a token for each page being read, compressed or digested

	gzips, zstds sync.Pool // of packers

	deltas, given, refused atomic.Int64 // see Stats
}

// maxOpens bounds the larger pages that are read into memory at one time. No more
// of their files are open, except for the moment in which a request checks that a
// file can be opened. Smaller pages are read and closed as soon as they are
// opened: as many of these are open as there are requests.
const maxOpens = 8

// asked counts a request for a difference.
func (m *memory) asked(err error) {
	if err == nil {
		m.given.Add(1)
	} else if errors.Is(err, content.ErrNoVersion) {
		m.refused.Add(1)
	}
}

// press returns a page in a coding. pool holds packers of that coding.
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

// packed returns a page in a coding, "gzip" or "zstd", or nil if that is not
// smaller. d is the digest of the page.
func (m *memory) packed(ctx context.Context, url string, d protocol.Digest, page []byte, name string) ([]byte, error) {
	pool := &m.zstds
	if name == "gzip" {
		pool = &m.gzips
	}
	return m.recent.load(ctx, versionKey{idOf(url), d, name}, m.opens, func() ([]byte, bool, error) {
		b := press(pool, name, page)
		if len(b) >= len(page) {
			b = nil
		}
		return b, true, nil
	})
}

// A seekingFile is a file from which ranges can be sent.
type seekingFile interface {
	fs.File
	io.Seeker
}

// youth is the age from which an equal mtime proves that a file was not written
// since: younger mtimes can hide a second write.
const youth = 2 * time.Second

// isVersion reports whether a file has the digest of item, and caches the result
// as long as the file's size and mtime do not change. It leaves the file at its
// beginning.
func (m *memory) isVersion(ctx context.Context, item *protocol.Item, f seekingFile) (bool, error) {
	before, err := f.Stat()
	if err != nil || before.Size() != item.Length {
		return false, err
	}
	key := versionKey{idOf(item.URL), item.Digest, fmt.Sprintf("file of %d at %d", before.Size(), before.ModTime().UnixNano())}
	said, err := m.recent.load(ctx, key, m.opens, func() ([]byte, bool, error) {
		sum := sha256.New()
		if _, err := io.Copy(sum, pause.Reader(ctx, f)); err != nil {
			return nil, false, err
		}
		after, err := f.Stat()
		if err != nil {
			return nil, false, err
		}
		said := []byte("no")
		if bytes.Equal(sum.Sum(nil), item.Digest[:]) && after.ModTime().Equal(before.ModTime()) {
			said = []byte("yes")
		}
		return said, time.Since(before.ModTime()) > youth, nil
	})
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return string(said) == "yes", err
}
