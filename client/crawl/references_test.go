package crawl_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
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
		o := ownSite(t, w.URL+"/")
		o.Collection.Store, o.Collection.NoLinks = "none", no
		c := openOptions(t, o)
		finish(t, c)
		got, media := map[string]string{}, map[uint32]int{}
		text := func(counts []collection.Count) string {
			var b strings.Builder
			for _, n := range counts {
				fmt.Fprintf(&b, "%s:%d ", n.Name, n.N)
			}
			return b.String()
		}
		must.OK(t, c.Collection.References(func(id frontier.PageID, r *collection.References, damaged error) bool {
			p, _, err := c.Collection.PageByID(id)
			must.OK(t, errors.Join(err, damaged))
			for _, m := range r.Media {
				media[m]++
			}
			got[strings.TrimPrefix(p.URL, w.URL)] = text(r.Kinds) + "/ " + text(r.Hosts)
			return true
		}))
		want, distinct := map[string]string{"/": "css:1 gz:1 js:1 pdf:1 png:1 / b.example:2 c.example:1 ", "/a.html": "png:2 / "}, 2
		if no {
			want, distinct = map[string]string{}, 0
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(media) != distinct {
			t.Errorf("no links %v: %q with %d media, want %q", no, got, len(media), want)
		}
	}
	if asked, want := w.counts(), map[string]int{"/": 2, "/a.html": 2}; !maps.Equal(asked, want) {
		t.Errorf("fetched %v, want %v", asked, want)
	}
}
