package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"

	"github.com/parleyweb/parley/internal/bucket"
	"github.com/parleyweb/parley/internal/must"
)

// targets returns a directory, and a bucket in a store of another program.
func targets(t *testing.T) map[string]string {
	store := s3mem.New()
	must.OK(t, store.CreateBucket(t.Context(), "crawls"))
	server := httptest.NewServer(gofakes3.New(store, gofakes3.WithV4Auth(map[string]string{"key": "secret"})).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return map[string]string{"directory": t.TempDir(), "s3": "s3://crawls/2026?region=us-east-1&endpoint=" + server.URL}
}

func file(t *testing.T, content string) *os.File {
	path := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(path, []byte(content), 0o644))
	f := must.Get(os.Open(path))
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t *testing.T, b bucket.Bucket, name string, offset, length int64) string {
	r, err := b.Get(t.Context(), name, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return string(must.Get(io.ReadAll(r)))
}

func TestBuckets(t *testing.T) {
	for kind, target := range targets(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			b := must.Get(bucket.Open(target))
			_, err := b.Size(ctx, "a.warc.gz")
			_, unread := b.Get(ctx, "a.warc.gz", 0, 3)
			if !errors.Is(err, fs.ErrNotExist) || !errors.Is(unread, fs.ErrNotExist) {
				t.Errorf("a file that is not there: %v, %v", err, unread)
			}
			for range 2 { // the second time it is there
				must.OK(t, b.Put(ctx, "a.warc.gz", file(t, "0123456789")))
			}
			if got := read(t, b, "a.warc.gz", 3, 4); got != "3456" || must.Get(b.Size(ctx, "a.warc.gz")) != 10 {
				t.Errorf("read %q", got)
			}
			must.OK(t, b.Put(ctx, "a.warc.gz", file(t, "01234")))
			if got := read(t, b, "a.warc.gz", 0, 10); got != "0123456789" {
				t.Errorf("a shorter file took the place of a longer one: %q", got)
			}
			if err := b.Put(ctx, "a.warc.gz", file(t, "another, and longer")); !errors.Is(err, bucket.ErrOther) {
				t.Errorf("a longer file of the same name: %v", err)
			}
			below := must.Get(bucket.Open(bucket.Below(target, "partition-003")))
			if _, err := below.Size(ctx, "a.warc.gz"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory below has the file: %v", err)
			}
			must.OK(t, below.Put(ctx, "a.warc.gz", file(t, "")))
			if got := must.Get(b.Size(ctx, "partition-003/a.warc.gz")); got != 0 {
				t.Errorf("the empty file has %d bytes", got)
			}
			ended, end := context.WithCancel(ctx)
			end()
			if err := b.Put(ended, "b.warc.gz", file(t, "never")); !errors.Is(err, context.Canceled) {
				t.Errorf("stored after the end: %v", err)
			}
			if _, err := b.Size(ctx, "b.warc.gz"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("part of a file was stored: %v", err)
			}
		})
	}
}

// A file is larger than a part of an upload.
func TestLargeFiles(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 40<<20/16)
	for kind, target := range targets(t) {
		b := must.Get(bucket.Open(target))
		must.OK(t, b.Put(t.Context(), "large.warc", file(t, string(content))))
		if got := read(t, b, "large.warc", 33<<20+5, 20); got != "56789abcdef012345678" || must.Get(b.Size(t.Context(), "large.warc")) != 40<<20 {
			t.Errorf("%s: read %q", kind, got)
		}
	}
}

func TestBadTargets(t *testing.T) {
	for target, want := range map[string]string{
		"s3://":                               "want s3://BUCKET/PREFIX",
		"s3://b?endpoint=ftp://example.org":   "the endpoint must be https://HOST or http://HOST",
		"s3://b?endpoint=https://example/dir": "the endpoint must be",
		"s3://b?end=https://example.org":      "unknown parameter end: want endpoint or region",
	} {
		if _, err := bucket.Open(target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
	dir := must.Get(bucket.Open(t.TempDir()))
	if err := dir.Put(t.Context(), "../out", file(t, "x")); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a name outside of the directory: %v", err)
	}
}
