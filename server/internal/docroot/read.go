package docroot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// readTries is how often a file is read that changes during the reading.
const readTries = 3

// readSize is how many bytes are read at once.
const readSize = 256 << 10

// headKept bounds the head buffer of a reader in the pool, in bytes: most pages are smaller, and one large
// page must not hold its memory forever.
const headKept = 256 << 10

// A reader holds the buffers for reading a file. They are pooled in readers.
type reader struct {
	hash hash.Hash
	head []byte // the first bytes of the file, as many as were requested
	buf  [readSize]byte
}

var readers = sync.Pool{New: func() any { return &reader{hash: sha256.New()} }}

func lendReader() *reader {
	r := readers.Get().(*reader)
	r.hash.Reset()
	return r
}

func (r *reader) giveBack() {
	if cap(r.head) > headKept {
		r.head = nil
	}
	readers.Put(r)
}

// Read reads the file behind an offer of Scan, by its Place below the docroot of the current scan. No
// symbolic link can lead out of the docroot.
func (s *Site) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	r, err := s.read(ctx, o)
	if err != nil {
		return o, fmt.Errorf("read %q: %w", o.Place, err)
	}
	return r, nil
}

func (s *Site) read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	if err := s.Check(); err != nil {
		return o, err
	}
	t, err := s.trees.lend()
	if err != nil {
		return o, err
	}
	defer s.trees.release(t)
	for range readTries {
		steady, err := s.readOnce(ctx, t, &o)
		if err != nil {
			return o, err
		}
		if steady || o.LeftOut != "" {
			return o, nil
		}
	}
	o.Unsettled = true
	return o, nil
}

// readOnce reads a file, and reports whether it stayed the same meanwhile.
func (s *Site) readOnce(ctx context.Context, t *tree, o *inventory.Offer) (steady bool, err error) {
	f, left, err := t.open(o.Place)
	if err != nil || left != "" {
		if errors.Is(err, fs.ErrNotExist) {
			s.noIndex.forget(o.URL)
		}
		o.LeftOut = left
		return false, err
	}
	defer f.Close()
	now := time.Now()
	before, err := stat.Of(f)
	switch {
	case err != nil:
		return false, err
	case before.Mode != 0:
		o.LeftOut = leftIrregular
		return false, nil
	case before.Size > s.maxFile():
		o.LeftOut = leftTooLarge
		return false, nil
	}
	r := lendReader()
	defer r.giveBack()
	if o.Type == "" {
		o.Type = mediaType(o.Place)
	}
	head := 0
	if s.Settings.Features != nil && hasFeatures(o.Type) {
		head = int(min(before.Size, featuresSize))
		r.head = slices.Grow(r.head[:0], head)
	}
	// One byte more than expected reveals a file that grows.
	n, err := r.read(ctx, io.LimitReader(f, before.Size+1), head)
	if err != nil {
		return false, err
	}
	after, err := stat.Of(f)
	if err != nil {
		return false, err
	}
	if n != before.Size || !after.Same(&before) {
		return false, nil
	}
	r.hash.Sum(o.Digest[:0])
	o.Length, o.Modified, o.Stamp, o.Unsettled = n, before.Modified, s.versioned(before.Stamp(now), o.Type), false
	return true, s.features(o, r.head)
}

// read hashes a whole file, and keeps its first head bytes. Unlike io.Copy it ends with ctx.
func (r *reader) read(ctx context.Context, f io.Reader, head int) (n int64, err error) {
	r.head = r.head[:0]
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, err := f.Read(r.buf[:])
		r.hash.Write(r.buf[:m])
		r.head = append(r.head, r.buf[:min(m, head-len(r.head))]...)
		n += int64(m)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// open opens the file at a place, without blocking on a pipe, or returns why it is left out.
func (t *tree) open(place string) (f *os.File, left string, err error) {
	name := filepath.FromSlash(place)
	if f, err = t.openFile(name); err == nil {
		return f, "", nil
	}
	// The path may lead out; or it has an absolute link, which os.Root does not follow even if it leads back
	// in; or nothing is there.
	path, _, ferr := follow(t.path, name)
	switch {
	case ferr != nil && (isGone(ferr) || errors.Is(ferr, errTooManyLinks)):
		return nil, "", fs.ErrNotExist
	case ferr != nil:
		return nil, "", ferr
	}
	real, ok := t.inside(path)
	if !ok {
		return nil, leftOutside, nil
	}
	if f, err = t.root.OpenFile(real, stat.Quietly, 0); err == nil {
		return f, "", nil
	}
	if isGone(err) {
		return nil, "", fs.ErrNotExist
	}
	if fi, serr := t.root.Lstat(real); serr == nil && !fi.Mode().IsRegular() {
		return nil, leftIrregular, nil // a socket cannot be opened
	}
	return nil, "", err
}
