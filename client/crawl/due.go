package crawl

import (
	"container/heap"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// mostAsking is how many sources of a site are fetched before its pages. If a site
// names more, mostAsking of them are fetched, then pages, then the next sources.
const mostAsking = 10

// robotsRests is how long a fetched robots.txt is fresh enough for other sources, even if RobotsEvery is shorter.
const robotsRests = time.Second

// fetch adds a task for each source that is due.
func (r *sources) fetch(now time.Time, add func(*site, harvest.Task)) {
	sites := r.sites
	var later []*source // sources that wait for robots.txt, or whose site has mostAsking under way; pages go on meanwhile
	defer func() {
		for _, src := range later {
			heap.Push(&sites.due, src)
		}
	}()
	for len(sites.due) > 0 && !sites.due[0].At.After(now) {
		src := heap.Pop(&sites.due).(*source)
		st := src.site
		if src.busy || r.unwanted(src) {
			continue
		}
		if r.halted(src) {
			sites.halt.sources = append(sites.halt.sources, src)
			continue
		}
		if st.many = st.asking >= mostAsking; st.many && src.Kind != collection.Robots && src.Kind != collection.ManifestRDF {
			later = append(later, src)
			continue
		}
		if src.Kind != collection.Robots {
			sites.complete(st)
			if rb := st.sources.robots; (rb.busy || !rb.At.After(now)) && (st.silent != "" || now.Sub(rb.Polled) > robotsRests) { // robots.txt comes first: in this batch, or already under way
				src.off, later = true, append(later, src)
				continue
			} else if st.silent != "" {
				sites.putOff(src, rb.At)
				continue
			}
			if r.c.Seeder.Forbids(src.URL) != "" {
				sites.plan(src, now.Add(r.c.every(collection.Robots)))
				continue
			}
		}
		if src.Kind == collection.ManifestRDF {
			if r.followers.firsts >= maxFirsts { // each costs a goroutine and a connection
				sites.putOff(src, now.Add(r.c.hurried(time.Second)))
				continue
			}
			src.busy, src.off = true, false
			r.followers.follow(src)
			continue
		}
		if protocol.Origin(src.URL) != src.site.Origin {
			r.fetchCrossHost(src, now)
			continue
		}
		src.busy, src.off = true, false
		st.asking++
		r.work.busy++
		add(st, harvest.Task{URL: src.URL, Source: src.ID, MaxBytes: SourceBytes(src.Kind),
			IfNoneMatch: src.ETag, IfModifiedSince: src.LastModified})
	}
}

// unwanted reports whether the options turn off a source.
func (r *sources) unwanted(src *source) bool {
	switch src.Kind {
	case collection.ManifestRDF:
		return r.c.NoManifests || r.manifest != "" && src.URL != r.manifest
	case collection.SitemapXML:
		return r.c.NoSitemaps
	case collection.NewsFeed:
		return r.c.NoFeeds
	}
	return false
}
