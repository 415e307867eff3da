package rank

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
)

// ranking is how exactly Pagerank is computed: a change of a millionth of all ranks moves no page.
func ranking(jump float64) graph.Pagerank {
	return graph.Pagerank{Jump: jump, Tolerance: 1e-6, Iterations: 100}
}

// A stored graph is the links between the first pages of a collection. Pages are numbered from 0, as the graph package does.
type stored struct {
	ctx    context.Context
	col    *collection.Collection
	pages  int   // others are new, and wait for the next computation
	failed error // why reading the links has ended early
}

func storedBy(ctx context.Context, col *collection.Collection) *stored {
	return &stored{ctx: ctx, col: col, pages: min(col.Len(), math.MaxInt32)}
}

// links are read from the disk each time, and so they need not fit into memory (V26).
func (s *stored) links(yield func(uint32, []uint32) bool) {
	var to []uint32
	_ = s.col.Graph(func(from frontier.PageID, all []frontier.PageID, _ error) bool { // without damaged links: the others are enough for a rank
		if s.failed = s.ctx.Err(); s.failed != nil || int(from) > s.pages {
			return false
		}
		to = to[:0]
		for _, id := range all {
			if int(id) <= s.pages {
				to = append(to, uint32(id-1))
			}
		}
		return yield(uint32(from-1), to)
	})
}

// pagerank ranks the pages by the links between them (K02), the page with ID 1 first. Jump is the probability of going to any page instead
// of along a link; 0 means 0.15.
func (s *stored) pagerank(jump float64) ([]float32, error) {
	ranks := average(ranking(jump).Ranks(s.pages, s.links))
	return ranks, s.failed
}

// average returns scores, which sum to 1, as multiples of the average one; nil if all are 0.
func average(scores []float64) []float32 {
	list, some := make([]float32, len(scores)), false
	for i, x := range scores {
		list[i] = float32(x * float64(len(scores)))
		some = some || x > 0
	}
	if !some {
		return nil
	}
	return list
}

// Scores are what Ranks has computed of pages and sites by their links, besides Pagerank, which is stored with each page. They are safe for
// concurrent use, and need 4 bytes a page each. Nil has none.
type Scores struct{ now atomic.Pointer[scores] }

// The scores of pages by ID, and of sites by theirs, are multiples of the average. Nil: not computed.
type scores struct {
	hubs, authorities, weighted, sites []float32
}

// scores computes what a quality weighs. While it does so, memory holds up to 60 bytes a page, and 60 for each pair of linked sites.
func (s *stored) scores(q *Quality, jump float64) (*scores, error) {
	site, sites := make([]uint32, s.pages), 0
	unread := make([]bool, s.pages)
	for p, err := range s.col.Pages(s.ctx) {
		if err != nil {
			return nil, err
		}
		if int(p.ID) > s.pages {
			break
		}
		site[p.ID-1], unread[p.ID-1] = uint32(p.Site-1), p.Visits == 0
		sites = max(sites, int(p.Site))
	}
	of, r := graph.SitesOf(s.links, site, make([]string, sites)), &scores{}
	if q.Siterank > 0 {
		r.sites = average(of.Pagerank(ranking(jump)))
	}
	byVotes := ranking(jump)
	byVotes.Weight = of.Weight
	if q.Weighted > 0 {
		r.weighted = average(byVotes.Ranks(s.pages, s.links))
	}
	if q.Hub > 0 || q.Authority > 0 {
		hubs, authorities := graph.HITS{Tolerance: byVotes.Tolerance, Iterations: byVotes.Iterations, Weight: of.Weight}.Scores(s.pages, s.links)
		r.hubs, r.authorities = average(hubs), average(authorities)
		for i := range r.hubs {
			if unread[i] { // its links are not known
				r.hubs[i] = 1
			}
		}
	}
	return r, s.failed
}

// share returns a score between 0 and 1: a half for the average, and where nothing was computed.
func share(list []float32, id int) float64 {
	if id < 1 || id > len(list) {
		return .5
	}
	x := float64(list[id-1])
	return x / (1 + x)
}

// of returns the weighted sum of the scores of a page.
func (s *Scores) of(q *Quality, p *collection.Page) float64 {
	var now *scores
	if s != nil {
		now = s.now.Load()
	}
	if now == nil {
		now = &scores{}
	}
	id := int(p.ID)
	return q.Hub*share(now.hubs, id) + q.Authority*share(now.authorities, id) + q.Weighted*share(now.weighted, id) + q.Siterank*share(now.sites, int(p.Site))
}
