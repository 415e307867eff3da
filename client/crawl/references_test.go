package crawl_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A crawl stores what its pages refer to, and fetches none of it, see Castillo 8.3.7 to 8.3.10 and 8.5.3. With NoLinks it stores nothing of it.
func TestCrawlStoresReferences(t *testing.T) {
	w := newWeb(t, map[string]string{
		"/": page("home", "a.html", "paper.pdf", "https://b.example/", "https://b.example/x.html", "http://c.example/y.tar.gz") +
			`<img src=logo.png><script src=https://cdn.example/s.js></script><link rel=stylesheet href=style.css>`,
		"/a.html":     page("a", "/") + `<img src="./logo.png"><img src=other.png>`,
		"/robots.txt": "User-agent: *\nDisallow: /b\n",
	})
	for _, no := range []bool{false, true} {
		o := crawl.DefaultOptions()
		o.Once, o.Collection.Into, o.Collection.Store, o.Collection.NoLinks, o.Fetch.Contact = true, filepath.Join(t.TempDir(), "crawl"), "none", no, "test@example.net"
		o.Start, o.Fetch.AllowPrivate, o.Fetch.Wait = []string{w.URL + "/"}, true, -1
		c, err := o.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, media := map[string]string{}, map[uint32]int{}
		text := func(counts []collection.Count) string {
			var b strings.Builder
			for _, n := range counts {
				fmt.Fprintf(&b, "%s:%d ", n.Name, n.N)
			}
			return b.String()
		}
		err = c.Collection.References(func(id frontier.PageID, r *collection.References, damaged error) bool {
			p, _, err := c.Collection.PageByID(id)
			if err != nil || damaged != nil {
				t.Fatal(err, damaged)
			}
			for _, m := range r.Media {
				media[m]++
			}
			got[strings.TrimPrefix(p.URL, w.URL)] = text(r.Kinds) + "/ " + text(r.Hosts)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		want, distinct := map[string]string{"/": "css:1 gz:1 js:1 pdf:1 png:1 / b.example:2 c.example:1 ", "/a.html": "png:2 / "}, 2
		if no {
			want, distinct = map[string]string{}, 0
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(media) != distinct {
			t.Errorf("no links %v: %q with %d media, want %q", no, got, len(media), want)
		}
		if err := c.Collection.Close(); err != nil {
			t.Error(err)
		}
	}
	if asked, want := w.counts(), map[string]int{"/": 2, "/a.html": 2}; !maps.Equal(asked, want) {
		t.Errorf("fetched %v, want %v", asked, want)
	}
}
