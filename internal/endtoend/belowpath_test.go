package endtoend

import (
	"fmt"
	"strings"
	"testing"
)

// A crawl that starts at one page of each finds two sites below paths of one host, each described below its
// own path, and crawls them whole: the unlinked pages are in their manifests only.
func TestSitesBelowPathsAreFound(t *testing.T) {
	r := newRig(t)
	want := map[string]bool{}
	for _, site := range []string{"docs/en", "wiki"} {
		for i := range 25 {
			name := fmt.Sprintf("%s/part/p%d.html", site, i)
			r.write(name, fmt.Sprintf("<title>%s %d</title><p>Nobody leads to page %d.", site, i, i))
			want[r.base+name] = true
		}
		base := r.base + site + "/"
		out, code := run(t, "rdfgen", "--docroot", r.path(site), "--base", base, "--state", r.state+strings.ReplaceAll(site, "/", "-"), "--out", r.path(site+"/robots.rdf"))
		if code != 0 {
			t.Fatalf("rdfgen exits with %d: %s", code, out)
		}
	}
	c := &crawling{t: t, dir: t.TempDir(), args: []string{"crawl", r.base + "docs/en/part/p3.html", r.base + "wiki/part/p4.html"}}
	c.start()
	c.finished()
	held := 0
	for u, is := range c.stands() {
		if want[u] && strings.HasPrefix(is, "held") {
			held++
		}
	}
	if held != len(want) {
		t.Errorf("%d pages of %d are stored\n%s", held, len(want), c.p.said())
	}
}
