// Package coding reads and writes compressed streams: gzip and Zstandard, the two that web servers send as
// stored on disk.
//
// Its output depends on the content alone: it has no name, no time, and nothing that depends on the machine.
// So a file that is compressed again is the same file.
package coding

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// maxWindow bounds the window of a Zstandard stream, in bytes, to that of `zstd --long=27`. It is most of a
// reader's memory.
const maxWindow = 128 << 20

// NewReader returns the content of r: it detects by the first bytes whether r is gzip or Zstandard, and
// decodes it. Several gzip members or frames in sequence are read as one stream. Callers that read from
// strangers must bound the output, which may be a thousand times the input. A truncated stream ends in an
// error wrapping io.ErrUnexpectedEOF.
//
// Close frees the decoder; it does not close r.
func NewReader(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	begin, err := b.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(begin, []byte(gzipMagic)):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read gzip: %w", whole(err))
		}
		return gzipReader{z}, nil
	case isZstd(begin):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("read zstd: %w", err)
		}
		return zstdReader{z}, nil
	}
	return io.NopCloser(b), nil
}

// isZstd reports whether a Zstandard frame begins here, even a skippable one.
func isZstd(b []byte) bool {
	return bytes.HasPrefix(b, []byte(zstdMagic)) ||
		len(b) >= 4 && b[0]&0xf0 == 0x50 && bytes.Equal(b[1:4], []byte("\x2a\x4d\x18"))
}

// whole makes io.EOF within a header io.ErrUnexpectedEOF.
func whole(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

type gzipReader struct{ *gzip.Reader }

func (z gzipReader) Read(p []byte) (int, error) {
	n, err := z.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read gzip: %w", err)
	}
	return n, err
}

type zstdReader struct{ *zstd.Decoder }

func (z zstdReader) Read(p []byte) (int, error) {
	n, err := z.Decoder.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read zstd: %w", err)
	}
	return n, err
}

func (z zstdReader) Close() error {
	z.Decoder.Close()
	return nil
}

// NewGzip returns a writer whose Close ends the stream, and does not close w.
func NewGzip(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

// NewZstd returns a writer whose Close ends the stream, and does not close w. Its window is 4 MiB, which
// every reader of Zstandard on the Web supports (RFC 9659).
func NewZstd(w io.Writer) io.WriteCloser { return newZstd(w, zstd.SpeedDefault) }

// NewFastZstd is NewZstd for what is read once or twice: it takes less processor time, and its result is somewhat longer.
func NewFastZstd(w io.Writer) io.WriteCloser { return newZstd(w, zstd.SpeedFastest) }

func newZstd(w io.Writer, level zstd.EncoderLevel) io.WriteCloser {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20), zstd.WithEncoderLevel(level))
	if err != nil {
		panic("coding: " + err.Error()) // the options above are wrong
	}
	return z
}
