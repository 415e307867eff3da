package versions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

const base = "https://www.example.org/"

// A rig is a site that is scanned when the test says so.
type rig struct {
	t         testing.TB
	dir       string
	site      *server.Site
	journal   *server.Journal
	publisher *server.Publisher
	store     *versions.Store
	logged    *bytes.Buffer // by the store
}

func newRig(t testing.TB, set func(*versions.Store)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.ok(os.Mkdir(filepath.Join(r.dir, "www"), 0o755))
	r.site = &server.Site{Docroot: filepath.Join(r.dir, "www"), Base: base}
	r.journal = must.Get(server.OpenJournal(context.Background(), filepath.Join(r.dir, "state"), server.JournalOptions{Base: base}))
	t.Cleanup(func() { r.journal.Close() })
	r.open(set)
	return r
}

// open creates a new store over the files of an earlier one, as after a restart.
func (r *rig) open(set func(*versions.Store)) {
	r.logged = new(bytes.Buffer)
	r.store = &versions.Store{Dir: filepath.Join(r.dir, "versions"), Journal: r.journal, Open: r.site.OpenPage, Public: r.site.Public,
		Log: slog.New(slog.NewTextHandler(r.logged, nil))}
	if set != nil {
		set(r.store)
	}
	snapshot := &manifest.Snapshot{Path: filepath.Join(r.dir, "robots.rdf"), Manifest: doors.Describe(base), Public: r.site.Public}
	r.publisher = &server.Publisher{Inventory: r.store.Keeping(r.site), Journal: r.journal, Snapshot: snapshot}
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) write(place string, page []byte) {
	r.t.Helper()
	name := filepath.Join(r.site.Docroot, filepath.FromSlash(place))
	r.ok(os.MkdirAll(filepath.Dir(name), 0o755))
	r.ok(os.WriteFile(name+"~", page, 0o644))
	r.ok(os.Rename(name+"~", name))
}

func (r *rig) remove(place string) {
	r.t.Helper()
	r.ok(os.Remove(filepath.Join(r.site.Docroot, filepath.FromSlash(place))))
}

// look scans everything.
func (r *rig) look() {
	r.t.Helper()
	must.Get(r.publisher.Turn(context.Background()))
}

// first writes some pages and runs the first scan.
func (r *rig) first(pages map[string][]byte) {
	r.t.Helper()
	for place, page := range pages {
		r.write(place, page)
	}
	r.look()
	r.ok(r.store.Fill(context.Background()))
}

func item(url string, page []byte) *protocol.Item {
	return &protocol.Item{URL: url, Digest: protocol.Sum(page), Length: int64(len(page)), Type: "text/html"}
}

func (r *rig) page(url string, page []byte) ([]byte, error) {
	return r.store.Page(context.Background(), item(url, page), 1<<20)
}

func (r *rig) delta(url string, was, is []byte) ([]byte, error) {
	return r.store.Delta(context.Background(), item(url, is), protocol.Sum(was))
}

// leads checks that a delta is available and correct.
func (r *rig) leads(url string, was, is []byte) {
	r.t.Helper()
	delta, err := r.delta(url, was, is)
	if err != nil {
		r.t.Errorf("%s: %v", url, err)
		return
	}
	if got, err := coding.ApplyDelta(was, delta, int64(len(is))); err != nil || !bytes.Equal(got, is) {
		r.t.Errorf("%s: %d bytes of %d, %v", url, len(got), len(is), err)
	}
}

// noVersion checks that the error is ErrNoVersion.
func noVersion(t *testing.T, what string, b []byte, err error) {
	t.Helper()
	if !errors.Is(err, content.ErrNoVersion) {
		t.Errorf("%s: %d bytes, %v", what, len(b), err)
	}
}

// text returns a page of about n bytes, which gzip reduces to a third.
func text(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	b.WriteString("<title>A page</title>\n")
	for b.Len() < n {
		fmt.Fprintf(&b, "<p>%x is %d, and %s.</p>\n", r.Uint64(), r.IntN(1000), []string{"red", "green", "no colour", "blue or so"}[r.IntN(4)])
	}
	return b.Bytes()
}

// noise returns an incompressible page of n bytes.
func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// edited returns a page with a few edits.
func edited(r *rand.Rand, page []byte) []byte {
	page = bytes.Clone(page)
	for range 1 + r.IntN(4) {
		i := r.IntN(len(page) + 1)
		j := min(len(page), i+r.IntN(300))
		switch r.IntN(3) {
		case 0:
			page = append(page[:i:i], append([]byte(fmt.Sprintf("<p>News: %x</p>", r.Uint64())), page[i:]...)...)
		case 1:
			page = append(page[:i:i], page[j:]...)
		case 2:
			page = append(append(page[:i:i], page[j:]...), page[i:j]...)
		}
	}
	return append(page, fmt.Sprintf("<!-- %x -->", r.Uint64())...)
}
