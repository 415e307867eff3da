package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A web is a Web whose sites are crawled by nodes.
type web struct {
	*fakeweb.Web
	wait       time.Duration
	perAddress string       // as crawl.Options has it
	all        []string     // URLs of all pages
	log        *slog.Logger // of the crawlers; nil: none

	mu   sync.Mutex                     // guards the next one, and is held while a collection of it is read
	open map[int]*collection.Collection // by partition
}

// newWeb makes sites that link to two others each, with so many pages.
func newWeb(t *testing.T, sites, pages int, wait time.Duration) *web {
	return newWebAt(t, sites, pages, wait, func(i int) netip.Addr { return netip.AddrFrom4([4]byte{20, 2, byte(i >> 8), byte(i)}) })
}

// newWebAt makes them at given addresses.
func newWebAt(t *testing.T, sites, pages int, wait time.Duration, at func(int) netip.Addr) *web {
	w := &web{Web: fakeweb.New(fakeweb.Options{Seed: 7}), wait: wait, perAddress: "100/s", open: map[int]*collection.Collection{}}
	t.Cleanup(w.Close)
	for i := range sites {
		s := w.AddAt(fakeweb.Honest, fmt.Sprintf("site%d.example", i), at(i))
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
	o.Fetch.PerAddress, o.Sources.NoManifests, o.Sources.NoSitemaps = w.perAddress, true, true
	o.Revisits.MinPeriod, o.Log = 24*time.Hour, w.log
	o.Scope.Share = &partition.Share{Partition: p.Partition, Carrier: p, Ends: p.Ends, Market: p, Addresses: p}
	c, err := o.Open(ctx)
	if err != nil {
		return err
	}
	c.Harvester.Options.Resolver, c.Harvester.Options.Dial = w, w.Dial
	w.mu.Lock()
	w.open[p.Number] = c.Collection
	w.mu.Unlock()
	head := func() protocol.Cursor { return c.Collection.Log().Head() }
	telling, told := context.WithCancel(context.WithoutCancel(ctx))
	var beside, last sync.WaitGroup
	last.Go(func() {
		p.Tell(telling, cluster.Source{Log: c.Collection.Log(), Events: eventsOf(c.Collection), Page: func(url string) (e cluster.Event, fetched time.Time, err error) {
			p, _, err := c.Collection.Page(url)
			if err == nil {
				e.JSON, err = json.Marshal(collection.Event{Op: protocol.Update, URL: url, Digest: p.Digest})
			}
			return e, p.Last, err
		}})
	})
	saving, stop := context.WithCancel(ctx)
	beside.Go(func() {
		p.Save(saving, func(to io.Writer) error {
			return errors.Join(collection.Backup(c.Collection, to), p.Told(saving, head()))
		})
	})
	err = c.Run(ctx)
	stop()
	beside.Wait()
	end, cancel := context.WithTimeout(telling, 5*time.Second)
	defer cancel()
	p.Told(end, head())
	told()
	last.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[p.Number] == c.Collection {
		delete(w.open, p.Number)
	}
	return errors.Join(err, c.Collection.Close())
}

// eventsOf reads the events of a collection.
func eventsOf(c *collection.Collection) func(context.Context, protocol.Cursor, int) ([]cluster.Event, error) {
	return func(ctx context.Context, after protocol.Cursor, most int) (list []cluster.Event, err error) {
		for e, err := range c.Events(ctx, after, false) {
			if err != nil || len(list) == most {
				return list, err
			}
			text, err := json.Marshal(e)
			if err != nil {
				return nil, err
			}
			list = append(list, cluster.Event{Cursor: e.Cursor, JSON: text})
		}
		return list, nil
	}
}

// stored returns how many pages the collections that are open have stored.
func (w *web) stored() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		for s := range c.Sites() {
			n += s.Held
		}
	}
	return n
}

// A listener reads the events of all partitions with one cursor.
type listener struct {
	mu     sync.Mutex // guards the rest
	events []string   // what and of which URL
	odd    []string   // numbers that do not follow each other
}

// listen reads until the test ends, and continues with its cursor whenever NATS is away.
func (r *rig) listen() *listener {
	l := &listener{}
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn := must.Get(nats.Connect(r.servers.URLs(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)))
		defer conn.Close()
		var after protocol.Cursor
		for ; ctx.Err() == nil; pause.For(ctx, 50*time.Millisecond) {
			c, err := cluster.Find(ctx, conn, "test")
			if err != nil {
				continue
			}
			err = c.Events(ctx, after, true, func(at protocol.Cursor, _ int, event []byte) error {
				var e struct{ Op, URL string }
				must.OK(r, json.Unmarshal(event, &e))
				l.mu.Lock()
				defer l.mu.Unlock()
				if at.Seq != after.Seq+1 {
					l.odd = append(l.odd, fmt.Sprintf("%v after %v", at, after))
				}
				l.events = append(l.events, e.Op+" "+e.URL)
				after = at
				return nil
			})
			r.Log("the reader of events continues: ", err)
		}
	}()
	r.Cleanup(func() { cancel(); <-ended })
	return l
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
// faster than from one crawler. A reader of events gets each once. With PARLEY_KILLS=20 that many nodes are killed, five of them with their disks, and five NATS servers,
// among 60 sites of 80 pages: that takes some minutes. (V29)
func TestCrawlByNodesThatAreKilled(t *testing.T) {
	t.Parallel()
	sites, pages, kills, stops := 30, 8, 2, 2
	if n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS")); err == nil && n > 0 {
		sites, pages, kills, stops = 60, 80, n, n/4
	}
	r, w := newRig(t, 3), newWeb(t, sites, pages, time.Second)
	var dirs []string
	node := func(i int) *running {
		return r.run(&cluster.Node{Name: fmt.Sprint("node", i), Dir: dirs[i], Partitions: 12, Lease: 3 * time.Second, Snapshots: time.Second, Events: 100_000, Engine: w.engine})
	}
	l := r.listen()
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
	step := len(w.all) / (4*kills + 4)
	for k := range kills {
		i := k % len(nodes)
		progress(step)
		nodes[i].abandon()
		if k%4 == 0 {
			must.OK(t, os.RemoveAll(dirs[i]))
		}
		progress(step)
		if (k+1)*stops/kills > k*stops/kills {
			r.restart(i, func() { progress(step) })
		}
		nodes[i] = node(i)
	}
	progress(len(w.all))
	r.eventually("the pages are stored", func() bool { return w.stored() == len(w.all) }) // what the lost disk had only in part is fetched again
	told := func() []string { l.mu.Lock(); defer l.mu.Unlock(); return slices.Sorted(slices.Values(l.events)) }
	r.eventually("all events are read", func() bool { return len(told()) >= len(w.all) }) // before the nodes end: on a busy machine the last ones take longer than a node waits then
	for _, n := range nodes {
		n.stop()
	}
	if n := len(held(t, dirs...)); n != len(w.all) {
		t.Errorf("%d of %d pages are stored", n, len(w.all))
	}
	var want []string
	for _, url := range w.all {
		want = append(want, "create "+url)
	}
	if got := told(); !slices.Equal(got, slices.Sorted(slices.Values(want))) || len(l.odd) > 0 {
		t.Errorf("%d events, and %d pages; numbers: %v", len(got), len(want), l.odd)
		for _, e := range slices.Compact(got) {
			if n := strings.Count(strings.Join(told(), " ")+" ", e+" "); n != 1 || !slices.Contains(want, e) {
				t.Logf("%d times: %s", n, e)
			}
		}
	}
	w.polite(t)
	t.Logf("%d requests for %d pages of %d sites", len(w.Log()), len(w.all), len(w.Sites()))
}
