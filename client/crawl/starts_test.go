package crawl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/crawl"
)

// stored runs a crawl and returns the paths of all URLs that are then known, and what has reached its limit.
func stored(t *testing.T, o *crawl.Options) (paths, full []string) {
	t.Helper()
	c := openOptions(t, o)
	defer c.Collection.Close()
	finish(t, c)
	for p := range every(t, c.Collection.Pages(t.Context())) {
		_, path, _ := strings.Cut(strings.TrimPrefix(p.URL, "http://"), "/")
		paths = append(paths, "/"+path)
	}
	slices.Sort(paths)
	return paths, c.Collection.Full()
}

func below(dir string, paths []string) (n int) {
	for _, p := range paths {
		if strings.HasPrefix(p, dir) {
			n++
		}
	}
	return n
}

// Two start pages of one site have limits of their own. What is stored counts in later runs, too.
func TestStartPagesHaveTheirOwnLimits(t *testing.T) {
	docs := func(n int) (links []string) {
		for i := range n {
			links = append(links, fmt.Sprintf("/docs/%d.html", i))
		}
		return links
	}
	w := newWeb(t, map[string]string{"/": page("home", "/a1.html", "/docs/"), "/a1.html": page("a1", "/a2.html"), "/a2.html": page("a2", "/a3.html"),
		"/a3.html": page("a3"), "/docs/": page("docs", docs(30)...)})
	o := ownSite(t, w.URL+"/ depth=2", w.URL+"/docs/ pages=10")
	o.Sources.NoManifests, o.Sources.NoSitemaps = true, true
	paths, full := stored(t, o)
	if want := []string{"/", "/a1.html", "/a2.html"}; below("/docs/", paths) != 10 || !slices.Equal(paths[:3], want) || len(paths) != 13 {
		t.Errorf("stored %v, want %v and 10 pages in /docs/", paths, want)
	}
	if !slices.Equal(full, []string{w.URL + "/docs/"}) {
		t.Errorf("%v have reached their limits", full)
	}
	w.mu.Lock()
	w.pages["/docs/"], w.pages["/a2.html"] = page("the docs", docs(31)...), page("a2, edited", "/a3.html")
	w.mu.Unlock()
	again := *o
	again.Again, again.Start = true, []string{w.URL + "/ depth=3", w.URL + "/docs/ pages=15"}
	if paths, _ := stored(t, &again); below("/docs/", paths) != 15 || !slices.Contains(paths, "/a3.html") {
		t.Errorf("with greater limits: %v", paths)
	}
}

// A start page's number of pages replaces that of all sites, and a redirect of the start page is no link.
func TestLimitsOfARedirectedStartPage(t *testing.T) {
	w := newWeb(t, map[string]string{"/en/": page("home", "/en/a.html", "/en/b.html"), "/en/a.html": page("a", "/en/c.html"), "/en/b.html": page("b"), "/en/c.html": page("c")})
	w.redirect(map[string]string{"/": "/en/"})
	o := ownSite(t, w.URL+"/ depth=1 pages=100")
	o.Scope.PerSite, o.Sources.NoManifests, o.Sources.NoSitemaps = 2, true, true
	if paths, full := stored(t, o); fmt.Sprint(paths) != "[/ /en/ /en/a.html /en/b.html]" || len(full) > 0 {
		t.Errorf("stored %v; %v have reached their limits", paths, full)
	}
}

// What a start page stores beyond the pages of a site leaves those to the other start pages of its host.
func TestStartPagesDoNotCountForEachOther(t *testing.T) {
	var docs, others []string
	pages := map[string]string{}
	for i := range 30 {
		docs, others = append(docs, fmt.Sprintf("/docs/%d.html", i)), append(others, fmt.Sprintf("/%d.html", i))
	}
	pages["/docs/"], pages["/"] = page("docs", docs...), page("home", append(others, "/docs/")...)
	w := newWeb(t, pages)
	o := ownSite(t, w.URL+"/docs/ pages=20", w.URL+"/")
	o.Scope.PerSite, o.Sources.NoManifests, o.Sources.NoSitemaps = 10, true, true
	for run := range 2 {
		paths, full := stored(t, o)
		if n := below("/docs/", paths); n != 20 || len(paths)-n != 10 || !slices.Equal(full, []string{w.URL + "/", w.URL + "/docs/"}) {
			t.Errorf("run %d: %d pages in /docs/ and %d others; %v have reached their limits", run, n, len(paths)-n, full)
		}
		o.Again = true
	}
}
