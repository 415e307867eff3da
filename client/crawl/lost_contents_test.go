package crawl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// The disk with the contents is lost, as when another machine goes on with a state: each page is fetched again at its next visit, in full
// although it has not changed, and the status counts these pages.
func TestLostContents(t *testing.T) {
	inBubble(t, fakeweb.Options{}, func(t *testing.T, w *bubble) {
		s := w.plain("/a", "/b")
		visit := func(again bool) *crawl.Engine {
			c := w.opened(t, func(o *crawl.Options) {
				o.Collection.Store, o.Again = "warc", again
				o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds = true, true, true
			})
			finish(t, c)
			return c
		}
		must.OK(t, visit(false).Collection.Close())
		c := visit(true)
		if got := c.Status(); got.Lost != 0 || got.Unchanged != 3 {
			t.Errorf("with all contents: %d lost, %d unchanged", got.Lost, got.Unchanged)
		}
		must.OK(t, c.Collection.Close())
		must.OK(t, os.RemoveAll(filepath.Join(w.dir, "warc")))
		c = visit(true)
		if got := c.Status(); got.Lost != 3 || got.Unchanged != 0 {
			t.Errorf("without contents: %d lost, %d unchanged", got.Lost, got.Unchanged)
		}
		for _, path := range []string{"/", "/a", "/b"} {
			p, _, err := c.Collection.Page(s.Origin + path)
			must.OK(t, err)
			if p.State != collection.Held || !c.Collection.Contents().Stands(p.Stored) {
				t.Errorf("%s is %s, stored in %+v", path, p.State, p.Stored)
			}
		}
		must.OK(t, c.Collection.Close())
	})
}
