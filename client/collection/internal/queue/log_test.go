package queue

import (
	"bytes"
	"testing"

	"github.com/parleyweb/parley/client/collection/internal/record"
)

// Malformed records of the log are refused, whatever their bytes; an accepted record is encoded in a form that
// decodes to the same.
func FuzzLog(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x00\x03\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x02\xff\xff\xff\x0f\x03\x80\x80\x80\x01\x3f\x80\x00\x00"))
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

// rewrite decodes the operations and one list of rows of a record, and encodes them again.
func rewrite(body []byte) ([]byte, bool) {
	d := &record.Decoder{B: body}
	var ops []staged
	var list []row
	parseOps(d, func(o staged) { ops = append(ops, o) })
	parseRows(d, func(x row) { list = append(list, x) })
	return appendRows(appendOps(nil, ops), list), !d.Bad && len(d.B) == 0
}
