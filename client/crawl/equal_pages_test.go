package crawl_test

import (
	"fmt"
	"testing"
)

// A page that is in several directories with the same bytes, such as one that is not
// translated yet, has different links in each. The same bytes below the page itself add no links.
func TestEqualPagesHaveSeparateLinks(t *testing.T) {
	pages := map[string]string{"/": page("home", "en/", "de/", "fr/", "trap/")}
	for _, lang := range []string{"en", "de", "fr"} {
		pages["/"+lang+"/"] = page("contents", "a.html", "b.html")
		pages["/"+lang+"/a.html"] = page("a in " + lang)
		pages["/"+lang+"/b.html"] = page("b in " + lang)
	}
	deep := "/trap/"
	for range 10 {
		pages[deep] = page("trap", "x/")
		deep += "x/"
	}
	w := newWeb(t, pages)
	crawled(t, w.URL+"/")
	got := w.counts()
	for _, lang := range []string{"en", "de", "fr"} {
		for _, name := range []string{"", "a.html", "b.html"} {
			if u := fmt.Sprintf("/%s/%s", lang, name); got[u] != 1 {
				t.Errorf("%s was fetched %d times, want once", u, got[u])
			}
		}
	}
	if got["/trap/x/x/"] != 0 {
		t.Errorf("links of an equal page below itself were followed: %v", got)
	}
}
