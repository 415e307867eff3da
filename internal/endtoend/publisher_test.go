package endtoend

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

// A crawler can publish: a Notifier serves a collection as it serves a site, and its followers get the same
// content.
func TestPublishCollection(t *testing.T) {
	const base = "http://site.example/"
	c := must.Get(collection.Open(t.TempDir(), nil))
	defer c.Close()
	visit := func(bodies map[string]string) {
		t.Helper()
		var turn collection.Commit
		for path := range bodies {
			turn.Finds = append(turn.Finds, collection.Find{URL: base + path})
		}
		must.Get(c.Commit(&turn))
		turn = collection.Commit{}
		for path, body := range bodies {
			p, _, err := c.Page(base + path)
			if err != nil {
				t.Fatal(err)
			}
			v := collection.Visit{Page: p.ID, Asked: time.Now(), Status: 410}
			if body != "" {
				v.Status, v.Body, v.Digest, v.Type = 200, []byte(body), protocol.Sum([]byte(body)), "text/html"
			}
			turn.Visits = append(turn.Visits, v)
		}
		must.Get(c.Commit(&turn))
	}

	n := &doors.Notifier{Log: c.Log(), Base: base}
	site := httptest.NewServer(n)
	defer site.Close()
	defer n.Close(context.Background())
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, site.Listener.Addr().String())
	}
	source := &client.Source{Base: base, HTTP: &http.Client{Transport: &http.Transport{DialContext: dial}}}

	turns := []map[string]string{
		{"a": "one", "b": "two", "c": "three"},
		{"a": "one, changed", "d": "four"},
		{"b": "", "c": "three"},
	}
	want := map[string]protocol.Digest{}
	held := map[string]protocol.Digest{}
	cursor := c.Log().Floor()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, turn := range turns {
		visit(turn)
		for path, body := range turn {
			if delete(want, base+path); body != "" {
				want[base+path] = protocol.Sum([]byte(body))
			}
		}
		head := c.Log().Head()
		for step, err := range client.Follow(ctx, source, cursor) {
			if err != nil {
				t.Fatal(err)
			}
			for _, ch := range step.Changes {
				if delete(held, ch.Item.URL); ch.Op != protocol.Delete {
					held[ch.Item.URL] = ch.Item.Digest
				}
			}
			if cursor = step.Cursor; cursor == head {
				break
			}
		}
		if cursor != head || !maps.Equal(held, want) {
			t.Fatalf("at %v of %v: %d pages, want %d", cursor, head, len(held), len(want))
		}
	}
}
