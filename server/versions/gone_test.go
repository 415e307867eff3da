package versions_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

// doors returns a function that fetches a notifier's responses with bodies, unpacked. Of the changes door
// it fetches all responses up to the head, as a reader does: each may have fewer changes than it asked for.
func (r *rig) doors() func(ref string) []byte {
	n := &doors.Notifier{Log: r.journal, Base: base, Public: r.site.Public, Content: doors.Content{Pages: r.store}}
	web := httptest.NewServer(n)
	r.t.Cleanup(func() {
		web.CloseClientConnections()
		r.ok(n.Close(context.Background()))
		web.Close()
	})
	get := func(ref string) []byte {
		r.t.Helper()
		resp := must.Get(http.Get(web.URL + "/parley/" + ref))
		defer resp.Body.Close()
		var in io.Reader = resp.Body
		if resp.Header.Get("Content-Type") == "application/warc" {
			in = must.Get(gzip.NewReader(in))
		}
		b := must.Get(io.ReadAll(in))
		if resp.StatusCode != http.StatusOK {
			r.t.Fatalf("%s: %s: %s", ref, resp.Status, b)
		}
		return b
	}
	return func(ref string) []byte {
		r.t.Helper()
		door, after, ok := strings.Cut(ref, "&after=")
		if !ok {
			return get(ref)
		}
		at := must.Get(protocol.ParseCursor(after))
		var all []byte
		for at != r.journal.Head() {
			b := get(door + "&after=" + at.String())
			m := must.Get(protocol.ParseMessage(b))
			if m.To == at {
				r.t.Fatalf("%s&after=%s: no changes: %.200s", door, at, b)
			}
			all, at = append(all, b...), m.To
		}
		return all
	}
}

// No replay delivers the bytes of a page that was removed, even if they are already packed or stored; nor the
// bytes of its earlier versions.
func TestReplayOmitsBytesOfRemovedPages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(41, 42))
	r := newRig(t, nil)
	r.publisher.Pace.Grace = time.Hour
	r.first(map[string][]byte{"index.html": text(rnd, 3000), "other.html": text(rnd, 3000)})
	begin := r.journal.Head()
	secret := []byte("<p>the password is 12345, and more")
	r.write("secret.html", secret)
	r.look()
	r.write("index.html", bytes.Replace(secret, []byte("12345"), []byte("67890"), 1))
	r.look()
	made := r.journal.Head()
	tell := r.doors()
	batch := "batch?after=" + begin.String() + "&to=" + made.String()
	page := "changes?as=page&limit=2&after=" + begin.String()
	for _, ref := range []string{batch, page, batch} {
		if b := tell(ref); !bytes.Contains(b, []byte("12345")) || !bytes.Contains(b, []byte("67890")) {
			t.Errorf("%s does not deliver the pages: %.200s", ref, b)
		}
	}
	never := func(what string) {
		t.Helper()
		b, err := r.page(base+"secret.html", secret)
		noVersion(t, what, b, err)
		b, err = r.store.Version(context.Background(), item(base+"secret.html", secret), 1<<20)
		noVersion(t, what, b, err)
		b, err = r.delta(base+"secret.html", secret, secret)
		noVersion(t, what, b, err)
		for _, ref := range []string{batch, page, "changes?as=delta&limit=2&after=" + begin.String()} {
			if b := tell(ref); bytes.Contains(b, []byte("12345")) {
				t.Errorf("%s: %s delivers the removed text: %.2000s", what, ref, b)
			}
		}
	}
	r.remove("secret.html")
	r.look() // it has vanished, but no deletion is published yet
	if e, ok, err := r.journal.Get(base + "secret.html"); !ok || err != nil || e.Held.IsZero() {
		t.Fatalf("%+v, %v, %v", e, ok, err)
	}
	never("held")
	must.Get(r.publisher.AcceptDeletions(context.Background()))
	if _, ok, err := r.journal.Get(base + "secret.html"); ok || err != nil {
		t.Fatalf("the removed page is available: %v", err)
	}
	never("gone")
	// The same for an old version of an existing page.
	r.write("index.html", []byte("<p>no word of it"))
	r.look()
	for _, ref := range []string{batch, page} {
		if b := tell(ref); bytes.Contains(b, []byte("67890")) {
			t.Errorf("%s delivers the page's earlier text: %.2000s", ref, b)
		}
	}
}

// The stored versions of a page are removed when it is deleted, and when it has moved.
func TestVersionsOfDeletedPagesAreRemoved(t *testing.T) {
	rnd := rand.New(rand.NewPCG(43, 44))
	r := newRig(t, nil)
	one, two := text(rnd, 3000), text(rnd, 3000)
	r.first(map[string][]byte{"index.html": text(rnd, 3000), "from.html": one, "gone.html": two})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { r.store.Run(ctx) })
	defer run.Wait()
	defer cancel()
	r.kept(3)
	r.remove("gone.html")
	must.Get(r.publisher.AcceptDeletions(context.Background()))
	r.kept(2)
	r.remove("from.html")
	r.write("to.html", one)
	must.Get(r.publisher.AcceptDeletions(context.Background()))
	changes := must.Get(r.journal.Read(context.Background(), r.journal.Floor(), 0))
	if c := changes[len(changes)-1]; c.Op != protocol.Move {
		t.Fatalf("%+v", c)
	}
	// The page at the new place was stored when it was read.
	for end := time.Now().Add(20 * time.Second); len(r.files()) != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("stored are %v", r.files())
		}
	}
	if b, err := r.page(base+"to.html", one); err != nil || !bytes.Equal(b, one) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
