package crawl_test

import (
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

// A page that a person adds is fetched next, though its site has many other due pages, and
// though it was handed out with them already.
func TestAddedPageIsFetchedNext(t *testing.T) {
	pages, links := hub(200)
	w := newWeb(t, pages)
	c := crawler(t, "", w.URL+"/")
	c.Once, c.Harvester.Options.Wait, c.Harvester.Options.WaitBig = false, 20*time.Millisecond, 20*time.Millisecond
	begin(t, c)
	until(t, c, "pages are fetched", func() bool { return len(w.requests()) > 10 })
	wanted := links[slices.IndexFunc(links, func(path string) bool { return !slices.Contains(w.requests(), path) })]
	_, err := c.Add(t.Context(), []string{w.URL + wanted})
	must.OK(t, err)
	before, at := len(w.requests()), 0
	until(t, c, "the added page is fetched", func() bool {
		at = slices.Index(w.requests(), wanted)
		return at > 0
	})
	if at > before+2 {
		t.Errorf("%d other pages were fetched before it", at-before)
	}
}
