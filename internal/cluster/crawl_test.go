package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/cluster"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// A web is a Web whose sites are crawled by nodes.
type web struct {
	*fakeweb.Web
	wait time.Duration
	all  []string // URLs of all pages
}

// newWeb makes sites that link to two others each, with so many pages.
func newWeb(t *testing.T, sites, pages int, wait time.Duration) *web {
	w := &web{Web: fakeweb.New(fakeweb.Options{Seed: 7}), wait: wait}
	t.Cleanup(w.Close)
	for range sites {
		s := w.Add(fakeweb.Honest)
		s.Speaks, s.Sitemap, s.Latency = false, false, 0
	}
	all := w.Sites()
	for i, s := range all {
		var links []string
		for n := range pages {
			path := fmt.Sprintf("/%d.html", n)
			links = append(links, path)
			s.Put(path, path)
			w.all = append(w.all, s.Origin+path)
		}
		for _, next := range []int{2*i + 1, 2*i + 2} {
			if next < sites {
				links = append(links, all[next].Origin+"/0.html")
			}
		}
		text := ""
		for _, to := range links {
			text += fmt.Sprintf(`<a href="%s">x</a>`, to)
		}
		s.Put("/0.html", text)
	}
	return w
}

// engine crawls a partition.
func (w *web) engine(ctx context.Context, p *cluster.Part) error {
	o := crawl.DefaultOptions()
	o.Start, o.Collection.Into, o.Fetch.Contact, o.Fetch.Wait, o.Fetch.WaitBig = []string{w.Sites()[0].Origin + "/0.html"}, p.Dir, "test@example.net", w.wait, w.wait
	o.Scope.Domain, o.Retries.Hurry, o.Sources.NoFeeds = []string{"example"}, 100*time.Millisecond, true
	o.Fetch.PerAddress, o.Sources.NoManifests, o.Sources.NoSitemaps = "100/s", true, true // the first is divided by the number of partitions
	o.Revisits.MinPeriod = 24 * time.Hour
	o.Scope.Share = &partition.Share{Partition: p.Partition, Carrier: p, Ends: p.Ends}
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	c.Harvester.Options.Resolver, c.Harvester.Options.Dial = w, w.Dial
	saving, stop := context.WithCancel(ctx)
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		p.Save(saving, func(to io.Writer) error { return collection.Backup(c.Collection, to) })
	}()
	err = c.Run(ctx)
	stop()
	<-saved
	return errors.Join(err, c.Collection.Close())
}

// fetched returns how many pages were fetched, each counted once.
func (w *web) fetched() int {
	pages := map[string]bool{}
	for _, a := range w.Log() {
		if a.Status == 200 && strings.HasSuffix(a.Path, ".html") {
			pages[a.Site.Origin+a.Path] = true
		}
	}
	return len(pages)
}

// polite checks the times between the beginnings of requests to each host: they are noted after the crawler has sent them, and the next one waits
// from the end of the response on.
func (w *web) polite(t *testing.T) {
	t.Helper()
	last := map[*fakeweb.Site]fakeweb.Access{}
	for _, a := range w.Log() {
		if before, ok := last[a.Site]; ok && a.Begin.Sub(before.Begin) < w.wait {
			t.Errorf("%v, %v after %v", a, a.Begin.Sub(before.Begin), before)
		}
		last[a.Site] = a
	}
}

// held returns the URLs of the pages that the collections in some directories have stored.
func held(t *testing.T, dirs ...string) (urls []string) {
	t.Helper()
	for _, dir := range dirs {
		for _, name := range must.Get(filepath.Glob(filepath.Join(dir, "partition-*", "state.db"))) {
			c := must.Get(collection.Open(filepath.Dir(name), &collection.Options{ReadOnly: true}))
			for p, err := range c.Pages(t.Context()) {
				must.OK(t, err)
				if p.State == collection.Held {
					urls = append(urls, p.URL)
				}
			}
			must.OK(t, c.Close())
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// Three nodes crawl 30 sites in 12 partitions. Nodes lose their power, one of them also its disk, and NATS servers stop. All pages are fetched, and no host gets requests
// faster than from one crawler. (V29)
func TestCrawlByNodesThatAreKilled(t *testing.T) {
	t.Parallel()
	r, w := newRig(t, 3), newWeb(t, 30, 8, time.Second)
	var dirs []string
	node := func(i int) *running {
		return r.run(&cluster.Node{Name: fmt.Sprint("node", i), Dir: dirs[i], Partitions: 12, Lease: 3 * time.Second, Snapshots: time.Second, Engine: w.engine})
	}
	var nodes []*running
	for i := range 3 {
		dirs = append(dirs, t.TempDir())
		nodes = append(nodes, node(i))
	}
	progress := func(pages int) {
		t.Helper()
		from := w.fetched()
		r.eventually(fmt.Sprintf("%d more pages after %d", pages, from), func() bool { return w.fetched() >= min(from+pages, len(w.all)) })
	}
	progress(20)
	nodes[0].abandon()
	must.OK(t, os.RemoveAll(dirs[0]))
	progress(20)
	r.restart(0, func() { progress(15) })
	nodes[0] = node(0)
	progress(20)
	nodes[1].abandon()
	r.restart(1, func() { progress(10) })
	nodes[1] = node(1)
	progress(len(w.all))
	r.eventually("the pages are stored", func() bool {
		for _, n := range nodes {
			n.stop()
		}
		if len(held(t, dirs...)) == len(w.all) {
			return true
		}
		for i := range nodes { // what the lost disk had only in part is fetched again
			nodes[i] = node(i)
		}
		time.Sleep(10 * time.Second)
		return false
	})
	w.polite(t)
	t.Logf("%d requests for %d pages of %d sites", len(w.Log()), len(w.all), len(w.Sites()))
}
