package adjacency

import (
	"bytes"
	"testing"
)

// Malformed links are refused, whatever their bytes; accepted ones are encoded in a form that decodes to the same.
func FuzzLinks(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x03"))
	f.Add([]byte("\x01\x02\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, ok := ParseLinks(nil, b)
		if !ok {
			return
		}
		once := appendLinks(nil, list)
		again, ok := ParseLinks(nil, once)
		if twice := appendLinks(nil, again); !ok || !bytes.Equal(once, twice) {
			t.Errorf("%x is written as %x, and that as %x", b, once, twice)
		}
		ParseReferences([]byte("key"), b)
	})
}
