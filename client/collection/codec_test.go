package collection_test

import (
	"bytes"
	"testing"

	"github.com/parleyweb/parley/client/collection"
)

// Malformed records are refused, whatever their bytes; an accepted record
// is encoded in a form that decodes to the same.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x00\x03\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x02\xff\xff\xff\x0f\x03\x80\x80\x80\x01\x3f\x80\x00\x00"))
	f.Add([]byte("\x00\x00\x13https://example.org\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x21\x07\x3f\x80\x00\x00\x01\x02\x00\x05/docs\x61\x01\x02\x04\x02/x"))
	f.Add([]byte("\x04\x00\x00\x00\x00\x05\x05\x00\x00\x00\x00\x06"))
	f.Add([]byte("\x01\x02\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for kind, once := range collection.ReadRecords(b) {
			twice, ok := collection.ReadRecords(once)[kind]
			if !ok || !bytes.Equal(once, twice) {
				t.Errorf("%s: %x is written as %x, and that as %x", kind, b, once, twice)
			}
		}
	})
}
