package docroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/inventory"
)

// smallSize is the size up to which opening a file takes longer than reading it, so that the fast way to open
// it pays.
const smallSize = 64 << 10

// Open opens the file behind an offer of Scan; it finds the file as Read does.
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
	t, err := s.trees.lendBriefly()
	if err != nil {
		return nil, err
	}
	defer s.trees.release(t) // an open file outlives its directory
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

// OpenPage opens the file behind a page's URL, in the same way.
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
