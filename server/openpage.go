package server

import (
	"context"
	"errors"
	"fmt"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
	"io"
	"io/fs"
	"path/filepath"
)

// smallSize is how many bytes are soon read, so that it counts how long it takes to open them.
const smallSize = 64 << 10

// Open opens what Look offered, to be read by whoever wants more of it than
// Read tells, such as its links. It is found as Read finds it, so that no
// symbolic link leads out of the docroot. An error that wraps fs.ErrNotExist
// means that it has vanished, or may not be published as things are now. The
// content may change while it is read.
func (s *Site) Open(ctx context.Context, o inventory.Offer) (io.ReadCloser, error) {
	r, err := s.openOffer(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", o.Place, err)
	}
	return r, nil
}

func (s *Site) openOffer(ctx context.Context, o inventory.Offer) (io.ReadCloser, error) {
	if err := errors.Join(s.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if o.LeftOut != "" {
		return nil, fmt.Errorf("%s: %w", o.LeftOut, fs.ErrNotExist)
	}
	t, err := s.lendBriefly()
	if err != nil {
		return nil, err
	}
	defer s.release(t) // an open file outlives its directory
	if f := t.openSmall(filepath.FromSlash(o.Place), min(smallSize, s.maxFile())); f != nil {
		return f, nil
	}
	f, left, err := t.open(o.Place)
	switch {
	case err != nil:
		return nil, err
	case left != "":
		return nil, fmt.Errorf("%s: %w", left, fs.ErrNotExist)
	}
	st, err := stat.Of(f)
	switch {
	case err != nil:
	case st.Mode != 0:
		err = fmt.Errorf("%s: %w", leftIrregular, fs.ErrNotExist)
	case st.Size > s.maxFile():
		err = fmt.Errorf("%s: %w", leftTooLarge, fs.ErrNotExist)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// OpenPage opens the file behind the URL of a page, in the same way. What the
// present rules forbid is not opened: the error wraps fs.ErrNotExist.
func (s *Site) OpenPage(ctx context.Context, url string) (io.ReadCloser, error) {
	for _, place := range s.publicPlaces(url) {
		r, err := s.openOffer(ctx, inventory.Offer{URL: url, Place: place})
		switch {
		case err == nil:
			return r, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("open %s: %w", url, err)
		}
	}
	return nil, fmt.Errorf("open %s: %w", url, fs.ErrNotExist)
}
