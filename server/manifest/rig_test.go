package manifest_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/manifest"
)

const base = "https://site.example/"

// A rig is a site whose manifest is written straight from its journal.
type rig struct {
	*testing.T
	dir       string
	journal   *journal.Journal
	snapshot  *manifest.Snapshot
	forbidden map[string]bool
	now       time.Time
	checked   map[string]bool // URLs of parts whose siblings were compared
}

func newRig(t *testing.T, parts int) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir(), forbidden: map[string]bool{}, checked: map[string]bool{}, now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
	r.open(parts)
	r.must(r.journal.EndBaseline())
	return r
}

// open opens the journal, as another process would.
func (r *rig) open(parts int) {
	r.Helper()
	if r.journal != nil {
		r.must(r.journal.Close())
	}
	j := must.Get(journal.Open(filepath.Join(r.dir, "state"), nil))
	r.Cleanup(func() { j.Close() })
	r.journal = j
	r.snapshot = &manifest.Snapshot{Path: r.path(), Parts: parts, Now: func() time.Time { return r.now },
		Manifest: protocol.Manifest{URL: base + "robots.rdf", Base: base}, Public: func(url string) bool { return !r.forbidden[url] }}
	r.snapshot.SmallParts(40, 100)
}

func (r *rig) path() string { return filepath.Join(r.dir, "robots.rdf") }

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func page(n int, text string) protocol.Item {
	return protocol.Item{URL: fmt.Sprintf("%sdir%d/p%d?a&b", base, n%7, n), Title: text, Length: int64(len(text)), Digest: protocol.Sum([]byte(text)),
		Modified: time.UnixMilli(1_700_000_000_000).UTC()}
}

func (r *rig) append(steps ...journal.Step) {
	r.Helper()
	for list := range slices.Chunk(steps, protocol.MaxBatch) {
		must.Get(r.journal.Append(r.Context(), list))
	}
}

func create(it protocol.Item) journal.Step {
	return journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}}
}

func remove(url string) journal.Step {
	return journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: url, Length: -1}}}
}

// fill adds pages from..to-1.
func (r *rig) fill(from, to int) {
	r.Helper()
	var steps []journal.Step
	for n := from; n < to; n++ {
		steps = append(steps, create(page(n, fmt.Sprint("text of ", n))))
	}
	r.append(steps...)
}

func (r *rig) write() bool {
	r.Helper()
	return must.Get(r.snapshot.Write(r.Context(), r.journal))
}

// items are what a site has, by URL.
type items map[string]protocol.Item

// truth returns what the journal has and may publish.
func (r *rig) truth() items {
	r.Helper()
	v := must.Get(r.journal.View())
	defer v.Close()
	all := items{}
	for e, err := range v.Entries() {
		r.must(err)
		if !r.forbidden[e.Item.URL] {
			all[e.Item.URL] = e.Item
		}
	}
	return all
}

// head reads the file.
func (r *rig) head() protocol.Manifest {
	r.Helper()
	f := must.Get(os.Open(r.path()))
	defer f.Close()
	return must.Get(protocol.ReadManifestHead(f, protocol.ManifestOptions{URL: base + "robots.rdf", Origin: base}))
}

// open returns the content of a part as a web server would serve it.
func (r *rig) part(p *protocol.Part) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.dir, strings.TrimPrefix(p.URL, base)))
}

// published returns what a reader of the files learns, from an index or from one file.
func (r *rig) published() items {
	r.Helper()
	all := items{}
	head := r.head()
	if head.Whole != nil {
		for rec, err := range head.Whole.Snapshot(r.part, protocol.ManifestOptions{}) {
			r.must(err)
			all[rec.Item.URL] = rec.Item
		}
		return all
	}
	f := must.Get(os.Open(r.path()))
	defer f.Close()
	for m := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: base + "robots.rdf"}); ; {
		rec, err := m.Next()
		if err == io.EOF {
			return all
		}
		r.must(err)
		if rec.Gone == nil {
			all[rec.Item.URL] = rec.Item
		}
	}
}

func (r *rig) same(what string, got, want items) {
	r.Helper()
	for url, it := range want {
		if g, ok := got[url]; !ok || !g.Equal(it) || g.Title != it.Title || g.Importance != it.Importance {
			r.Fatalf("%s: %s is %+v, want %+v", what, url, got[url], it)
		}
	}
	if len(got) != len(want) {
		r.Fatalf("%s: %d items, want %d", what, len(got), len(want))
	}
}

// check compares the files with the journal. Each sibling has the content of its part.
func (r *rig) check(what string) {
	r.Helper()
	r.same(what, r.published(), r.truth())
	w := r.head().Whole
	if w == nil {
		return
	}
	for _, p := range slices.Concat(w.Parts, w.Changed) {
		if r.checked[p.URL] {
			continue
		}
		r.checked[p.URL] = true
		b := must.Get(r.part(&p))
		for _, ext := range []string{".gz", ".zst"} {
			f, err := os.Open(filepath.Join(r.dir, strings.TrimPrefix(p.URL, base)) + ext)
			if len(b) < 512 && os.IsNotExist(err) {
				continue
			}
			r.must(err)
			z := must.Get(coding.NewReader(f))
			text, err := io.ReadAll(z)
			if f.Close(); err != nil || !bytes.Equal(text, b) {
				r.Fatalf("%s: %s%s is not a copy of its part: %v", what, p.URL, ext, err)
			}
		}
	}
}
