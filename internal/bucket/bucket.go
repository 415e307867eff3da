// Package bucket keeps files that never change in a directory, or in a bucket of an S3-compatible store. It is the home of minio-go.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A Bucket has files, each under a name of its own, such as "warc/a.warc.gz". Any number of goroutines and processes may use it at
// once, but only one may store a file of a given name.
type Bucket interface {
	// Put stores a file, whole or not at all, unless there is one of that name which is as large or larger. It returns ErrOther if there is a smaller one.
	Put(ctx context.Context, name string, f *os.File) error
	// Get opens length bytes of a file, from offset on. It returns fs.ErrNotExist if there is no such file.
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Size returns the size of a file. It returns fs.ErrNotExist if there is no such file.
	Size(ctx context.Context, name string) (int64, error)
}

// ErrOther is returned by Put if another file has the name.
var ErrOther = errors.New("there is a smaller file of this name: nothing was stored")

// scheme begins the names of buckets that are no directories.
const scheme = "s3://"

// Open returns the bucket that a target names: a directory, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME, of which all but
// BUCKET may be missing. It connects to nothing.
func Open(target string) (Bucket, error) {
	if !strings.HasPrefix(target, scheme) {
		return directory(target), nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	return openS3(u)
}

// Below returns the target of a directory in the bucket that another target names.
func Below(target, dir string) string {
	if !strings.HasPrefix(target, scheme) {
		return filepath.Join(target, dir)
	}
	place, query, has := strings.Cut(target, "?")
	place = scheme + path.Join(strings.TrimPrefix(place, scheme), dir)
	if has {
		place += "?" + query
	}
	return place
}
