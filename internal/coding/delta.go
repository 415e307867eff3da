package coding

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A delta, "dcz" of RFC 9842, is a header of 40 bytes and a Zstandard frame that was made with the base as a
// raw dictionary. The header is a skippable frame with the SHA-256 of the base.
const (
	deltaMagic  = "\x5e\x2a\x4d\x18\x20\x00\x00\x00"
	DeltaHeader = len(deltaMagic) + sha256.Size // bytes
)

// MaxDeltaBase is the size of the largest base, in bytes: beyond it no level would find the common parts.
const MaxDeltaBase = 32 << 20

// ErrDeltaSize is wrapped by the errors for a base or a page that is too large.
var ErrDeltaSize = errors.New("too large for a delta")

// deltaWindow is the window that a reader of deltas against a base of n bytes must support, in bytes
// (RFC 9842, section 5).
func deltaWindow(n int) uint64 {
	return min(max(8<<20, uint64(n)+uint64(n)/4), maxWindow)
}

// Delta returns the delta from base to page, after checking that it works. It may be larger than page: the
// caller must compare. The error wraps ErrDeltaSize if base is larger than MaxDeltaBase, or page larger than
// the window: 8 MiB, or a quarter more than base.
func Delta(base, page []byte) ([]byte, error) {
	switch {
	case len(base) > MaxDeltaBase:
		return nil, fmt.Errorf("make delta: base of %d bytes: %w", len(base), ErrDeltaSize)
	case uint64(len(page)) > deltaWindow(len(base)):
		return nil, fmt.Errorf("make delta: page of %d bytes: %w", len(page), ErrDeltaSize)
	}
	var delta bytes.Buffer
	delta.WriteString(deltaMagic)
	sum := sha256.Sum256(base)
	delta.Write(sum[:])
	if err := writeFrame(&delta, base, page); err != nil {
		return nil, fmt.Errorf("make delta: %w", err)
	}
	frame := delta.Bytes()[DeltaHeader:]
	if got, err := applyFrame(base, frame, int64(len(page))); err != nil || !bytes.Equal(got, page) {
		return nil, fmt.Errorf("make delta: applying it does not yield the page: %v", err)
	}
	return delta.Bytes(), nil
}

// ApplyDelta returns the page that delta makes of base, if it has at most max bytes. It rejects a delta of
// another base, and one that needs more memory than RFC 9842 allows. Damage is detected, but only the digest
// of the page shows that it is the intended one.
func ApplyDelta(base, delta []byte, max int64) ([]byte, error) {
	switch {
	case len(base) > MaxDeltaBase:
		return nil, fmt.Errorf("apply delta: base of %d bytes: %w", len(base), ErrDeltaSize)
	case len(delta) < DeltaHeader || string(delta[:len(deltaMagic)]) != deltaMagic:
		return nil, errors.New("apply delta: no dcz header")
	}
	if sum := sha256.Sum256(base); !bytes.Equal(sum[:], delta[len(deltaMagic):DeltaHeader]) {
		return nil, errors.New("apply delta: made for another base")
	}
	page, err := applyFrame(base, delta[DeltaHeader:], max)
	if err != nil {
		return nil, fmt.Errorf("apply delta: %w", err)
	}
	return page, nil
}

// applyFrame returns at most most bytes. Meanwhile it may use as many as the window, if that is larger:
// streaming encoders do not know how long a page will be.
func applyFrame(base, frame []byte, most int64) ([]byte, error) {
	if !bytes.HasPrefix(frame, []byte(zstdMagic)) {
		return nil, errors.New("not a zstd frame")
	}
	if most < 0 {
		return nil, zstd.ErrDecoderSizeExceeded
	}
	d, _ := deltaDecoders.Get().(*zstd.Decoder)
	window := deltaWindow(len(base))
	options := []zstd.DOption{zstd.WithDecoderMaxMemory(max(uint64(most), window)), zstd.WithDecoderMaxWindow(window)}
	if len(base) > 0 {
		options = append(options, zstd.WithDecoderDictRaw(0, base))
	}
	var err error
	if d == nil {
		d, err = zstd.NewReader(nil, append(options, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))...)
	} else {
		err = d.ResetWithOptions(nil, options...)
	}
	if err != nil {
		return nil, err
	}
	page, err := d.DecodeAll(frame, []byte{})
	if derr := d.ResetWithOptions(nil, zstd.WithDecoderDictDelete()); derr == nil {
		deltaDecoders.Put(d) // it retains no base
	}
	if err == nil && int64(len(page)) > most {
		err = zstd.ErrDecoderSizeExceeded
	}
	if err != nil {
		return nil, err
	}
	return page, nil
}

// deltaLevel returns the level of compression for a base of n bytes. A level remembers positions in tables of
// a fixed size: for a base beyond that, a lower level makes a valid delta that finds next to nothing of the
// base. For the size of most pages, a higher level takes twice the time and saves next to nothing.
func deltaLevel(n int) zstd.EncoderLevel {
	switch {
	case n <= 256<<10:
		return zstd.SpeedDefault
	case n <= 12<<20:
		return zstd.SpeedBetterCompression
	}
	return zstd.SpeedBestCompression
}

var (
	deltaDecoders sync.Pool
	deltaEncoders sync.Pool // of level SpeedDefault, with a window of pooledWindow
)

// pooledWindow is the window of reused encoders, in bytes: base and page fit into it in most cases.
// Allocating an encoder's tables costs more than using them. It retains its last base until it is used again.
const pooledWindow = 1 << 20

// oneBlock is the size of the largest block of a frame, in bytes.
const oneBlock = 128 << 10

func writeFrame(w io.Writer, base, page []byte) error {
	level, window := deltaLevel(len(base)), pooledWindow
	var pool *sync.Pool
	if n := len(base) + len(page); n > window {
		// The encoder looks no further back than this. A reader does not need this window: the frame is
		// one segment, of the size of the page.
		window = 1 << bits.Len(uint(n))
	} else if level == zstd.SpeedDefault && len(base) > 0 {
		pool = &deltaEncoders
	}
	var dict []zstd.EOption
	if len(base) > 0 {
		dict = append(dict, zstd.WithEncoderDictRaw(0, base))
	}
	var e *zstd.Encoder
	if pool != nil {
		e, _ = pool.Get().(*zstd.Encoder)
	}
	var err error
	if e == nil {
		e, err = zstd.NewWriter(nil, append(dict, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(level), zstd.WithWindowSize(window),
			zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))...)
	} else {
		err = e.ResetWithOptions(nil, dict...)
	}
	if err != nil {
		return err
	}
	if len(page) > 0 && len(page) < oneBlock {
		// The page is written as a stream, since EncodeAll would scan the base once more, which is most of the work. A stream
		// this short is written as a single segment, too.
		e.Reset(w)
		_, err = e.Write(page)
		err = errors.Join(err, e.Close())
	} else {
		_, err = w.Write(e.EncodeAll(page, nil))
	}
	if err == nil && pool != nil {
		pool.Put(e)
	}
	return err
}
