package coding

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxBodyWindow is the largest window, in bytes, that a sender may require of a reader of Zstandard on the
// Web (RFC 9659).
const maxBodyWindow = 8 << 20

// A Body decodes one HTTP body after the other, and reuses its memory. The zero Body is ready. It is not safe
// for concurrent use.
type Body struct {
	body []byte
	in   bytes.Reader
	gzip *gzip.Reader
	zstd *zstd.Decoder

	isGzip, isZstd bool
}

// Open begins with a body, whose coding is "gzip" or "zstd". A body that does not begin as its coding does is
// taken as uncoded: some servers declare a coding wrongly. Read returns its content, until the next Open.
func (d *Body) Open(coding string, body []byte) error {
	d.body = body
	d.in.Reset(body)
	d.isGzip, d.isZstd = false, false
	switch {
	case coding == "gzip" && bytes.HasPrefix(body, []byte(gzipMagic)):
		d.isGzip = true
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		return d.member()
	case coding == "zstd" && isZstd(body):
		d.isZstd = true
		if d.zstd == nil {
			z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxBodyWindow))
			if err != nil {
				return fmt.Errorf("read zstd: %w", err)
			}
			d.zstd = z
		}
		if err := d.zstd.Reset(&d.in); err != nil {
			return fmt.Errorf("read zstd: %w", err)
		}
	case coding != "gzip" && coding != "zstd":
		return fmt.Errorf("unsupported content coding %.50q", coding)
	}
	return nil
}

// Read reads the decoded body. Bytes after a gzip member that are not another member are ignored, as browsers
// do.
func (d *Body) Read(p []byte) (n int, err error) {
	switch {
	case d.isGzip:
		n, err = d.gzip.Read(p)
		if err == io.EOF && bytes.HasPrefix(d.body[len(d.body)-d.in.Len():], []byte(gzipMagic)) {
			err = d.member()
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("read gzip: %w", err)
		}
	case d.isZstd:
		n, err = d.zstd.Read(p)
		if err != nil && err != io.EOF {
			err = fmt.Errorf("read zstd: %w", err)
		}
	default:
		n, err = d.in.Read(p)
	}
	return n, err
}

// Close releases the body. Open may be called again.
func (d *Body) Close() {
	d.body, d.isGzip, d.isZstd = nil, false, false
	d.in.Reset(nil)
}

// member begins to read a gzip member.
func (d *Body) member() error {
	if err := d.gzip.Reset(&d.in); err != nil {
		return fmt.Errorf("read gzip: %w", whole(err))
	}
	d.gzip.Multistream(false)
	return nil
}
