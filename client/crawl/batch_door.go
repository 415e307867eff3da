package crawl

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// If a site has a batch door, many pages are fetched in one request (C09), which takes
// the slot only once: most of the time of a first copy is spent in the gaps
// between requests.

// bulkAfter is how long a site's pages are fetched one by one after its door for
// batches has failed, or had none of the pages.
const bulkAfter = 10 * time.Minute

// defaultBulk is the default of Crawler.Bulk.
const defaultBulk = 20

// batchFetches fetch many pages of a site in one request.
type batchFetches struct {
	c         *setup
	work      *work
	in        *inbox
	sites     *siteTable
	reader    *pageReader
	followers *followers
	count     *counters
}

// take takes pages out of a batch that are better fetched in one request, and fetches them.
func (f *batchFetches) take(b *harvest.Batch, now time.Time) {
	f.work.Lock()
	defer f.work.Unlock()
	least := cmp.Or(f.c.Bulk, defaultBulk)
	if least < 0 {
		return
	}
	kept := b.Sites[:0]
	for _, sb := range b.Sites {
		for st := f.sites.of(sb.Site); st != nil && len(sb.Tasks) > 0; {
			src, many, others := st.sources.together(sb.Tasks, least, now)
			if src == nil {
				break
			}
			src.follow.bulking = true
			st.bulking++
			if sb.Tasks = others; len(others) == 0 {
				f.c.Log.Debug("batch begun", "batch", b.Number, "site", st.Origin, "pages", len(many), "together", true)
			}
			f.work.group.Go(func() { f.fetch(st, src, many, sb.Chosen) })
		}
		if len(sb.Tasks) > 0 {
			kept = append(kept, sb)
		}
	}
	b.Sites = kept
}

// listsPages reports whether a source is a manifest that has listed pages.
func (s *source) listsPages() bool {
	return s.Kind == collection.ManifestRDF && s.Status == http.StatusOK && (!s.Changed.IsZero() || !s.Cursor.IsZero())
}

// together returns a source from which the pages of at least that many tasks can be fetched in one request, those tasks,
// client.MaxWants at most, and all other tasks; a nil source if there is none. Of several manifests, each below a path of its own, a page
// belongs to the one with the longest path.
func (ss *sourceSet) together(tasks []harvest.Task, least int, now time.Time) (of *source, pages, others []harvest.Task) {
	by := make(map[*source]int)
	owners := make([]*source, len(tasks))
	for i := range tasks {
		for _, src := range ss.byURL {
			if tasks[i].Page != 0 && src.listsPages() && strings.HasPrefix(tasks[i].URL, baseOf(src.URL)) &&
				(owners[i] == nil || len(baseOf(src.URL)) > len(baseOf(owners[i].URL))) {
				owners[i] = src
			}
		}
		by[owners[i]]++
	}
	for _, src := range ss.byURL {
		if of == nil && by[src] >= max(least, 1) && src.follow.mayBulk(now) {
			of = src
		}
	}
	for i := range tasks {
		if of != nil && owners[i] == of && len(pages) < client.MaxWants {
			pages = append(pages, tasks[i])
		} else {
			others = append(others, tasks[i])
		}
	}
	return of, pages, others
}

// baseOf returns the URL of a manifest's directory, below which its pages are.
func baseOf(manifest string) string { return manifest[:strings.LastIndexByte(manifest, '/')+1] }

// fetch fetches given-out pages in one request. Pages that it does not bring are
// fetched one by one; those of a site that was paused since they were chosen come back.
func (f *batchFetches) fetch(st *site, src *source, tasks []harvest.Task, chosen time.Time) {
	open := make(map[string]harvest.Task, len(tasks))
	for _, t := range tasks {
		open[t.URL] = t
	}
	n, err := f.bulked(st, src, open, chosen)
	steered := errors.Is(err, harvest.ErrPaused) // the rules, too, may have changed
	rest := make([]harvest.Task, 0, len(open))
	for _, t := range tasks {
		if _, ok := open[t.URL]; ok {
			rest = append(rest, t)
		}
	}
	var status *client.StatusError
	switch errors.As(err, &status); {
	case status != nil && (status.RetryAfter > 0 && status.Status >= 500 || status.Status == http.StatusTooManyRequests):
		// The pause holds for all requests to the site: see harvest.
		f.c.Log.Info("batch failed, and the site asks for a pause: after it, pages are fetched one by one",
			"site", st.Origin, "pages", len(rest), "retry_after", status.RetryAfter, "err", err)
	case steered: // the pages wait, or are checked again
	case err != nil:
		f.c.Log.Info("batch failed: pages are fetched one by one", "site", st.Origin, "pages", len(rest), "err", err)
	case n > 0:
		f.c.Log.Debug("pages received in one batch", "site", st.Origin, "pages", n, "left", len(rest))
	}
	f.work.Lock()
	st.bulking--
	src.follow.bulking = false
	if !steered && (err != nil || n == 0) {
		src.follow.bulkFrom = time.Now().Add(f.c.hurried(bulkAfter))
	}
	sb := batchOf(st, chosen, rest...)
	f.work.Unlock()
	f.work.rouse()
	if len(rest) == 0 {
		return
	}
	if f.work.asking.Err() == nil && f.c.Harvester.Insert(sb) == nil {
		return
	}
	x := result{busy: len(rest)}
	for _, t := range rest {
		x.again = append(x.again, t.Page)
	}
	f.in.Put(x)
}

// bulked fetches the open pages, and removes from open those that were answered.
// It returns how many those are.
func (f *batchFetches) bulked(st *site, src *source, open map[string]harvest.Task, chosen time.Time) (n int, err error) {
	from := f.followers.from(src)
	ctx, cancel := context.WithCancel(harvest.UnlessPaused(f.work.asking, chosen)) // a crawl that ends must not wait for a person
	defer cancel()
	d, err := f.followers.offered(ctx, src, from)
	if err != nil || d.Batch == "" {
		return 0, err
	}
	want := make([]client.Want, 0, len(open))
	for _, t := range open {
		want = append(want, client.Want{URL: t.URL, Held: t.Held})
	}
	batch, bytes := []*harvest.Answer(nil), 0
	flush := func() {
		if len(batch) > 0 {
			f.store(batch)
			batch, bytes = nil, 0
		}
	}
	defer flush()
	for got, err := range batches(ctx, from, d, want) {
		if err != nil {
			return n, err
		}
		t := open[got.Want.URL]
		a := &harvest.Answer{Task: t, Site: st.ID, Status: http.StatusOK, Body: got.Body, Asked: time.Now(), Header: headerOf(&got.Change.Item, protocol.AsBatch)}
		switch {
		case got.Same():
			a.Status = http.StatusNotModified
		case got.Change.Op == protocol.Delete, got.Body == nil:
			continue // it is fetched by a request of its own
		}
		delete(open, got.Want.URL)
		n++
		batch, bytes = append(batch, a), bytes+len(a.Body)
		if len(batch) >= commitSize/10 || bytes >= commitBytes/4 {
			flush()
		}
	}
	if n == 0 { // such as from a site that describes its pages, but does not yet know which are public
		f.c.Log.Info("the site's batch has none of the pages: they are fetched one by one", "site", st.Origin, "pages", len(open))
	}
	return n, nil
}

// store stores pages that came in one response.
func (f *batchFetches) store(list []*harvest.Answer) {
	x := result{visits: f.reader.visitsOf(list), busy: len(list)}
	for i := range x.visits {
		x.visits[i].Shared = true
	}
	if !f.in.Put(x) {
		return
	}
	f.work.checkStop(f.c.Stop.reached(f.count, time.Now()))
}

// batches fetches pages in batches of the size that a site allows.
func batches(ctx context.Context, from *client.Source, d *protocol.Discovery, want []client.Want) iter.Seq2[client.Got, error] {
	most := client.MaxWants
	if d.Welcome != nil && d.Welcome.Batch > 0 {
		most = min(most, d.Welcome.Batch)
	}
	return func(yield func(client.Got, error) bool) {
		for part := range slices.Chunk(want, most) {
			for got, err := range client.Batch(ctx, from, d.Batch, part) {
				if !yield(got, err) || err != nil {
					return
				}
			}
		}
	}
}
