package crawl_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// scratch is a directory in memory, if there is such a place: in virtual time
// nothing is as slow as a disk.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "parley")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestScratch(t *testing.T) {
	dir := scratch(t)
	real := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 1, Sites: 110, Pages: 8, Speak: 50})
		defer w.Close()
		col, err := collection.Open(dir, &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality.Of, Contents: collection.WARC})
		if err != nil {
			t.Fatal(err)
		}
		defer col.Close()
		c := &crawl.Crawler{Collection: col, Strategy: frontier.BreadthFirst{}, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality,
			Harvester: &harvest.Harvester{Agent: "Test/1", From: "test@example.net", Resolver: w, Dial: w.Dial}, Once: os.Getenv("ONCE") != ""}
		for _, s := range w.Sites() {
			c.Start = append(c.Start, s.Origin+"/")
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		for _, f := range w.Impolite(fakeweb.Manners{Gap: 15 * time.Second, Robots: true, Delay: true, Agent: "Test/1"}) {
			t.Error(f)
		}
		t.Logf("%v, %+v", time.Since(began), c.Status())
		t.Log(len(w.Log()), w.Open(), col.Len())
	})
	t.Log(time.Since(real))
}
