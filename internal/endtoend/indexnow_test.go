package endtoend

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/internal/engine/indexnow"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

// Our sender notifies our receiver: the crawler is asked to visit exactly the pages in the site's journal,
// and accepts that only from the site itself.
func TestIndexNowFromSiteToCrawler(t *testing.T) {
	for _, sub := range []string{"", "docs/"} { // the second needs a keyLocation
		t.Run("/"+sub, func(t *testing.T) { tellByIndexNow(t, sub) })
	}
}

func tellByIndexNow(t *testing.T, sub string) {
	var stored []string
	var mu sync.Mutex
	receiver := &indexnow.Receiver{
		Accept: func(_ context.Context, urls []string) error {
			mu.Lock()
			defer mu.Unlock()
			stored = append(stored, urls...)
			return nil
		},
		Transport: func(string) http.RoundTripper { return http.DefaultTransport },
	}
	ctx, cancel := context.WithCancel(t.Context())
	var owned sync.WaitGroup
	owned.Go(func() {
		if err := receiver.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	defer owned.Wait()
	defer cancel()
	for !receiver.Running() {
		runtime.Gosched()
	}
	engine := httptest.NewServer(receiver)
	defer engine.Close()

	// The site serves its key at first, and later not found.
	var sender *ping.IndexNow
	var broken atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.NotFound(w, r)
			return
		}
		sender.ServeHTTP(w, r)
	}))
	defer web.Close()

	state := must.Get(journal.Open(filepath.Join(t.TempDir(), "state"), nil))
	defer state.Close()
	must.OK(t, state.EndBaseline())
	base := web.URL + "/" + sub
	sender = &ping.IndexNow{Options: ping.IndexNowOptions{Journal: state, Base: base, Engines: []string{engine.URL + "/indexnow"}, Key: "0123456789abcdef"}}
	turn := func(wantSent int) {
		t.Helper()
		r, err := sender.Turn(ctx)
		if err != nil || r.Sent != wantSent {
			t.Fatalf("turn: %+v, %v; want %d sent", r, err, wantSent)
		}
	}
	change := func(op protocol.Op, name string) {
		t.Helper()
		must.Get(state.Append(ctx, []journal.Step{{Op: op, Entry: journal.Entry{Item: protocol.Item{URL: base + name, Length: -1}}}}))
	}
	turn(0)
	change(protocol.Create, "new.html")
	change(protocol.Create, "a%20b.html")
	turn(2)
	mu.Lock()
	got := slices.Sorted(slices.Values(stored))
	mu.Unlock()
	if want := []string{base + "a%20b.html", base + "new.html"}; !slices.Equal(got, want) {
		t.Errorf("the crawler was notified of %q, want %q", got, want)
	}
	st := must.Get(sender.Status())
	if s := st.Engines[0]; s.Key != ping.KeyAccepted || s.Trouble != "" {
		t.Errorf("status of the sender: key %s, trouble %q", s.Key, s.Trouble)
	}

	// A request that is not from the site is refused.
	broken.Store(true)
	forged := must.Get(http.Get(engine.URL + "/?key=another-key-of-his&url=" + base + "new.html"))
	forged.Body.Close()
	if forged.StatusCode != http.StatusForbidden {
		t.Errorf("a forged notice is answered with %s", forged.Status)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(stored) != 2 {
		t.Errorf("a forged notice is stored: %q", stored)
	}
}
