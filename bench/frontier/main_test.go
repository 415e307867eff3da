package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// Parley's side executes orders, and reports its work.
func TestSideExecutesOrders(t *testing.T) {
	var in, out bytes.Buffer
	order := func(op byte, n int, body []byte) {
		in.Write(binary.LittleEndian.AppendUint32([]byte{op}, uint32(n)))
		in.Write(body)
	}
	urls := newURLs(3000)
	order('I', 2000, urls.next(2000))
	order('I', 1000, urls.next(1000))
	order('R', 400, nil)
	order('S', 0, nil)
	order('V', 500, nil)
	must.OK(t, serve(t.TempDir(), &in, &out))
	results := json.NewDecoder(&out)
	for i, done := range []int{2000, 1000, 400, 0, 500} {
		var r result
		if err := results.Decode(&r); err != nil || r.Error != "" {
			t.Fatalf("order %d: %v %s", i, err, r.Error)
		}
		if r.Done != done {
			t.Errorf("order %d: %d are done, want %d", i, r.Done, done)
		}
		if r.Disk == 0 && done == 0 {
			t.Errorf("nothing is on the disk: %+v", r)
		}
	}
}
