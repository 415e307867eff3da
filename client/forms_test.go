package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A mirror keeps the bytes of a site's pages, from deliveries alone; pages that
// come without bytes are counted as asked for.
type mirror struct {
	mu    sync.Mutex
	pages map[string]string // by URL
	owed  map[string]protocol.Digest
	named map[string]bool
	at    protocol.Cursor
	came  map[protocol.Form]int // pages that came with what was told
	asked int                   // pages that did not
	parts bool                  // what followed a cursor was told in more than one message
	errs  []error
	moved chan struct{} // closed when it stands elsewhere
}

func newMirror() *mirror {
	return &mirror{pages: map[string]string{}, owed: map[string]protocol.Digest{}, came: map[protocol.Form]int{}, moved: make(chan struct{})}
}

// held is for client.Source.
func (m *mirror) held(url string, d protocol.Digest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.pages[url]; ok && protocol.Sum([]byte(p)) == d {
		return []byte(p), nil
	}
	return nil, errors.New("not held")
}

func (m *mirror) take(s client.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Reset {
		m.named = map[string]bool{}
	}
	m.parts = m.parts || s.Behind
	for i, c := range s.Changes {
		u := c.Item.URL
		if m.named != nil {
			m.named[u] = true
		}
		if c.Op == protocol.Delete {
			delete(m.pages, u)
			delete(m.owed, u)
			continue
		}
		if c.Op == protocol.Move {
			if p, ok := m.pages[c.From]; ok && m.owed[c.From].IsZero() {
				m.pages[u] = p
			}
			delete(m.pages, c.From)
			delete(m.owed, c.From)
		}
		delete(m.owed, u)
		switch {
		case i < len(s.Bodies) && s.Bodies[i] != nil:
			m.pages[u] = string(s.Bodies[i])
			m.came[s.As]++
		case protocol.Sum([]byte(m.pages[u])) != c.Item.Digest:
			m.owed[u] = c.Item.Digest
		}
	}
	if s.Whole {
		for u := range m.pages {
			if !m.named[u] {
				delete(m.pages, u)
			}
		}
		for u := range m.owed {
			if !m.named[u] {
				delete(m.owed, u)
			}
		}
	}
	if !s.Cursor.IsZero() {
		m.at, m.named = s.Cursor, nil
		close(m.moved)
		m.moved = make(chan struct{})
	}
}

// follow follows until the test ends, or the function that it returns is called.
func (m *mirror) follow(t *testing.T, src *client.Source) (stop func()) {
	t.Helper()
	return m.followAnd(t, src, func(client.Step) {})
}

// followAnd is follow, and shows each step as well.
func (m *mirror) followAnd(t *testing.T, src *client.Source, see func(client.Step)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	m.mu.Lock()
	at := m.at
	m.mu.Unlock()
	go func() {
		defer close(done)
		for s, err := range client.Follow(ctx, src, at) {
			if err != nil {
				m.mu.Lock()
				m.errs = append(m.errs, err)
				m.mu.Unlock()
				continue
			}
			see(s)
			m.take(s)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// standsAt waits until the mirror stands at a cursor.
func (m *mirror) standsAt(t *testing.T, c protocol.Cursor) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		m.mu.Lock()
		at, moved, errs := m.at, m.moved, m.errs
		m.mu.Unlock()
		if at == c {
			return
		}
		select {
		case <-moved:
		case <-timeout:
			t.Fatalf("copy is at %v, the site at %v: %v", at, c, errs)
		}
	}
}

func (m *mirror) has(t *testing.T, url string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		m.mu.Lock()
		_, ok := m.pages[url]
		at, moved, errs := m.at, m.moved, m.errs
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-moved:
		case <-timeout:
			t.Fatalf("no %s, at %v: %v", url, at, errs)
		}
	}
}

// same fetches the pending pages, as a crawler would, and compares with the site.
func (m *mirror) same(t *testing.T, s *sitetest.Site, want func(url string) bool) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	is := s.Pages()
	if want != nil {
		maps.DeleteFunc(is, func(u, _ string) bool { return !want(u) })
	}
	for u := range m.owed {
		m.pages[u] = is[u]
		m.asked++
	}
	clear(m.owed)
	if !maps.Equal(m.pages, is) {
		for u, p := range is {
			if m.pages[u] != p {
				t.Errorf("%s: %.40q, want %.40q", u, m.pages[u], p)
			}
		}
		t.Fatalf("%d pages, want %d", len(m.pages), len(is))
	}
}

// long returns a page so long that a diff of it is much smaller.
func long(rnd *rand.Rand, words int) string {
	var b strings.Builder
	b.WriteString("<html><body>")
	for range words {
		fmt.Fprintf(&b, "<p>%x</p>\n", rnd.Uint64())
	}
	return b.String() + "</body></html>"
}

// A wholeSite is one that offers everything, with an editor.
type wholeSite struct {
	*sitetest.Site
	rnd  *rand.Rand
	next int
}

func newWholeSite(t *testing.T, n int) *wholeSite {
	w := &wholeSite{rnd: rand.New(rand.NewPCG(1, 2))}
	files := map[string]string{"index.html": long(w.rnd, 50)}
	for i := range n {
		files[fmt.Sprintf("d%d/p%d.html", i%3, i)] = long(w.rnd, 20+w.rnd.IntN(100))
	}
	w.Site = sitetest.NewWhole(t, files)
	return w
}

// edit changes a few pages, and publishes the changes.
func (w *wholeSite) edit() protocol.Cursor {
	var urls []string
	for u := range w.Pages() {
		urls = append(urls, strings.TrimPrefix(u, w.Base))
	}
	slices.Sort(urls)
	file := func() string {
		i := w.rnd.IntN(len(urls))
		u := urls[i]
		urls = slices.Delete(urls, i, i+1)
		if u == "" || strings.HasSuffix(u, "/") {
			u += "index.html"
		}
		return u
	}
	text := func(name string) string {
		u := w.Base + strings.TrimSuffix(name, "index.html")
		return w.Pages()[u]
	}
	for range 3 {
		f := file()
		w.Write(f, strings.Replace(text(f), "<p>", fmt.Sprintf("<p>edited %d ", w.rnd.IntN(1000)), 1))
	}
	w.next++
	w.Write(fmt.Sprintf("new/n%d.html", w.next), long(w.rnd, 30))
	w.Remove(file())
	w.Rename(file(), fmt.Sprintf("moved/m%d.html", w.next))
	return w.Publish()
}

// Each form, pulled and pushed, keeps the same mirror (C02); forms with contents
// deliver the contents of all pages.
func TestEveryForm(t *testing.T) {
	for _, as := range protocol.Forms() {
		for _, pulled := range []bool{false, true} {
			name := string(as) + " pushed"
			if pulled {
				name = string(as) + " pulled"
			}
			t.Run(name, func(t *testing.T) {
				w := newWholeSite(t, 40)
				if as == protocol.AsSite {
					w.Archive()
				}
				m := newMirror()
				stop := m.follow(t, &client.Source{Base: w.Base, UserAgent: "Test", As: as, Held: m.held, NoStream: pulled, Temp: t.TempDir()})
				m.standsAt(t, w.Head())
				m.same(t, w.Site, nil)
				first := m.asked
				edits := 6
				if pulled {
					edits = 3 // it asks once a second
				}
				for range edits {
					m.standsAt(t, w.edit())
					m.same(t, w.Site, nil)
				}
				stop()
				w.edit()
				w.edit() // while nobody listens
				m.parts = false
				m.follow(t, &client.Source{Base: w.Base, UserAgent: "Test", As: as, Held: m.held, NoStream: pulled, Temp: t.TempDir()})
				m.standsAt(t, w.Head())
				m.same(t, w.Site, nil)
				if len(m.errs) > 0 {
					t.Errorf("errors %v", m.errs)
				}
				switch later := m.asked - first; as {
				case protocol.AsMeta:
					if m.came[as] > 0 || later == 0 {
						t.Errorf("%d pages delivered, %d fetched", m.came[as], later)
					}
				case protocol.AsSite:
					if first > 0 || m.came[as] < 41 {
						t.Errorf("%d pages of %d delivered at first, %d had to be fetched", m.came[as], len(w.Pages()), first)
					}
				default:
					// On a busy machine a message may end early: what was edited away in it is in none.
					if later > 0 && !m.parts || m.came[as] < 15 {
						t.Errorf("%d pages delivered, %d had to be fetched", m.came[as], later)
					}
				}
				if n := w.Hits("/parley/stream", ""); pulled != (n == 0) {
					t.Errorf("%d streams", n)
				}
			})
		}
	}
}

// A site most of whose pages changed sends all of itself to a client that was away.
func TestMassChangeDeliversArchive(t *testing.T) {
	w := newWholeSite(t, 30)
	w.Archive()
	m := newMirror()
	src := &client.Source{Base: w.Base, As: protocol.AsSite, Held: m.held}
	stop := m.follow(t, src)
	m.standsAt(t, w.Head())
	stop()
	for i := range 30 {
		w.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), long(w.rnd, 10))
	}
	w.Publish()
	w.Archive()
	came := m.came[protocol.AsSite]
	m.follow(t, src)
	m.standsAt(t, w.Head())
	m.same(t, w.Site, nil)
	if n := m.came[protocol.AsSite] - came; n != 31 || m.asked > 0 {
		t.Errorf("%d pages delivered by the archive, %d fetched; %v", n, m.asked, m.errs)
	}
}

// A download of an archive that is cut is resumed at that byte; if the archive changes meanwhile it starts anew.
func TestCutArchiveIsResumed(t *testing.T) {
	w := newWholeSite(t, 60)
	w.Archive()
	var mu sync.Mutex
	var ranges []string
	w.Break("/parley/site.wacz", func(rw http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		mu.Lock()
		ranges = append(ranges, r.Header.Get("Range"))
		n := len(ranges)
		mu.Unlock()
		if n < 4 {
			sitetest.Truncate(20_000)(rw, r, own)
		}
		own(rw, r)
	})
	m := newMirror()
	m.follow(t, &client.Source{Base: w.Base, As: protocol.AsSite, Held: m.held})
	m.standsAt(t, w.Head())
	m.same(t, w.Site, nil)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"", "bytes=20000-", "bytes=40000-", "bytes=60000-"}; !slices.Equal(ranges, want) || m.asked > 0 {
		t.Errorf("requested %q, and fetched %d pages", ranges, m.asked)
	}
}

// A bundle that is cut is sent again from its beginning: nothing of it is lost or taken for whole.
func TestCutBundleIsRequestedAgain(t *testing.T) {
	w := newWholeSite(t, 20)
	m := newMirror()
	src := &client.Source{Base: w.Base, As: protocol.AsBatch, Held: m.held}
	stop := m.follow(t, src)
	m.standsAt(t, w.Head())
	m.same(t, w.Site, nil)
	stop()
	for i := range 1500 { // more than a step has, and than fits into a message
		w.Write(fmt.Sprintf("many/%d.html", i), long(w.rnd, 30))
	}
	w.Publish()
	w.Break("/parley/batch", sitetest.Times(2, sitetest.Truncate(500_000)))
	asked := m.asked
	m.follow(t, src)
	m.standsAt(t, w.Head())
	m.same(t, w.Site, nil)
	if len(m.errs) != 2 || m.asked != asked || w.Hits("/parley/batch", "") != 3 {
		t.Errorf("%d requests; %d pages remain to be fetched; errors %v", w.Hits("/parley/batch", ""), m.asked-asked, m.errs)
	}
}

// If the archive is unavailable, the pages are found in the manifest.
func TestUnavailableArchiveFallsBackToManifest(t *testing.T) {
	for name, fault := range map[string]sitetest.Fault{
		"gone":    sitetest.Status(http.StatusNotFound, 0),
		"garbage": sitetest.Bytes("this is no archive"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWholeSite(t, 5)
			w.Archive()
			w.Break("/parley/site.wacz", fault)
			m := newMirror()
			m.follow(t, &client.Source{Base: w.Base, As: protocol.AsSite, Held: m.held})
			m.standsAt(t, w.Head())
			m.same(t, w.Site, nil)
			if len(m.errs) != 1 || m.asked != 6 {
				t.Errorf("%d pages remain to be fetched; errors %v", m.asked, m.errs)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		w := newWholeSite(t, 5)
		w.Archive()
		m := newMirror()
		m.follow(t, &client.Source{Base: w.Base, As: protocol.AsSite, MaxArchive: 1000})
		m.standsAt(t, w.Head())
		m.same(t, w.Site, nil)
		if len(m.errs) != 1 || !strings.Contains(m.errs[0].Error(), "larger than the limit") {
			t.Errorf("errors %v", m.errs)
		}
	})
}

// If a site does not offer a form or a filter, the error says so, once, and lists those that it offers.
func TestMissingFormOrFilterIsReported(t *testing.T) {
	s := sitetest.NewSite(t, map[string]string{"index.html": "home"})
	for _, src := range []*client.Source{
		{Base: s.Base, As: protocol.AsDelta},
		{Base: s.Base, Filter: protocol.Filter{Where: "change.seq > 0"}},
	} {
		n := 0
		for _, err := range client.Follow(t.Context(), src, protocol.Cursor{}) {
			n++
			var offer *client.OfferError
			if !errors.As(err, &offer) || len(offer.Offers) == 0 {
				t.Errorf("error %v", err)
			}
		}
		if n != 1 {
			t.Errorf("%d errors", n)
		}
	}
	// A client that leaves the choice open gets a form that the site offers.
	m := newMirror()
	m.follow(t, &client.Source{Base: s.Base, Choose: func(*protocol.Discovery, protocol.Cursor) protocol.Form { return protocol.AsDelta }})
	m.standsAt(t, s.Head())
	s.Write("index.html", "home again")
	m.standsAt(t, s.Publish())
	m.same(t, s, nil)
	if len(m.errs) > 0 {
		t.Errorf("errors %v", m.errs)
	}
}

// counting tells the status of an answer.
type counting struct {
	http.ResponseWriter
	count func(int)
	begun bool
}

func (c *counting) WriteHeader(status int) {
	if !c.begun {
		c.begun = true
		c.count(status)
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counting) Write(b []byte) (int, error) {
	if !c.begun {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(b)
}

func TestBatchOfPages(t *testing.T) {
	w := newWholeSite(t, 300)
	src := &client.Source{Base: w.Base}
	d, err := client.Discover(t.Context(), src)
	if err != nil || d.Batch == "" || !client.Offers(d, protocol.AsSite) {
		t.Fatalf("%+v, %v", d, err)
	}
	is := w.Pages()
	var want []client.Want
	for u, text := range is {
		if len(want)%2 == 0 {
			want = append(want, client.Want{URL: u, Held: protocol.Sum([]byte(text))})
		} else {
			want = append(want, client.Want{URL: u})
		}
	}
	want = append(want, client.Want{URL: w.Base + "nowhere.html"}, client.Want{URL: w.Base})
	got := map[string]client.Got{}
	for g, err := range client.Batch(t.Context(), src, d.Batch, want) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[g.Want.URL]; twice {
			t.Errorf("%s twice", g.Want.URL)
		}
		got[g.Want.URL] = g
	}
	if len(got) != len(is)+1 {
		t.Errorf("%d of %d responses", len(got), len(is)+1)
	}
	for u, g := range got {
		text, there := is[u]
		switch {
		case !there:
			if g.Change.Op != protocol.Delete || g.Body != nil {
				t.Errorf("%s is gone: %+v", u, g)
			}
		case g.Want.Held.IsZero() != (string(g.Body) == text), g.Same() == g.Want.Held.IsZero():
			t.Errorf("%s: %d bytes, want %d; same %v", u, len(g.Body), len(text), g.Same())
		}
	}
	// What is of another origin is not asked for, and a cut answer says so after what came.
	for _, err := range client.Batch(t.Context(), src, d.Batch, []client.Want{{URL: "https://other.example/"}}) {
		if err == nil || !strings.Contains(err.Error(), "not a URL of") {
			t.Errorf("error %v", err)
		}
	}
	w.Break("/parley/batch", sitetest.Truncate(100_000))
	n, cut := 0, false
	for _, err := range client.Batch(t.Context(), src, d.Batch, want[1:]) {
		if cut = err != nil; !cut {
			n++
		}
	}
	if n == 0 || !cut || n >= len(want)-2 {
		t.Errorf("%d answers, cut %v", n, cut)
	}
}
