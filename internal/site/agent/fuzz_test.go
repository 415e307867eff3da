package agent

import (
	"bytes"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// An answer of a process is bounded before it is read, and a frame that is sent is received unchanged.
func FuzzReceive(f *testing.F) {
	var b bytes.Buffer
	send(&b, kindAnswer, []byte("\x01output"))
	f.Add(b.Bytes())
	f.Add([]byte{kindFailure, 3, 0, 0, 0, 'b', 'a', 'd'})
	f.Add([]byte{kindAnswer, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		kind, content, err := receive(bytes.NewReader(in), kindAnswer, 1+protocol.MaxInline)
		if err != nil {
			return
		}
		if kind != kindAnswer && (kind != kindFailure || len(content) > maxReason) || len(content) > 1+protocol.MaxInline {
			t.Fatalf("received %q and %d bytes", kind, len(content))
		}
		var out bytes.Buffer
		if err := send(&out, kind, content); err != nil || !bytes.HasPrefix(in, out.Bytes()) {
			t.Fatalf("%q comes back as %q, %v", in, out.Bytes(), err)
		}
		v, err := verdict(content)
		if err == nil && (len(v.Output) != len(content)-1 || v.Tell != (content[0] == 1)) {
			t.Errorf("%q is the verdict %+v", content, v)
		}
	})
}
