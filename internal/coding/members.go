package coding

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A Packer makes each piece of content a stream of its own: a gzip member or a Zstandard frame. Concatenated
// pieces are still one stream, and each can be read alone from its offset. A Packer is for one goroutine at a
// time.
type Packer struct {
	gz  *gzip.Writer
	zs  *zstd.Encoder
	out bytes.Buffer
}

// packLevel is a gzip level that costs a third of the default one, for some 5 % more bytes of HTML.
const packLevel = 2

// NewPacker returns a Packer of a coding, "gzip" or "zstd".
func NewPacker(coding string) (*Packer, error) {
	switch coding {
	case "gzip":
		z, err := gzip.NewWriterLevel(nil, packLevel)
		return &Packer{gz: z}, err
	case "zstd":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(true))
		return &Packer{zs: z}, err
	}
	return nil, fmt.Errorf("coding %.40q: want gzip or zstd", coding)
}

// Append appends content to dst as one piece. It does not retain content.
func (p *Packer) Append(dst, content []byte) []byte {
	if p.zs != nil {
		return p.zs.EncodeAll(content, dst)
	}
	p.out.Reset()
	p.gz.Reset(&p.out)
	p.gz.Write(content) // to memory: neither fails
	p.gz.Close()
	return append(dst, p.out.Bytes()...)
}

// Members reads a stream piece by piece: an uncompressed stream is one piece, a gzip file as many as it has
// members, a Zstandard file as many as it has frames. Skippable frames are skipped.
//
// It accepts untrusted bytes: an error is final for the piece, and the reader of a piece must bound its
// output.
type Members struct {
	raw   *bufio.Reader
	count *counter
	gz    *gzip.Reader
	zs    *zstd.Decoder
	frame frame
	now   io.Reader // the current piece; nil before the first
	plain bool
}

// counter counts the bytes read from a reader.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// NewMembers returns a reader of pieces.
func NewMembers(r io.Reader) *Members {
	c := &counter{r: r}
	return &Members{raw: bufio.NewReaderSize(c, 32<<10), count: c}
}

// Reset makes m read another stream, whose first byte is at offset.
func (m *Members) Reset(r io.Reader, offset int64) {
	m.count.r, m.count.n, m.now, m.plain = r, offset, nil, false
	m.raw.Reset(m.count)
}

// Close frees the decoders.
func (m *Members) Close() {
	if m.zs != nil {
		m.zs.Close()
		m.zs = nil
	}
}

// Offset returns how many bytes of the stream are consumed: after the end of a piece, where the next begins.
func (m *Members) Offset() int64 { return m.count.n - int64(m.raw.Buffered()) }

// Plain reports whether the current piece is not compressed.
func (m *Members) Plain() bool { return m.plain }

// Next begins the next piece; the one before must have been read to its end. It returns io.EOF after the
// last. The first bytes of a piece decide its coding.
func (m *Members) Next() error {
	if m.plain {
		return io.EOF
	}
	for {
		begin, err := m.raw.Peek(len(zstdMagic))
		switch {
		case len(begin) == 0 && err == io.EOF:
			return io.EOF
		case len(begin) == 0:
			return err
		case bytes.HasPrefix(begin, []byte(gzipMagic)):
			return m.nextGzip()
		case bytes.HasPrefix(begin, []byte(zstdMagic)):
			return m.nextZstd()
		case isZstd(begin):
			if err := m.skipFrame(); err != nil {
				return err
			}
			continue
		}
		if m.now != nil {
			if err == io.EOF && (strings.HasPrefix(gzipMagic, string(begin)) || strings.HasPrefix(zstdMagic, string(begin))) {
				return io.ErrUnexpectedEOF // of a piece that had just begun
			}
			return fmt.Errorf("%w between two pieces of a compressed stream", errForeign)
		}
		m.now, m.plain = m.raw, true
		return nil
	}
}

var errForeign = errors.New("foreign bytes")

func (m *Members) nextGzip() (err error) {
	if m.gz == nil {
		m.gz, err = gzip.NewReader(m.raw)
	} else {
		err = m.gz.Reset(m.raw)
	}
	m.now = m.gz
	if err != nil {
		m.gz = nil
		return fmt.Errorf("read gzip: %w", whole(err))
	}
	m.gz.Multistream(false)
	return nil
}

func (m *Members) nextZstd() (err error) {
	m.frame = frame{raw: m.raw}
	if m.zs == nil {
		m.zs, err = zstd.NewReader(&m.frame, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	} else {
		err = m.zs.Reset(&m.frame)
	}
	if err != nil {
		return fmt.Errorf("read zstd: %w", err)
	}
	m.now = m.zs
	return nil
}

// skipFrame skips a frame that is no content: a dictionary, a seek table.
func (m *Members) skipFrame() error {
	var head [8]byte
	if _, err := io.ReadFull(m.raw, head[:]); err != nil {
		return fmt.Errorf("read zstd: %w", whole(err))
	}
	n := int64(binary.LittleEndian.Uint32(head[4:]))
	if got, err := io.CopyN(io.Discard, m.raw, n); got < n {
		return fmt.Errorf("read zstd: %w", whole(err))
	}
	return nil
}

// Read reads from the current piece, and returns io.EOF at its end.
func (m *Members) Read(p []byte) (int, error) {
	if m.now == nil {
		return 0, io.EOF
	}
	n, err := m.now.Read(p)
	if err == io.EOF && m.zs != nil && m.now == io.Reader(m.zs) && !m.frame.over() {
		err = io.ErrUnexpectedEOF // the decoder takes some truncations for an end
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read compressed stream: %w", err)
	}
	return n, err
}

// A frame is the bytes of one Zstandard frame. It finds the end by the sizes of the blocks (RFC 8878, section
// 3.1.1), because a decoder reads on from frame to frame without reporting it.
type frame struct {
	raw  *bufio.Reader
	at   frameState
	left int // bytes until at is over
	last bool
	sum  bool
}

type frameState uint8

const (
	atHeader frameState = iota
	atBlock             // between blocks
	inBytes             // of a header, or a block
	atEnd
)

func (f *frame) Read(p []byte) (int, error) {
	for len(p) > 0 {
		switch f.at {
		case atEnd:
			return 0, io.EOF
		case inBytes:
			if f.left > 0 {
				n, err := f.raw.Read(p[:min(len(p), f.left)])
				f.left -= n
				if n > 0 {
					return n, nil
				}
				return n, whole(err)
			}
			f.at = atBlock
			if f.last {
				f.at = atEnd
			}
		case atHeader:
			if err := f.header(); err != nil {
				return 0, err
			}
		case atBlock:
			if err := f.block(); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// over reports whether the frame has been read to its end.
func (f *frame) over() bool { return f.at == atEnd || f.at == inBytes && f.last && f.left == 0 }

func (f *frame) header() error {
	b, err := f.raw.Peek(5)
	if err != nil {
		return whole(err)
	}
	d := b[4]
	n := 5 + []int{0, 1, 2, 4}[d&3] + []int{0, 2, 4, 8}[d>>6]
	single := d&0x20 != 0
	if !single {
		n++
	} else if d>>6 == 0 {
		n++
	}
	f.sum = d&4 != 0
	f.at, f.left = inBytes, n
	return nil
}

func (f *frame) block() error {
	b, err := f.raw.Peek(3)
	if err != nil {
		return whole(err)
	}
	h := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	size := h >> 3
	if h>>1&3 == 1 { // one byte, repeated
		size = 1
	}
	f.at, f.left = inBytes, 3+size
	if f.last = h&1 != 0; f.last && f.sum {
		f.left += 4
	}
	return nil
}
