package wsconn_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/wsconn"
)

// Messages are sent to a peer that does not read, until its socket takes no more. When the peer reads, it gets all of them, whole and in
// order.
func TestTryWrite(t *testing.T) {
	o := wsconn.Options{Subprotocols: []string{subprotocol}, MaxMessage: 1 << 20}
	var tried, flushed sync.WaitGroup
	const each, enough = 100_000, 10_000 // bytes; messages that no socket buffers
	text := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), each) }
	sent := 0 // by the sender, until the peer takes no more
	tried.Add(1)
	flushed.Add(1)
	url := serve(t, o, func(ctx context.Context, c *wsconn.Conn) {
		if !c.CanTry() {
			t.Error("a connection over TCP cannot be tried")
		}
		for done := true; done && sent < enough; sent++ {
			var err error
			if done, err = c.TryWrite(wsconn.Prepare([]byte(text(sent)), nil)); err != nil {
				t.Error(err)
				break
			}
		}
		tried.Done()
		if err := c.Flush(ctx); err != nil {
			t.Error(err)
		}
		if err := c.Write(ctx, []byte("end")); err != nil {
			t.Error(err)
		}
		flushed.Wait()
	})
	c := dial(t, url, o)
	tried.Wait() // nobody reads
	if sent == 0 || sent == enough {
		t.Fatalf("%d messages were sent at once", sent)
	}
	for i := range sent + 1 {
		want := "end"
		if i < sent {
			want = text(i)
		}
		got, err := c.Read(t.Context())
		if err != nil || string(got) != want {
			t.Fatalf("message %d of %d: %d bytes %.10q, error %v", i, sent, len(got), got, err)
		}
	}
	flushed.Done()
}
