package crawl_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
)

// A maze is a site that generates its pages on request, and counts the requests.
type maze struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	after int    // after so many requests
	then  func() // this is called
}

func newMaze(t *testing.T, answer func(u *url.URL) (body string, ok bool)) *maze {
	m := &maze{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, ok := answer(req.URL)
		if !ok {
			http.NotFound(w, req)
			return
		}
		m.mu.Lock()
		if m.asked = append(m.asked, req.URL.RequestURI()); m.then != nil && len(m.asked) == m.after {
			m.then()
		}
		m.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		if strings.HasSuffix(req.URL.Path, ".xml") {
			w.Header().Set("Content-Type", "application/xml")
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(m.Close)
	return m
}

// crawl crawls the maze in a new collection, or an existing one, and returns the numbers of useful
// pages and of others that it fetched.
func (m *maze) crawl(t *testing.T, dir string, trap func(uri string) bool, with func(*crawl.Engine)) (real, wasted int, s crawl.Status) {
	t.Helper()
	m.mu.Lock()
	m.asked = nil
	m.mu.Unlock()
	c := crawler(t, dir, m.URL+"/")
	defer c.Collection.Close()
	if with != nil {
		with(c)
	}
	finish(t, c)
	seen := map[string]bool{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.asked {
		switch {
		case trap(u):
			wasted++
		case !seen[u]:
			seen[u] = true
			real++
		}
	}
	return real, wasted, c.Status()
}

// prose returns a text of n words that depends only on the name.
func prose(name string, n int) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	var b strings.Builder
	for range n {
		for range 2 + r.IntN(2) {
			b.WriteString([]string{"ba", "ke", "li", "mo", "nu", "ra", "sti", "tor", "ven", "zu"}[r.IntN(10)])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func document(title, text string, links ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><html><head><title>%s</title></head><body><ul><li>Home<li>All goods<li>Where we are<li>Your basket is empty</ul><h1>%s</h1>\n<p>%s</p>\n", title, title, text)
	for _, l := range links {
		fmt.Fprintf(&b, "<a href=%q>%s</a>\n", strings.ReplaceAll(l, "&", "&amp;"), l[strings.LastIndexByte(l, '/')+1:])
	}
	return b.String() + "</body></html>\n"
}

var facets = []string{"brand", "color", "max", "page", "size", "sort"}

// faceted is a page of search results: one of 10^6, with ten of n goods, as links if lead is set, and links
// to the results for another value of each facet.
func faceted(u *url.URL, n int, lead bool) string {
	q := u.Query()
	h := fnv.New64a()
	h.Write([]byte(q.Encode()))
	r := rand.New(rand.NewPCG(h.Sum64(), 2))
	var b strings.Builder
	var links []string
	for range 10 {
		i := r.IntN(n)
		fmt.Fprintf(&b, "<p>%s</p>", prose("name "+strconv.Itoa(i), 4))
		if lead {
			links = append(links, "/goods/"+strconv.Itoa(i)+".html")
		}
	}
	for _, f := range facets {
		for v := range 10 {
			other := u.Query()
			other.Set(f, strconv.Itoa(v))
			links = append(links, "/shop?"+other.Encode())
		}
	}
	return document("What was found", b.String(), links...)
}

func good(i int) string {
	name := prose("name "+strconv.Itoa(i), 4)
	return document(name, prose("good "+strconv.Itoa(i), 60), "/", fmt.Sprintf("/shop?color=%d", i%10), fmt.Sprintf("/shop?size=%d", i%10))
}

// shop is a site of n goods, listed twenty on a page, or reachable only by its search.
func shop(n int, listed bool) func(u *url.URL) (string, bool) {
	return func(u *url.URL) (string, bool) {
		var i int
		switch {
		case u.Path == "/" && listed:
			var links []string
			for i := range (n + 19) / 20 {
				links = append(links, fmt.Sprintf("/list/%d.html", i))
			}
			return document("A shop", prose("front", 40), append(links, "/shop")...), true
		case u.Path == "/":
			return document("A shop", prose("front", 40), "/shop"), true
		case u.Path == "/shop":
			return faceted(u, n, !listed), true
		}
		if _, err := fmt.Sscanf(u.Path, "/list/%d.html", &i); err == nil {
			var links []string
			for k := 20 * i; k < min(n, 20*i+20); k++ {
				links = append(links, fmt.Sprintf("/goods/%d.html", k))
			}
			return document("Goods", "", links...), true
		}
		if _, err := fmt.Sscanf(u.Path, "/goods/%d.html", &i); err == nil && i < n {
			return good(i), true
		}
		return "", false
	}
}

func isFacet(uri string) bool { return strings.HasPrefix(uri, "/shop?") }

// A shop of 200 goods whose search has 10^6 URLs is crawled whole, and its search gets at most a fifth of the
// requests.
func TestFacets(t *testing.T) {
	noRace(t) // how many requests go into the search before it has learned depends on its speed
	m := newMaze(t, shop(200, true))
	real, wasted, s := m.crawl(t, "", isFacet, func(c *crawl.Engine) { c.TrapShare, c.Stop.Pages = 1, 3000 })
	t.Logf("without a budget, until it has 3000 pages: %d useful pages, %d of the search", real, wasted)
	if 10*wasted < 9*(real+wasted) {
		t.Errorf("%d of %d requests went into the unlimited search: it is no trap", wasted, real+wasted)
	}
	dir := t.TempDir()
	real, wasted, s = m.crawl(t, dir, isFacet, nil)
	t.Logf("%d useful pages, %d of the search; %d wait, %+v", real, wasted, s.Waiting, s.Traps)
	if real != 200+10+2 {
		t.Errorf("%d useful pages, want 212", real)
	}
	if 5*wasted > real+wasted {
		t.Errorf("%d of %d requests went into the search", wasted, real+wasted)
	}
	if s.Waiting == 0 || len(s.Traps) == 0 || !strings.HasPrefix(s.Traps[0].Like, "/shop?") {
		t.Errorf("%d pages wait: %+v", s.Waiting, s.Traps)
	}

	// The next run knows what this one has learned, and Why explains it.
	_, again, s := m.crawl(t, dir, isFacet, nil)
	t.Logf("run again: %d of the search; %d wait", again, s.Waiting)
	if again > 2 || s.Waiting == 0 {
		t.Errorf("run again, %d requests went into the search, and %d pages wait", again, s.Waiting)
	}
	col := crawler(t, dir).Collection
	reasons := 0
	for p := range every(t, col.Pages(t.Context())) {
		w, err := crawl.Explain(col, &seed.Seeder{}, p.URL, time.Now())
		must.OK(t, err)
		waits := slices.ContainsFunc(w.Rules, func(rule string) bool {
			return strings.HasPrefix(rule, "waits: ") && strings.Contains(rule, " pages like /shop?")
		})
		if waits && (p.Visits > 0 || !isFacet(strings.TrimPrefix(p.URL, m.URL))) {
			t.Errorf("%s: %q", p.URL, w.Rules)
		}
		if waits {
			reasons++
		}
	}
	if reasons < s.Waiting {
		t.Errorf("of %d waiting pages %d have a reason", s.Waiting, reasons)
	}
}

// A crawler that is stopped again and again continues with what it has learned.
func TestFacetsKilled(t *testing.T) {
	noRace(t) // how much it learns before the kill depends on its speed
	m := newMaze(t, shop(200, true))
	dir := t.TempDir()
	total, useful := 0, map[string]bool{}
	for i := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		m.mu.Lock()
		m.asked, m.after, m.then = nil, 30, cancel
		if i == 0 {
			m.after = 220
		}
		m.mu.Unlock()
		c := crawler(t, dir, m.URL+"/")
		c.Hurry = time.Millisecond // what is learned is stored with each transaction
		must.OK(t, c.Run(ctx))
		must.OK(t, c.Collection.Close())
		cancel()
		m.mu.Lock()
		for _, u := range m.asked {
			if isFacet(u) {
				total++
			} else {
				useful[u] = true
			}
		}
		m.mu.Unlock()
	}
	t.Logf("%d useful pages, %d of the search", len(useful), total)
	// 50 of the endless search; and at each stop, eight requests may be under way and some answers not stored, from which it
	// learns nothing: a dozen, where it would be all of some 340 if nothing were kept.
	if len(useful) != 212 || total > 50+12*12 {
		t.Errorf("%d useful pages, want 212; %d of the search", len(useful), total)
	}
}

// Pages that a sitemap names, or that a person adds, do not wait.
func TestFacetsListedPagesDoNotWait(t *testing.T) {
	plain := shop(200, true)
	named := map[string]bool{}
	var list []string
	m := newMaze(t, func(u *url.URL) (string, bool) {
		if u.Path == "/sitemap.xml" {
			return sitemapOf(list...), true
		}
		return plain(u)
	})
	for i := range 400 {
		uri := fmt.Sprintf("/shop?brand=%d&max=%d&page=%d", i%10, i/10%10, i/100)
		named[uri] = true
		list = append(list, strings.ReplaceAll(m.URL+uri, "&", "&amp;"))
	}
	real, wasted, s := m.crawl(t, "", func(uri string) bool { return isFacet(uri) && !named[uri] }, nil)
	t.Logf("%d useful pages, %d of the search beside; %d wait", real, wasted, s.Waiting)
	if real != 212+400+1 || s.Waiting == 0 {
		t.Errorf("%d useful pages, want 613; %d wait", real, s.Waiting)
	}
}

// A waiting page that a person adds is fetched at once.
func TestFacetsAddedPageDoesNotWait(t *testing.T) {
	m := newMaze(t, shop(40, true))
	c := crawler(t, "", m.URL+"/")
	c.Once = false
	begin(t, c)
	waits := ""
	until(t, c, "a page is reported as waiting", func() bool {
		if s := c.Status(); s.Waiting == 0 || s.Busy > 0 {
			return false
		}
		for p := range every(t, c.Collection.Pages(t.Context())) {
			if p.Visits > 0 || p.State != collection.Known {
				continue
			}
			w, err := c.Why(p.URL)
			must.OK(t, err)
			if signals := strings.Join(w.Signals, "\n"); strings.Contains(signals, "followed") || strings.Contains(signals, "subscribed") {
				t.Errorf("no site of this crawl publishes its changes: %s", signals)
			}
			if strings.Contains(fmt.Sprint(w.Rules), "waits: ") {
				waits = p.URL
			}
		}
		return waits != ""
	})
	_, err := c.Add(t.Context(), []string{waits})
	must.OK(t, err)
	until(t, c, "the page is fetched", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.Contains(m.asked, strings.TrimPrefix(waits, m.URL))
	})
}

// Relative links that make a path ever longer.
func TestGrowingRelativePaths(t *testing.T) {
	goods := shop(200, true)
	m := newMaze(t, func(u *url.URL) (string, bool) {
		if path, ok := strings.CutPrefix(u.Path, "/deep/"); ok {
			return document("Here is "+path, prose("deep", 30), "red/", "blue/", "green/", "small/", "large/", "../red/blue/", "/"), true
		}
		body, ok := goods(u)
		return strings.Replace(body, "</body>", `<a href="/deep/red/">more</a></body>`, 1), ok && u.Path != "/shop"
	})
	real, wasted, s := m.crawl(t, "", func(u string) bool { return strings.HasPrefix(u, "/deep/") }, nil)
	t.Logf("%d useful pages, %d of the path; %d wait, %+v", real, wasted, s.Waiting, s.Traps)
	if real != 200+10+1 {
		t.Errorf("%d useful pages, want 211", real)
	}
	if 5*wasted > real+wasted {
		t.Errorf("%d of %d requests went into the path", wasted, real+wasted)
	}
}

// Parts of a site that are found late, in a directory full of search results, are crawled whole.
func TestFacetsDoNotHideSections(t *testing.T) {
	parts := []string{"red", "blue", "green", "small", "large"}
	m := newMaze(t, func(u *url.URL) (string, bool) {
		name, ok := strings.CutPrefix(u.Path, "/docs/")
		if u.Path == "/" {
			return document("Home", prose("front", 40), "/docs/search", "/docs/red/"), true
		} else if name == "search" {
			return strings.ReplaceAll(faceted(u, 200, false), "/shop", "/docs/search"), true
		}
		part, page, _ := strings.Cut(name, "/")
		at := slices.Index(parts, part)
		if !ok || at < 0 {
			return "", false
		}
		links := []string{"/docs/search?color=" + strconv.Itoa(at)}
		for i := range 30 {
			if page == "" {
				links = append(links, fmt.Sprintf("/docs/%s/%d.html", part, i))
			}
		}
		if page == "" && at+1 < len(parts) {
			links = append(links, "/docs/"+parts[at+1]+"/")
		}
		return document(prose(name, 3), prose("page "+name, 50), links...), true
	})
	real, wasted, s := m.crawl(t, "", func(u string) bool { return strings.Contains(u, "search?") }, nil)
	t.Logf("%d useful pages, %d of the search; %d wait, %+v", real, wasted, s.Waiting, s.Traps)
	if real != 2+5*31 || wasted > 50 {
		t.Errorf("%d useful pages, want 157; %d of the search", real, wasted)
	}
}

// A catalogue is crawled whole, whatever its URLs look like: its pages have new content.
func TestCatalogueIsCrawledWhole(t *testing.T) {
	noTotals(t)
	for _, form := range []string{"/item?id=%d&lang=en", "/item/%d.html", "/view.php?cat=7&id=%d&tab=text"} {
		m := newMaze(t, func(u *url.URL) (string, bool) {
			i := 0
			if u.Path != "/" {
				if _, err := fmt.Sscanf(u.RequestURI(), form, &i); err != nil || i >= 2000 {
					return "", false
				}
			}
			var links []string
			for k := range 6 { // some similar ones
				links = append(links, fmt.Sprintf(form, (6*i+k+1)%2000))
			}
			return document(prose("name "+strconv.Itoa(i), 3), prose("item "+strconv.Itoa(i), 40), links...), true
		})
		real, _, s := m.crawl(t, "", func(string) bool { return false }, nil)
		if real != 2001 || s.Waiting != 0 {
			t.Errorf("%s: %d pages of 2001, %d wait: %+v", form, real, s.Waiting, s.Traps)
		}
	}
}

// A web server's listings of two icon themes, laid out as Debian's hicolor and Adwaita: a folder for each size, and in each the same folders
// of pictures of the same names. No listing has words that another lacks, but pages without pictures are few, and pictures are no pages.
func TestPicturesAreNoTrap(t *testing.T) {
	noTotals(t)
	kinds := []string{"actions", "apps", "categories", "devices", "emblems", "emotes", "legacy", "mimetypes", "places", "status", "ui"}
	pictures := []string{"audio-card", "battery", "bluetooth", "camera-photo", "computer", "drive-harddisk", "input-mouse", "network-wired", "phone", "printer"}
	files, want := fstest.MapFS{}, 3 // the home page and the two themes
	for _, theme := range []string{"Adwaita", "hicolor"} {
		for _, size := range []int{8, 16, 22, 24, 32, 36, 48, 64, 72, 96, 128, 192, 256, 512} {
			want += 1 + len(kinds)
			for _, kind := range kinds {
				for _, name := range pictures {
					files[fmt.Sprintf("%s/%dx%[2]d/%s/%s.png", theme, size, kind, name)] = &fstest.MapFile{}
				}
			}
		}
	}
	listings := http.FileServerFS(files)
	for _, strategy := range []string{"profit", "opic", "random"} {
		m := newMaze(t, func(u *url.URL) (string, bool) {
			w := httptest.NewRecorder()
			listings.ServeHTTP(w, httptest.NewRequest("GET", u.Path, nil))
			return w.Body.String(), w.Code == http.StatusOK
		})
		if got := m.pages(t, strategy); got != want {
			t.Errorf("%s: %d of %d listings are fetched", strategy, got, want)
		}
	}
}

// A small site of stubs, each with little but links to the next ones, is crawled whole.
func TestStubsAreCrawledWhole(t *testing.T) {
	for _, links := range []int{2, 3} {
		for _, strategy := range []string{"breadth-first", "opic", "random"} {
			const n = 60
			m := newMaze(t, func(u *url.URL) (string, bool) {
				i := 0
				if u.Path != "/" {
					if _, err := fmt.Sscanf(u.Path, "/class%d.html", &i); err != nil || i >= n {
						return "", false
					}
				}
				text := fmt.Sprintf("<title>Class %d</title>It has no documentation. All classes of the package, their methods and what is deprecated are in the index. "+
					"The authors hold the rights of this library, which is free software: you may pass it on and change it under the terms of its license.\n", i)
				for k := links*i + 1; k <= min(links*i+links, n-1); k++ {
					text += fmt.Sprintf("<a href=/class%d.html>subclass</a>\n", k)
				}
				return text, true
			})
			if got := m.pages(t, strategy); got != n {
				t.Errorf("%s, %d links on a page: %d of %d pages are fetched", strategy, links, got, n)
			}
		}
	}
}

// pages crawls the maze by a strategy, and returns how many of its pages were fetched.
func (m *maze) pages(t *testing.T, strategy string) int {
	t.Helper()
	o := ownSite(t, m.URL+"/")
	o.Order.Strategy, o.Collection.Store = strategy, "none"
	finish(t, openOptions(t, o))
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

// Pages that are linked only from search results are found through the search.
func TestFacetsLeadToPages(t *testing.T) {
	m := newMaze(t, shop(300, false))
	real, wasted, s := m.crawl(t, "", isFacet, nil)
	t.Logf("%d useful pages, %d of the search; %d wait, %+v", real, wasted, s.Waiting, s.Traps)
	if real < 270 {
		t.Errorf("%d pages of 302", real)
	}
	if wasted > 1000 {
		t.Errorf("%d of %d requests went into the search", wasted, real+wasted)
	}
}
