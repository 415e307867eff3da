package wsconn_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
)

const packedProtocol = "packed.v1"

// deflated is a Packing.
type deflated struct{}

func (deflated) Pack(text []byte) []byte {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, 5)
	if err != nil {
		panic(err)
	}
	z.Write(text)
	z.Close()
	return b.Bytes()
}

func (deflated) Unpack(packed []byte, max int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), max+1))
	if err == nil && int64(len(text)) > max {
		err = errors.New("too long")
	}
	return text, err
}

// Peers that can both unpack send each other packed messages, and plain ones to other peers.
func TestCompressedMessages(t *testing.T) {
	packed := map[string]wsconn.Packing{packedProtocol: deflated{}}
	both := wsconn.Options{Subprotocols: []string{packedProtocol, subprotocol}, Packed: packed, MaxMessage: 1 << 20}
	url := serve(t, both, echo)
	for _, offered := range [][]string{{packedProtocol}, {subprotocol}, {subprotocol, packedProtocol}, {packedProtocol, subprotocol}} {
		o := both
		o.Subprotocols = offered
		c := must.Get(wsconn.Dial(t.Context(), url, nil, nil, o))
		defer c.Close(1000, "")
		want := packedProtocol // what the server prefers
		if len(offered) == 1 {
			want = offered[0]
		}
		if c.Subprotocol() != want {
			t.Errorf("offered %v: subprotocol is %q", offered, c.Subprotocol())
		}
		for _, s := range []string{"", "a", strings.Repeat("grüß Gott", 10_000)} {
			packing := packed[c.Subprotocol()]
			p := wsconn.Prepare([]byte(s), packing)
			if packing != nil && len(s) > 1000 && len(packing.Pack([]byte(s))) > len(s)/20 {
				t.Errorf("%d bytes are compressed to %d", len(s), len(packing.Pack([]byte(s))))
			}
			must.OK(t, errors.Join(c.Write(t.Context(), []byte(s)), c.WritePrepared(t.Context(), p)))
			for range 2 {
				if got, err := c.Read(t.Context()); err != nil || string(got) != s {
					t.Fatalf("%.20q: %d bytes came back, error %v", s, len(got), err)
				}
			}
		}
	}
}

// A message that cannot be unpacked, or is too long unpacked, ends the connection with a clear error.
func TestHostileCompressedMessages(t *testing.T) {
	o := wsconn.Options{Subprotocols: []string{packedProtocol}, Packed: map[string]wsconn.Packing{packedProtocol: deflated{}}, MaxMessage: 1000}
	url := serve(t, o, echo)
	for name, c := range map[string]struct {
		kind    int
		message []byte
		code    int
	}{
		"text":         {websocket.TextMessage, []byte("x"), 1003},
		"garbage":      {websocket.BinaryMessage, []byte("\xff\xff"), 1007},
		"too long":     {websocket.BinaryMessage, deflated{}.Pack(make([]byte, 100_000)), 1007},
		"not UTF-8":    {websocket.BinaryMessage, deflated{}.Pack([]byte("\xff")), 1007},
		"long, packed": {websocket.BinaryMessage, make([]byte, 2000), 1009},
	} {
		d := websocket.Dialer{Subprotocols: []string{packedProtocol}}
		ws, _, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), nil)
		if err != nil {
			t.Fatal(err)
		}
		must.OK(t, ws.WriteMessage(c.kind, c.message))
		_, _, err = ws.ReadMessage()
		var bye *websocket.CloseError
		if !errors.As(err, &bye) || bye.Code != c.code {
			t.Errorf("%s: %v, want code %d", name, err, c.code)
		}
		ws.Close()
	}
}
