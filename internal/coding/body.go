package coding

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
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
	deflated       io.Reader // of a body in deflate; nil: it is in another coding
}

// Open begins with a body, whose coding is "gzip", "zstd" or "deflate". A body that does not begin as its coding does is
// taken as uncoded: some servers declare a coding wrongly. Read returns its content, until the next Open.
//
// Deflate is meant to be a zlib stream (RFC 9110, section 8.4.1.2), but some servers send the bare one, and so both are read. Nobody
// should ask for it: every server that has it also has gzip, of which there is one kind, with a checksum.
func (d *Body) Open(coding string, body []byte) error {
	d.body = body
	d.in.Reset(body)
	d.isGzip, d.isZstd, d.deflated = false, false, nil
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
	case coding == "deflate" && isZlib(body):
		z, err := zlib.NewReader(&d.in)
		if err != nil {
			return fmt.Errorf("read deflate: %w", whole(err))
		}
		d.deflated = z
	case coding == "deflate" && isDeflate(body):
		d.deflated = flate.NewReader(&d.in)
	case coding != "gzip" && coding != "zstd" && coding != "deflate":
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
	case d.deflated != nil:
		n, err = d.deflated.Read(p)
		if err != nil && err != io.EOF {
			err = fmt.Errorf("read deflate: %w", err)
		}
	default:
		n, err = d.in.Read(p)
	}
	return n, err
}

// isZlib reports whether a zlib stream begins here, which needs no dictionary (RFC 1950, section 2.2).
func isZlib(b []byte) bool {
	return len(b) >= 2 && b[0]&0x0f == 8 && b[0]>>4 <= 7 && (int(b[0])<<8|int(b[1]))%31 == 0 && b[1]&0x20 == 0
}

// isDeflate reports whether a bare deflate stream begins here, which has no mark: its first bytes are decoded. Text is none, though it
// may begin like one; a stream has control characters or is not UTF-8.
func isDeflate(b []byte) bool {
	if utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) < 0 {
		return false
	}
	var first [1]byte
	n, err := flate.NewReader(bytes.NewReader(b)).Read(first[:])
	return n == 1 || len(b) > 0 && (err == io.EOF || err == io.ErrUnexpectedEOF)
}

// Close releases the body. Open may be called again.
func (d *Body) Close() {
	d.body, d.isGzip, d.isZstd, d.deflated = nil, false, false, nil
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
