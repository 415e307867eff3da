package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// A directory is a Bucket.
type directory string

func (d directory) path(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s: %w", name, fs.ErrInvalid)
	}
	return filepath.Join(string(d), filepath.FromSlash(name)), nil
}

func (d directory) Put(ctx context.Context, name string, f *os.File) (err error) {
	if stored, err := has(ctx, d, name, f); stored || err != nil {
		return err
	}
	to, err := d.path(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	temp, err := os.Create(filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".tmp")) // the next try takes the place of one that was killed
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = io.Copy(temp, &canceled{ctx, io.NewSectionReader(f, 0, 1<<62)})
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return atomicfile.Replace(temp.Name(), to)
}

func (d directory) Get(_ context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	path, err := d.path(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, length), f}, nil
}

func (d directory) Size(_ context.Context, name string) (int64, error) {
	path, err := d.path(name)
	if err != nil {
		return 0, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// has reports whether a bucket has a file already, and returns ErrOther if it has another one of that name.
func has(ctx context.Context, b Bucket, name string, f *os.File) (stored bool, err error) {
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	size, err := b.Size(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && size < st.Size():
		err = fmt.Errorf("%s: %w", name, ErrOther)
	}
	return err == nil, err
}

// A canceled is a reader that ends with its context.
type canceled struct {
	ctx context.Context
	io.Reader
}

func (c *canceled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}
