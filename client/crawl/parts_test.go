package crawl_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A partedManifest is the manifest of a site, in parts of ten items, as a static web server serves it.
type partedManifest struct {
	t     *testing.T
	base  string
	whole *protocol.Whole
	items map[string]protocol.Item

	mu    sync.Mutex
	files map[string]file
	asked []string
	lost  string // path that is not served
}

type file struct {
	content []byte
	written time.Time
}

func newPartedManifest(t *testing.T, base string) *partedManifest {
	return &partedManifest{t: t, base: base, files: map[string]file{}}
}

// publish writes the manifest of a site with these pages, by path: the first time page parts, and then a change part.
func (m *partedManifest) publish(pages map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, at := m.items, protocol.Cursor{Epoch: "e", Seq: 1}
	m.items = map[string]protocol.Item{}
	for path, body := range pages {
		u := m.base + path
		m.items[u] = protocol.Item{URL: u, Length: int64(len(body)), Type: "text/html", Digest: protocol.Sum([]byte(body))}
	}
	sorted := slices.SortedFunc(maps.Keys(m.items), protocol.Compare)
	if m.whole == nil {
		m.whole = &protocol.Whole{}
		for urls := range slices.Chunk(sorted, 10) {
			var list []protocol.Item
			for _, u := range urls {
				list = append(list, m.items[u])
			}
			m.whole.Parts = append(m.whole.Parts, m.part(at.Seq, list, nil))
		}
	} else {
		at.Seq = m.whole.Cursor.Seq + 1
		var list []protocol.Item
		var gone []protocol.Tombstone
		for _, u := range sorted {
			if m.items[u] != was[u] {
				list = append(list, m.items[u])
			}
		}
		for _, u := range slices.SortedFunc(maps.Keys(was), protocol.Compare) {
			if _, ok := m.items[u]; !ok {
				gone = append(gone, protocol.Tombstone{URL: u, Seq: at.Seq})
			}
		}
		m.whole.Changed = append(m.whole.Changed, m.part(at.Seq, list, gone))
	}
	m.whole.Cursor, m.whole.Items = at, len(m.items)
	m.write("/robots.rdf", protocol.Manifest{Whole: m.whole}, nil, nil)
}

func (m *partedManifest) write(path string, head protocol.Manifest, items []protocol.Item, gone []protocol.Tombstone) []byte {
	head.URL, head.Base, head.Items = m.base+"/robots.rdf", m.base+"/", len(items)
	var b bytes.Buffer
	must.OK(m.t, protocol.WriteManifest(&b, head, each(items), each(gone)))
	m.files[path] = file{b.Bytes(), time.Now()}
	return b.Bytes()
}

func (m *partedManifest) part(seq uint64, items []protocol.Item, gone []protocol.Tombstone) protocol.Part {
	name := fmt.Sprintf("/robots.rdf.parts/%d-%d.rdf", seq, len(m.files))
	b := m.write(name, protocol.Manifest{}, items, gone)
	return protocol.Part{URL: m.base + name, After: seq - 1, Seq: seq, Items: len(items) + len(gone), Length: int64(len(b)), Digest: protocol.Sum(b)}
}

// serve responds to a request for the manifest or a part of it.
func (m *partedManifest) serve(w http.ResponseWriter, r *http.Request) bool {
	m.mu.Lock()
	f, ok := m.files[r.URL.Path]
	ok = ok && r.URL.Path != m.lost
	if strings.HasPrefix(r.URL.Path, "/robots.rdf") {
		m.asked = append(m.asked, r.URL.Path)
	}
	m.mu.Unlock()
	if !ok {
		return false
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, f.written.Unix(), len(f.content)))
	w.Header().Set("Content-Type", protocol.ManifestType)
	http.ServeContent(w, r, "", f.written, bytes.NewReader(f.content))
	return true
}

// requests returns how often the index, page parts and change parts were requested since the last call.
func (m *partedManifest) requests() (index, pages, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, path := range m.asked {
		switch {
		case path == "/robots.rdf":
			index++
		case strings.HasPrefix(path, "/robots.rdf.parts/1-"):
			pages++
		default:
			changes++
		}
	}
	m.asked = nil
	return index, pages, changes
}

// partedSite makes a site of numbered pages that serves such a manifest.
func partedSite(t *testing.T, w *bubble, pages int) (*fakeweb.Site, *partedManifest) {
	s := numbered(w, pages)
	m := newPartedManifest(t, s.Origin)
	s.Handler = m.serve
	return s, m
}

// bodies returns the pages of such a site.
func bodies(s *fakeweb.Site) map[string]string {
	all := map[string]string{}
	for _, path := range s.Paths() {
		if path == "/" || strings.HasPrefix(path, "/n") {
			all[path], _ = s.Body(path)
		}
	}
	return all
}

// A crawler reads a manifest in parts at the pace of the site, and then only what has changed. When it starts again, it
// requests the index once, and only the parts that it had not fetched before it ended.
func TestRunReadsManifestInParts(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 16}, func(t *testing.T, w *bubble) {
		s, m := partedSite(t, w, 45)
		m.publish(bodies(s))
		run := func(d time.Duration, beside func(context.Context)) {
			t.Helper()
			c, col := w.paid(t, eager(100))
			c.Temp, c.ManifestEvery = w.dir, 10*time.Minute
			runFor(t, c, d, beside)
			must.OK(t, col.Close())
			time.Sleep(5 * time.Second) // the gap before a request of the next run
		}
		parts := len(m.whole.Parts)

		run(12*time.Second, nil) // time for robots.txt and two requests more
		index, pages, _ := m.requests()
		if index != 1 || pages == 0 || pages == parts {
			t.Fatalf("ended after %d requests for the index and %d parts of %d", index, pages, parts)
		}
		run(time.Hour, nil)
		if index, rest, _ := m.requests(); rest > parts-pages+1 || rest < parts-pages { // the last request may have been cut
			t.Errorf("started again: %d requests for parts after %d of %d, and %d for the index", rest, pages, parts, index)
		}
		at, _ := visits(w, s, time.Time{})
		for path := range bodies(s) {
			if len(at[path]) != 1 {
				t.Errorf("%s was fetched at %v", path, at[path])
			}
		}
		if left, err := filepath.Glob(filepath.Join(w.dir, "*.parts")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}

		run(3*24*time.Hour, func(context.Context) {
			time.Sleep(time.Minute)
			if index, _, _ := m.requests(); index != 1 {
				t.Errorf("started again: %d requests for the index", index)
			}
			s.Edit(nth(7))
			s.Delete(nth(8))
			m.publish(bodies(s))
		})
		if index, pages, changes := m.requests(); pages > 0 || changes != 1 || index < 2 {
			t.Errorf("after an edit: %d requests for the index, %d for page parts, %d for change parts", index, pages, changes)
		}
		_, col := w.paid(t, eager(0))
		if was := pageOf(t, col, s.Origin+nth(8)); !current(t, col, s, nth(7)) || was.State != collection.Gone {
			t.Errorf("after an edit: %+v\nafter a deletion: %+v", pageOf(t, col, s.Origin+nth(7)), was)
		}
		if faults := w.Impolite(fakeweb.Manners{Gap: 5 * time.Second}); len(faults) > 0 {
			t.Errorf("impolite: %v", faults)
		}
	})
}

// A site and its state are restored together from a backup, so that its index falls behind the cursor of the crawler and
// then passes it with other changes. The crawler ends between the two, and has the restored pages all the same.
func TestRunFollowsRestoredSite(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 16}, func(t *testing.T, w *bubble) {
		s, m := partedSite(t, w, 25)
		s.Put("/", "<title>No links</title>")
		publish := func(n int, body string) {
			s.Put(nth(n), page(body))
			m.publish(bodies(s))
		}
		run := func() {
			t.Helper()
			c, col := w.paid(t, eager(1))
			c.Temp, c.ManifestEvery = w.dir, time.Minute
			runFor(t, c, 20*time.Minute, nil)
			must.OK(t, col.Close())
			time.Sleep(time.Minute)
		}
		publish(0, "first")
		run()
		backup := maps.Clone(m.files)
		before, _ := s.Body(nth(3))
		items, whole := m.items, *m.whole
		whole.Changed = slices.Clone(whole.Changed)
		publish(3, "lost with the disk")
		run()
		s.Put(nth(3), before)
		m.items, m.whole, m.files = items, &whole, backup
		run()
		publish(4, "after the restoration")
		publish(5, "after the restoration")
		m.requests()
		run()
		if _, pages, _ := m.requests(); pages != len(m.whole.Parts) {
			t.Errorf("%d of %d page parts were requested", pages, len(m.whole.Parts))
		}
		_, col := w.paid(t, eager(0))
		for _, n := range []int{3, 4, 5} {
			if !current(t, col, s, nth(n)) {
				t.Errorf("page %d is %+v", n, pageOf(t, col, s.Origin+nth(n)))
			}
		}
	})
}

// A part is missing when a site is met for the first time. The site is known to have a manifest, which is soon read again.
func TestRunWaitsForMissingPart(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 16}, func(t *testing.T, w *bubble) {
		s, m := partedSite(t, w, 25)
		s.Put("/", "<title>No links</title>")
		m.publish(bodies(s))
		m.lost = strings.TrimPrefix(m.whole.Parts[1].URL, s.Origin)
		c, _ := w.paid(t, eager(100))
		c.Temp = w.dir
		runFor(t, c, time.Hour, func(context.Context) {
			time.Sleep(5 * time.Minute)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lost = ""
		})
		if at, _ := visits(w, s, time.Time{}); len(at[nth(0)]) == 0 || len(at[nth(24)]) == 0 {
			t.Errorf("pages of the manifest were not fetched: %v", at)
		}
		if _, pages, _ := m.requests(); pages > 2+2*10 {
			t.Errorf("%d requests for parts", pages)
		}
	})
}

func partedWeb(t *testing.T, n int) (*web, *partedManifest, map[string]string) {
	pages := map[string]string{}
	for i := range n {
		pages[fmt.Sprintf("/p%02d.html", i)] = page(fmt.Sprint("Page ", i))
	}
	w := newWeb(t, pages)
	m := newPartedManifest(t, w.URL)
	w.answer(m.serve)
	m.publish(pages)
	return w, m, pages
}

// A crawl that ends when nothing is left has all pages of a manifest in parts. If a part is missing, the parts that it has
// fetched are kept for the next crawl.
func TestCrawlReadsManifestInParts(t *testing.T) {
	w, m, pages := partedWeb(t, 35)
	m.lost = strings.TrimPrefix(m.whole.Parts[2].URL, w.URL)
	o := ownSite(t, w.URL+"/p00.html")
	if paths, _ := stored(t, o); len(paths) != 1 {
		t.Errorf("with a part missing: %d pages", len(paths))
	}
	if index, parts, _ := m.requests(); index != 2 || parts != 4 {
		t.Errorf("with a part missing: %d requests for the index, %d for parts", index, parts)
	}
	if left, err := filepath.Glob(filepath.Join(o.Collection.Into, "*.parts", "*")); err != nil || len(left) != 2 {
		t.Errorf("kept: %v %v", left, err)
	}
	m.lost = ""
	if paths, _ := stored(t, o); len(paths) != len(pages) {
		t.Errorf("%d pages, want %d", len(paths), len(pages))
	}
	if index, parts, _ := m.requests(); index != 1 || parts != 2 {
		t.Errorf("the next crawl: %d requests for the index, %d for parts", index, parts)
	}
	if left, err := filepath.Glob(filepath.Join(o.Collection.Into, "*.parts")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// A copy follows a site that publishes a manifest in parts and nothing else.
func TestCopyOfManifestInParts(t *testing.T) {
	w, m, pages := partedWeb(t, 25)
	c := copied{t: t, m: crawl.Copy{Base: w.URL + "/", Dir: t.TempDir(), Poll: 50 * time.Millisecond}}
	c.start()
	files := func() map[string]string {
		want := map[string]string{}
		for path, body := range pages {
			want[path[1:]] = body
		}
		return want
	}
	c.want(files())
	m.requests()
	w.mu.Lock()
	pages["/p03.html"], pages["/new.html"] = page("edited"), page("new")
	delete(pages, "/p04.html")
	w.mu.Unlock()
	m.publish(pages)
	c.want(files())
	if _, pages, changes := m.requests(); pages != 0 || changes != 1 {
		t.Errorf("after an edit: %d requests for page parts, %d for change parts", pages, changes)
	}
}

func each[T any](list []T) func(func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}
