package batch

import (
	"fmt"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A pool is the pages to fetch, in the crawler's frontier, and what is known of their servers. A server with a connection, and one whose wait
// is not over, is busy: the frontier leaves it out.
type pool struct {
	run     *Run
	servers []server
	most    []int // pages a connection, by site
	front   *frontier.Frontier
	store   frontier.MemoryStore
	id      []frontier.PageID // of each page, in the order of discovery; 0: not known yet
	page    []uint32          // by ID
	found   []frontier.Entry  // since the last Add
	speed   []frontier.Speed  // by site
	times   []int             // how often each was measured
	empty   bool              // the last Batch was, and nothing has changed
}

func newPool(r *Run, servers []server, most []int) (p *pool, err error) {
	g := r.Graph
	p = &pool{run: r, servers: servers, most: most, id: make([]frontier.PageID, g.Len()), page: make([]uint32, 1, g.Len()+1),
		speed: make([]frontier.Speed, len(servers)), times: make([]int, len(servers))}
	for i := range p.speed {
		p.speed[i].Pipelined = r.Network.Pipelined
	}
	o := frontier.Options{Speed: func(s frontier.SiteID) frontier.Speed { return p.speed[s-1] }}
	if p.front, err = frontier.New(r.Strategy, &p.store, &o); err != nil {
		return nil, err
	}
	for _, s := range r.Starts {
		if int(s) >= g.Len() {
			return nil, fmt.Errorf("start page %d of %d pages", s, g.Len())
		}
		p.find(s)
	}
	if r.Starts == nil {
		for i := range g.Len() {
			p.find(uint32(i))
		}
	}
	p.add()
	return p, nil
}

// find makes a page known. All pages have the same depth, so that breadth-first is Cao's: pages and servers are first in, first out.
func (p *pool) find(page uint32) {
	if p.id[page] != 0 {
		return
	}
	id := frontier.PageID(len(p.page))
	p.id[page], p.page = id, append(p.page, page)
	e := frontier.Entry{Page: id, Site: frontier.SiteID(p.run.Graph.Host[page] + 1)}
	facts := frontier.Facts{Page: id}
	if p.run.Quality != nil {
		facts.Value = float32(p.run.Quality[page])
	}
	e.Rank = p.run.Strategy.Page(facts)
	p.store.Put(e)
	p.found = append(p.found, e)
}

func (p *pool) add() {
	if len(p.found) > 0 {
		p.front.Add(p.found)
		p.found, p.empty = p.found[:0], false
	}
}

// next takes the best pages of the best server, as many as fit into a connection; none: no server is free, or has pages.
func (p *pool) next() (site uint32, pages []uint32, err error) {
	if p.empty {
		return 0, nil, nil
	}
	list, err := p.front.Batch(1, frontier.BatchOptions{Size: 1})
	if p.empty = len(list) == 0; err != nil || p.empty {
		return 0, nil, err
	}
	best := list[0].Entries[0]
	site = uint32(best.Site - 1)
	pages = append(pages, p.page[best.Page])
	if n := p.most[site]; n > 1 {
		var more []frontier.Entry
		more, err = p.store.Head(best.Site, frontier.Entry{}, n)
		for _, e := range more {
			if e.Page != best.Page && p.front.Take(e) {
				pages = append(pages, p.page[e.Page])
			}
		}
	}
	p.busy(site, true)
	return site, pages, err
}

// busy says whether a server must not be connected to.
func (p *pool) busy(site uint32, busy bool) {
	p.speed[site].Busy = busy
	p.empty = p.empty && busy
	p.front.Moved(frontier.SiteID(site + 1))
}

// fetched records that a page was fetched, or tried in vain: then it has no links.
func (p *pool) fetched(page uint32, ok bool) {
	p.store.Remove(p.id[page])
	p.front.Done([]frontier.PageID{p.id[page]})
	if ok && p.run.Starts != nil {
		for _, to := range p.run.Graph.Links(page) {
			p.find(to)
		}
		p.add()
	}
}

// measured learns from a connection that has ended how fast its server is.
func (p *pool) measured(x *connection) {
	s, n := &p.speed[x.site], p.times[x.site]
	p.times[x.site]++
	answer := x.answers / float64(x.done)
	if s.Pipelined { // the estimate is of a request alone
		answer *= pipelining
	}
	if learn := p.run.Learn; learn != nil {
		s.Connect, s.Response = learn(s.Connect, x.opening, n), learn(s.Response, answer, n)
	} else {
		s.Learn(x.opening, answer, 0)
	}
	if limit := p.servers[x.site].limit; x.done == limit { // the server closed the connection
		s.PerConnection = limit
	}
}
