package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// DefaultMaxArchive is the largest archive, in bytes as transferred, where Source.MaxArchive is zero.
const DefaultMaxArchive = 16 << 30

const (
	spoolTries    = 5                // tries in a row without progress, and restarts from the beginning in all
	spoolParts    = 1000             // requests in all
	spoolPatience = 10 * time.Minute // until the first byte of an archive that the site may have to make
)

// partPattern matches the names of unfinished downloads.
const partPattern = "parley-*.part"

// RemoveParts removes from dir, the Source.Temp of a process that was killed, the unfinished archives, and the parts of
// manifests of which none was added for a week. No other process may be downloading to dir.
func RemoveParts(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return // a later write there reports the error
	}
	for _, e := range list {
		if ok, _ := filepath.Match(partPattern, e.Name()); ok && e.Type().IsRegular() {
			os.Remove(filepath.Join(dir, e.Name()))
		} else if ok, _ := filepath.Match(spoolPattern, e.Name()); ok && e.IsDir() {
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > spoolAge {
				os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// A spooled is an archive, too large for memory, downloaded to a file. Close removes it.
type spooled struct {
	*os.File
	size int64
	etag string

	resumed bool // the last response continued the one before
	begun   int  // downloads begun at byte 0: a site without Range support could restart without end
}

// Close closes the file and removes it.
func (s *spooled) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }

// errTooLarge reports an archive larger than Source.MaxArchive.
var errTooLarge = errors.New("larger than the limit")

// download fetches u, and resumes by Range where the connection was cut, as long as the ETag is the same. It
// returns nil if the ETag is still known. If hash is not zero, the content must have it.
func (f *fetcher) download(ctx context.Context, u, known string, hash protocol.Digest) (*spooled, error) {
	file, err := os.CreateTemp(f.src.Temp, partPattern)
	if err != nil {
		return nil, err
	}
	out := &spooled{File: file}
	fresh := false
	for tries, parts := 0, 1; ; tries, parts = tries+1, parts+1 {
		before := out.size
		var same bool
		if same, err = f.part(ctx, u, known, out); err == nil {
			if fresh = !same; fresh {
				err = out.check(hash)
			}
			break
		}
		if out.resumed && out.size > before {
			tries = 0
		}
		if ctx.Err() != nil || tries >= spoolTries || out.begun > spoolTries || parts >= spoolParts || statusOf(err) != nil || errors.Is(err, errTooLarge) || errors.Is(err, errPart) {
			break
		}
		if err := pause.Sleep(ctx, f.hurried(min(firstWait<<tries, longestWait))); err != nil {
			break
		}
	}
	if err != nil || !fresh {
		out.Close() // nothing of it is of use
		return nil, err
	}
	return out, nil
}

// errPart reports a response with another range than was requested.
var errPart = errors.New("response has a range that was not requested")

// part requests the missing bytes, and appends them. It reports whether the site answers that known is still
// current.
func (f *fetcher) part(ctx context.Context, u, known string, out *spooled) (same bool, err error) {
	h := f.header()
	h.Set("Accept-Encoding", "identity")
	resumes := out.size > 0 && out.etag != ""
	switch {
	case resumes:
		h.Set("Range", fmt.Sprintf("bytes=%d-", out.size))
		h.Set("If-Range", out.etag)
	case known != "":
		h.Set("If-None-Match", known)
	}
	resp, err := f.get(ctx, u, h, spoolPatience)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return true, nil
	case http.StatusPartialContent:
		out.resumed = true
		if first, ok := firstOf(resp.Header.Get("Content-Range")); !ok || first != out.size {
			return false, fmt.Errorf("%w: %.60q", errPart, resp.Header.Get("Content-Range"))
		}
	default: // from the beginning: the archive has changed
		out.size, out.resumed, out.begun = 0, false, out.begun+1
		if err := out.Truncate(0); err != nil {
			return false, err
		}
		if out.etag = resp.Header.Get("ETag"); strings.HasPrefix(out.etag, "W/") {
			out.etag = "" // weak: not usable for If-Range (RFC 9110, section 13.1.5)
		}
	}
	most := f.src.MaxArchive
	if resp.ContentLength > most-out.size {
		return false, fmt.Errorf("%d bytes: %w", out.size+resp.ContentLength, errTooLarge)
	}
	if _, err := out.Seek(out.size, io.SeekStart); err != nil {
		return false, err
	}
	n, err := io.Copy(out.File, io.LimitReader(resp.Body, most-out.size+1))
	if out.size += n; err == nil && out.size > most {
		err = fmt.Errorf("more than %d bytes: %w", most, errTooLarge)
	}
	return false, err
}

// firstOf returns the first byte position of a Content-Range.
func firstOf(header string) (int64, bool) {
	rest, ok := strings.CutPrefix(header, "bytes ")
	first, _, dash := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return n, ok && dash && err == nil
}

// check compares the content with its hash, if that is known, and rewinds.
func (s *spooled) check(hash protocol.Digest) error {
	if _, err := s.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if hash.IsZero() {
		return nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, s.File); err != nil {
		return err
	}
	if got := protocol.Digest(h.Sum(nil)); got != hash {
		return fmt.Errorf("archive has digest %v, not %v", got, hash)
	}
	_, err := s.Seek(0, io.SeekStart)
	return err
}
