package coding

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// messageWindow bounds the window of a frame of Messages, in bytes.
const messageWindow = 1 << 20

// Messages packs short texts, each into a Zstandard frame of its own, and unpacks untrusted ones. The zero
// Messages is ready and safe for concurrent use; it allocates an encoder or decoder only when needed.
type Messages struct {
	packing   sync.Once
	encoder   *zstd.Encoder
	unpacking sync.Once
	decoder   *zstd.Decoder
}

// Pack returns text as one frame, which states its length.
func (m *Messages) Pack(text []byte) []byte {
	m.packing.Do(func() {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(messageWindow),
			zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
		if err != nil {
			panic("coding: " + err.Error()) // the options above are wrong
		}
		m.encoder = z
	})
	return m.encoder.EncodeAll(text, make([]byte, 0, len(text)/3+64))
}

// Unpack returns the content of a frame. A frame with more than max bytes, or one that needs more memory than
// that, is an error before any is allocated; so is anything but one whole frame.
func (m *Messages) Unpack(packed []byte, max int64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(packed); err != nil {
		return nil, fmt.Errorf("read zstd: %w", whole(err))
	}
	switch {
	case h.Skippable || !h.HasFCS:
		return nil, fmt.Errorf("read zstd: frame does not state its content size")
	case h.FrameContentSize > uint64(max):
		return nil, fmt.Errorf("read zstd: frame of %d bytes, more than %d", h.FrameContentSize, max)
	}
	m.unpacking.Do(func() {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxBodyWindow), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic("coding: " + err.Error()) // the options above are wrong
		}
		m.decoder = z
	})
	text, err := m.decoder.DecodeAll(packed, make([]byte, 0, h.FrameContentSize))
	if err != nil {
		return nil, fmt.Errorf("read zstd: %w", whole(err))
	}
	if uint64(len(text)) != h.FrameContentSize {
		return nil, fmt.Errorf("read zstd: more than one frame")
	}
	return text, nil
}
