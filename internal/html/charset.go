package html

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// toUTF8 decodes UTF-16 that has a byte order mark, and leaves such a mark of
// UTF-8 out. It returns anything else as it is.
func toUTF8(b []byte) []byte {
	little := bytes.HasPrefix(b, []byte{0xff, 0xfe})
	if !little && !bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return bytes.TrimPrefix(b, []byte("\uFEFF"))
	}
	unit := func(i int) rune {
		if little {
			return rune(b[i]) | rune(b[i+1])<<8
		}
		return rune(b[i])<<8 | rune(b[i+1])
	}
	out := make([]byte, 0, len(b)/2)
	for i := 2; i+1 < len(b); i += 2 {
		r := unit(i)
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if i+3 < len(b) {
				pair = utf16.DecodeRune(r, unit(i+2))
			}
			if r = pair; r != utf8.RuneError {
				i += 2
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}
