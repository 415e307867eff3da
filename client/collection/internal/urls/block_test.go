package urls

import (
	"bytes"
	"testing"

	"github.com/parleyweb/parley/client/collection/internal/record"
)

// Malformed blocks are refused, whatever their bytes; an accepted block is encoded in a form that decodes to the
// same.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x00\x03\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x21\x07\x3f\x80\x00\x00\x01\x02\x00\x05/docs\x61\x01\x02\x04\x02/x"))
	f.Add([]byte("\x01\x02\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, ok := rewrite(b)
		if !ok {
			return
		}
		if twice, ok := rewrite(once); !ok || !bytes.Equal(once, twice) {
			t.Errorf("%x is written as %x, and that as %x", b, once, twice)
		}
	})
}

// rewrite decodes a block, and encodes it again.
func rewrite(body []byte) (w []byte, ok bool) {
	key := blockKey(70)
	var b Block
	if err := b.open(key[:], record.Seal(bytes.Clone(body), key[:], 0)); err != nil {
		return nil, false
	}
	var prev Known
	for b.next(&b.d) {
		k := b.Known
		k.Path = bytes.Clone(k.Path)
		w = appendKnown(w, &prev, &k)
		prev = k
	}
	return w, !b.d.Bad
}
