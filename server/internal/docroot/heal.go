package docroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// Why the mtime of a page stays as it is.
var (
	errHardLink = errors.New("the file has other hard links, which share its mtime")
	errKeptTime = errors.New("the file system stored a different mtime")
)

// Heal sets the mtime of the file behind an offer that Read returned. A file that is also found elsewhere, by
// a symbolic link below the docroot or by another name, has one mtime for two pages, and is left alone.
func (s *Site) Heal(ctx context.Context, o inventory.Offer, to time.Time) (inventory.Offer, error) {
	h, err := s.heal(ctx, o, to)
	if err != nil {
		return o, fmt.Errorf("heal %q: %w", o.Place, err)
	}
	return h, nil
}

func (s *Site) heal(ctx context.Context, o inventory.Offer, to time.Time) (inventory.Offer, error) {
	if err := s.Check(); err != nil {
		return o, err
	}
	t, err := s.trees.lend()
	if err != nil {
		return o, err
	}
	defer s.trees.release(t)
	path, links, err := follow(t.path, filepath.FromSlash(o.Place))
	switch {
	case err != nil && isGone(err):
		return o, fs.ErrNotExist
	case err != nil:
		return o, err
	case len(links) > 0:
		return o, inventory.ErrLinked
	}
	f, left, err := t.open(o.Place)
	if err != nil {
		return o, err
	}
	if left != "" {
		return o, inventory.ErrChanged
	}
	defer f.Close()
	before, err := stat.Of(f)
	switch {
	case err != nil:
		return o, err
	case before.Mode != 0, before.Size != o.Length, !before.Modified.Equal(o.Modified),
		len(o.Stamp) > 0 && !bytes.Equal(o.Stamp, s.versioned(before.Settled(nil), o.Type)):
		return o, inventory.ErrChanged
	case before.Links > 1:
		return o, errHardLink
	}
	if err := setTime(f, path, to); err != nil {
		return o, err
	}
	// A write between the reading and this now has the time that was just set, as if nothing had changed. So
	// the file is read again.
	digest, err := digestOf(ctx, f, before.Size)
	if err != nil {
		return o, err
	}
	now, err := stat.Of(f)
	if err != nil {
		return o, err
	}
	is, rounded := now.Modified.Equal(to), now.Modified.Equal(before.Modified) || now.Modified.Sub(to).Abs() <= stat.Coarse
	if digest != o.Digest || now.Size != before.Size || !is && !rounded {
		if is {
			err = setTime(f, path, time.Now())
		}
		return o, errors.Join(inventory.ErrChanged, err)
	}
	stamp := now.Settled(nil)
	if now.Changed.IsZero() || now.Changed.Nanosecond() == 0 {
		stamp = now.Stamp(time.Now()) // coarse times: as careful as with a file just read
	}
	o.Modified, o.Stamp = now.Modified, s.versioned(stamp, o.Type)
	if !is {
		return o, errKeptTime
	}
	return o, nil
}

// digestOf hashes an open file, positioned at its beginning, which should have this size.
func digestOf(ctx context.Context, f io.Reader, size int64) (d protocol.Digest, err error) {
	r := lendReader()
	defer r.giveBack()
	if _, err := r.read(ctx, io.LimitReader(f, size+1), 0); err != nil {
		return d, err
	}
	r.hash.Sum(d[:0])
	return d, nil
}
