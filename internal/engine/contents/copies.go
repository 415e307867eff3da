package contents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/bucket"
	"github.com/parleyweb/parley/internal/warc"
)

// Archives that are closed never change. They can be copied to a bucket, so that a lost disk loses only the open one; and a
// record that is not here is read from there.

// copiesName is the file beside the archives that names the bucket, so that every reader of the collection knows it.
const copiesName = "copied-to.txt"

const (
	lookingUp   = 10 * time.Second // how long one question to a bucket may take, and the beginning of a record: commits wait for it
	readingCopy = 10 * time.Minute // and a whole body
	missing     = time.Minute      // how long it is believed that a bucket does not have an archive
)

// copyTo makes the bucket of a target the one that Copy fills.
func (s *Store) copyTo(target string) error {
	if !strings.Contains(target, "://") {
		dir, err := filepath.Abs(target)
		if err != nil {
			return err
		}
		target = dir
	}
	if _, err := bucket.Open(target); err != nil {
		return err
	}
	if err := os.MkdirAll(s.warcs(), 0o755); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies = nil
	return atomicfile.Write(filepath.Join(s.warcs(), copiesName), target+"\n", 0o644)
}

// bucket returns the bucket with the copies, nil if there is none.
func (s *Reader) bucket() (bucket.Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies != nil {
		return s.copies, nil
	}
	b, err := os.ReadFile(filepath.Join(s.warcs(), copiesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	s.copies, err = bucket.Open(strings.TrimSuffix(string(b), "\n"))
	return s.copies, err
}

// Copy copies the closed archives up to a mark, with their indexes, unless the bucket has them. An archive that cannot be copied does not
// keep the others from it. The mark is the end of what has been committed: what comes after it may be removed.
func (s *Store) Copy(ctx context.Context, end warc.Place) error {
	to, err := s.bucket()
	if to == nil {
		return err
	}
	list, err := warc.Closed(s.warcs(), end)
	for _, name := range list {
		if s.copied[name] {
			continue
		}
		one := s.copyFile(ctx, to, warc.IndexOf(name)) // first: with the archive there is its index, unless it has none here
		if one == nil || errors.Is(one, fs.ErrNotExist) {
			one = s.copyFile(ctx, to, name)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if one == nil {
			if s.copied == nil {
				s.copied = map[string]bool{}
			}
			s.copied[name] = true
		}
		err = errors.Join(err, one)
	}
	return err
}

func (s *Store) copyFile(ctx context.Context, to bucket.Bucket, name string) error {
	f, err := os.Open(filepath.Join(s.warcs(), name))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := to.Put(ctx, name, f); err != nil {
		return fmt.Errorf("copy archive %s: %w", name, err)
	}
	return nil
}

// Record opens a record, from its copy if the archive is not here.
func (s *Reader) Record(p warc.Place) (*warc.Stored, error) {
	r, err := warc.Open(s.warcs(), p)
	if !errors.Is(err, fs.ErrNotExist) || p.Length == 0 {
		return r, err
	}
	b, unknown := s.bucket()
	if b == nil {
		return nil, errors.Join(err, unknown)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readingCopy)
	late := time.AfterFunc(lookingUp, cancel)
	defer late.Stop()
	body, err := b.Get(ctx, p.File, p.Offset, p.Length)
	if err != nil {
		cancel()
		return nil, &fs.PathError{Op: "open", Path: p.File, Err: err}
	}
	return warc.OpenFrom(&copied{p.File, body}, closer(func() error {
		cancel()
		return body.Close()
	}))
}

// A copied reads a record from a bucket. Its errors are none of the record.
type copied struct {
	name string
	body io.Reader
}

func (c *copied) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if err != nil && err != io.EOF {
		err = &fs.PathError{Op: "read", Path: c.name, Err: err}
	}
	return n, err
}

type closer func() error

func (f closer) Close() error { return f() }

// copySize returns the size of the copy of an archive, -1 if there is none or the bucket cannot be asked.
func (s *Reader) copySize(name string) int64 {
	b, err := s.bucket()
	if b == nil || err != nil {
		return -1
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookingUp)
	defer cancel()
	size, err := b.Size(ctx, name)
	if err != nil {
		return -1
	}
	return size
}
