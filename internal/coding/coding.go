// Package coding reads and writes compressed streams: gzip and Zstandard, the
// two that web servers send as they lie on the disk.
//
// What it writes depends on the content alone: there is no name and no time in
// it, and nothing that depends on the machine. So a file that is compressed
// again is the same file.
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

// MaxWindow bounds how much of a Zstandard stream a reader must remember, in
// bytes: what `zstd --long=27` writes. It is most of what a reader holds.
const MaxWindow = 128 << 20

// NewReader returns what r holds: it looks at how r begins, and takes off one
// gzip or Zstandard coding if there is one. Several gzip members or frames one
// after the other are read as one stream. Whoever reads from strangers bounds
// what comes out, which may be a thousand times what goes in. A stream that
// is cut short ends in an error wrapping io.ErrUnexpectedEOF.
//
// Close frees what the decoder holds; it does not close r.
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
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxWindow))
		if err != nil {
			return nil, fmt.Errorf("read zstd: %w", err)
		}
		return zstdReader{z}, nil
	}
	return io.NopCloser(b), nil
}

// isZstd reports whether a frame of Zstandard begins here, be it one to skip.
func isZstd(b []byte) bool {
	return bytes.HasPrefix(b, []byte(zstdMagic)) ||
		len(b) >= 4 && b[0]&0xf0 == 0x50 && bytes.Equal(b[1:4], []byte("\x2a\x4d\x18"))
}

// whole makes an end within the header what it is.
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

// NewZstd returns a writer whose Close ends the stream, and does not close w.
// Its window is 4 MiB, which whoever may read Zstandard from the Web can hold (RFC 9659).
func NewZstd(w io.Writer) io.WriteCloser {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	if err != nil {
		panic("coding: " + err.Error()) // the options above are wrong
	}
	return z
}
