package versions_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/versions"
)

// On a nearly full disk no version is stored, and stored ones are deleted: the journal needs the space more.
// This is logged once, and pages are served as usual.
func TestNearlyFullDisk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(51, 52))
	r := newRig(t, nil)
	one, two := text(rnd, 6000), text(rnd, 6000)
	r.first(map[string][]byte{"index.html": one, "b.html": two})
	if st := r.store.Stats(); st.Versions != 2 || st.Trouble {
		t.Fatalf("%+v", st)
	}
	r.open(func(s *versions.Store) { s.Reserve = math.MaxInt64 })
	for range 3 {
		one = edited(rnd, one)
		r.write("index.html", one)
		r.look()
		if got, err := r.page(base, one); err != nil || !bytes.Equal(got, one) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if st := r.store.Stats(); st.Versions != 0 || st.Bytes != 0 || !st.Trouble {
		t.Errorf("%+v", st)
	}
	if files := r.files(); len(files) > 0 {
		t.Errorf("files on disk: %v", files)
	}
	if n := strings.Count(r.logged.String(), "\n"); n != 1 || !strings.Contains(r.logged.String(), "nearly full") {
		t.Errorf("%d lines: %s", n, r.logged)
	}
	r.open(nil)
	r.write("index.html", edited(rnd, one))
	r.look()
	if st := r.store.Stats(); st.Versions == 0 || st.Trouble {
		t.Errorf("with room again: %+v", st)
	}
}

// A page that cannot be opened is served by no door, even if it is stored; it is served again once it can be
// opened.
func TestUnopenablePageIsNotServed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(53, 54))
	var shut atomic.Bool
	secret := base + "secret.html"
	r := newRig(t, nil)
	r.open(func(s *versions.Store) {
		open := s.Open
		s.Open = func(ctx context.Context, url string) (io.ReadCloser, error) {
			if shut.Load() && url == secret {
				return nil, &fs.PathError{Op: "open", Path: "secret.html", Err: syscall.EACCES}
			}
			return open(ctx, url)
		}
	})
	r.first(map[string][]byte{"index.html": text(rnd, 3000)})
	begin := r.journal.Head()
	was := append([]byte("<p>the password is 12345, and more"), text(rnd, 3000)...)
	is := append([]byte("<p>it is 12345 still, and more"), was...)
	r.write("secret.html", was)
	r.look()
	r.write("secret.html", is)
	r.look()
	door := httptest.NewServer(&versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public})
	defer door.Close()
	sum := protocol.Sum(is)
	get := func(header ...string) int {
		t.Helper()
		req := must.Get(http.NewRequest("GET", door.URL+"/secret.html", nil))
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp := must.Get(http.DefaultClient.Do(req))
		resp.Body.Close()
		return resp.StatusCode
	}
	tell := r.doors()
	refs := []string{
		"batch?after=" + begin.String() + "&to=" + r.journal.Head().String(),
		"changes?as=page&after=" + begin.String(),
	}
	known := []string{"If-None-Match", `"` + hex.EncodeToString(sum[:]) + `"`}
	check := func(open bool) {
		t.Helper()
		for range 2 { // packed, and from the stored copy of that
			for _, ref := range refs {
				if b := tell(ref); bytes.Contains(b, []byte("12345")) != open {
					t.Errorf("open: %v, and %s: %.200s", open, ref, b)
				}
			}
		}
		page, knows := http.StatusNotFound, http.StatusNotFound
		if open {
			page, knows = http.StatusOK, http.StatusNotModified
		}
		if n := get(); n != page {
			t.Errorf("open: %v, and the page: %d", open, n)
		}
		if n := get(known...); n != knows {
			t.Errorf("open: %v, and whoever has it: %d", open, n)
		}
		if open {
			r.leads(secret, was, is)
			return
		}
		b, err := r.page(secret, is)
		noVersion(t, "the page", b, err)
		b, err = r.store.Version(context.Background(), item(secret, was), 1<<20)
		noVersion(t, "the earlier version", b, err)
		b, err = r.delta(secret, was, is)
		noVersion(t, "the difference", b, err)
		if r.store.Present(item(secret, is)) {
			t.Error("Present reports an unopenable page")
		}
	}
	check(true)
	shut.Store(true)
	check(false)
	shut.Store(false)
	check(true)
}

// A withdrawn page does not come back from memory when the page itself returns, whether versions are stored
// on disk or not.
func TestWithdrawnPageLeavesMemory(t *testing.T) {
	for _, where := range []string{"disk", "memory"} {
		t.Run(where, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(55, 56))
			r := newRig(t, func(s *versions.Store) {
				if where == "memory" {
					s.Dir = ""
				}
			})
			r.first(map[string][]byte{"index.html": text(rnd, 3000), "page.html": text(rnd, 3000)})
			ctx, cancel := context.WithCancel(context.Background())
			var run sync.WaitGroup
			run.Go(func() { r.store.Run(ctx) })
			defer run.Wait()
			defer cancel()
			secret := append([]byte("<p>the password is 12345"), text(rnd, 3000)...)
			r.write("page.html", secret)
			r.look()
			version := func() ([]byte, error) {
				return r.store.Version(context.Background(), item(base+"page.html", secret), 1<<20)
			}
			// Run must have followed to this point: what it does at its start also clears the memory.
			r.write("gone.html", text(rnd, 3000))
			r.look()
			if where == "disk" {
				r.kept(4)
			}
			if b, err := version(); err != nil || !bytes.Equal(b, secret) {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			r.write("robots.txt", []byte("User-agent: *\nDisallow: /page.html\n"))
			must.Get(r.publisher.AcceptDeletions(context.Background()))
			if _, ok, err := r.journal.Get(base + "page.html"); ok || err != nil {
				t.Fatalf("the withdrawn page is still delivered: %v", err)
			}
			r.write("page.html", text(rnd, 3000))
			r.write("robots.txt", []byte("User-agent: *\nDisallow: /other\n"))
			r.site.AcceptRobots()
			r.look()
			if e, ok, err := r.journal.Get(base + "page.html"); !ok || err != nil || e.Item.Digest == protocol.Sum(secret) {
				t.Fatalf("%+v, %v, %v", e, ok, err)
			}
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				b, err := version()
				if err != nil {
					noVersion(t, "withdrawn", b, err)
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the withdrawn bytes come back: %.100s", b)
				}
			}
		})
	}
}
