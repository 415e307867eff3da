package batch

import (
	"container/heap"
	"context"
	"fmt"
	"math"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
)

// A Run is a crawl of the pages of a graph.
type Run struct {
	Graph    *graph.Graph // with Bytes, the sizes of the pages
	Network  Network
	Strategy frontier.Strategy // which site and which of its pages is next
	Quality  []float64         // of each page, known as soon as the page is; nil: 0
	Robots   int               // connections at once, and never two to a site; 0 means 1
	AtOnce   int               // pages a connection at most; 0 means 1
	Wait     float64           // seconds from the end of a connection until the next one to the site
	Starts   []uint32          // pages known from the start, the others are found by links; nil: all pages are, a closed batch

	// Learn returns a new estimate of a server's time to connect or to answer, from the old one, the time measured,
	// and how often it was measured before. Nil means the crawler's own, frontier.Speed.Learn. Only strategies that
	// ask for speeds depend on it.
	Learn func(old, measured float64, before int) float64
}

// Mean is the mean of all measurements.
func Mean(old, measured float64, before int) float64 { return old + (measured-old)/float64(before+1) }

// latest is the last measurement.
func latest(_, measured float64, _ int) float64 { return measured }

// A Result is what happened in a Run.
type Result struct {
	Seconds     float64   // until the last robot was idle
	Bytes       float64   // transferred
	Pages       []uint32  // fetched, in the order in which they were there
	Times       []float64 // when each of them was
	Failed      int       // requests
	Connections int
	Active      []Robots // whenever their number changed

	// No crawl of these pages can take less than Least, in which the link transfers their bytes (Castillo 2004, formula
	// 3.2; 0 if it has no limit), nor less than Waits, which is the longest sum of the waits of one site.
	Least, Waits float64
}

// Robots says how many robots are busy from a time on.
type Robots struct {
	From float64
	Busy int
}

// A crawl is the state of a Run.
type crawl struct {
	run     *Run
	result  *Result
	ctx     context.Context
	servers []server
	most    []int // pages a connection, by site
	asked   []int // requests, by site
	pool    *pool
	events  events
	link    link
	now     float64
	number  int // of events and transfers so far
	busy    int
}

// Simulate runs the crawl to its end.
func (r Run) Simulate(ctx context.Context) (*Result, error) {
	c, err := r.begin(ctx)
	if err == nil {
		err = c.play()
	}
	if err != nil {
		return nil, fmt.Errorf("simulate crawl: %w", err)
	}
	return c.result, nil
}

func (r Run) begin(ctx context.Context) (*crawl, error) {
	g := r.Graph
	if len(g.Bytes) != g.Len() || r.Quality != nil && len(r.Quality) != g.Len() {
		return nil, fmt.Errorf("%d sizes and %d qualities for %d pages", len(g.Bytes), len(r.Quality), g.Len())
	}
	r.Robots, r.AtOnce = max(1, r.Robots), max(1, r.AtOnce)
	c := &crawl{run: &r, result: &Result{}, ctx: ctx, servers: make([]server, len(g.Hosts)), link: link{rate: r.Network.Link}}
	c.most, c.asked = make([]int, len(g.Hosts)), make([]int, len(g.Hosts))
	for i := range c.servers {
		c.servers[i] = r.Network.server(uint32(i))
		if c.most[i] = r.AtOnce; c.servers[i].limit > 0 {
			c.most[i] = min(c.most[i], c.servers[i].limit)
		}
	}
	var err error
	c.pool, err = newPool(&r, c.servers, c.most)
	return c, err
}

// play goes from event to event until nothing is left to do.
func (c *crawl) play() error {
	if err := c.connect(); err != nil {
		return err
	}
	for steps := 0; ; steps++ {
		if steps%4096 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		var do func()
		if ends := c.link.next(); len(c.events) > 0 && c.events[0].at <= ends {
			e := heap.Pop(&c.events).(event)
			c.now, do = e.at, e.do
		} else if !math.IsInf(ends, 1) {
			c.now, do = c.link.finish()
		} else {
			c.finish()
			return nil
		}
		do()
		if err := c.connect(); err != nil {
			return err
		}
	}
}

// after plans what happens some seconds from now.
func (c *crawl) after(seconds float64, do func()) {
	c.number++
	heap.Push(&c.events, event{c.now + seconds, c.number, do})
}

// A connection is a robot's visit to a site.
type connection struct {
	site    uint32
	pages   []uint32
	done    int     // of pages
	opening float64 // seconds
	asked   float64 // when its present request was sent
	answers float64 // seconds from request to end of all answers
}

// connect sends the idle robots to the sites that are next.
func (c *crawl) connect() error {
	for c.busy < c.run.Robots {
		site, pages, err := c.pool.next()
		if err != nil || len(pages) == 0 {
			return err
		}
		x := &connection{site: site, pages: pages, opening: c.ask(site, pages[0]).connect}
		c.result.Connections++
		c.active(1)
		c.after(x.opening, func() { c.request(x) })
	}
	return nil
}

// active notes that a robot begins or ends its work.
func (c *crawl) active(by int) {
	c.busy += by
	if last := len(c.result.Active) - 1; last >= 0 && c.result.Active[last].From == c.now {
		c.result.Active[last].Busy = c.busy
		return
	}
	c.result.Active = append(c.result.Active, Robots{c.now, c.busy})
}

func (c *crawl) ask(site, page uint32) request {
	return c.run.Network.request(&c.servers[site], page, float64(c.run.Graph.Bytes[page]))
}

// request sends the next request of a connection.
func (c *crawl) request(x *connection) {
	page := x.pages[x.done]
	x.asked = c.now
	c.asked[x.site]++
	q := c.ask(x.site, page)
	if q.fails {
		c.result.Failed++
		c.after(q.response, func() { c.answered(x, false) })
		return
	}
	c.after(q.response+q.transfer, func() {
		bytes := float64(c.run.Graph.Bytes[page])
		done := func() {
			c.result.Bytes += bytes
			c.result.Pages = append(c.result.Pages, page)
			c.result.Times = append(c.result.Times, c.now)
			c.answered(x, true)
		}
		if c.link.rate == 0 {
			done()
			return
		}
		c.number++
		c.link.start(c.now, bytes, c.number, done)
	})
}

// answered goes on to the next page of a connection, or closes it.
func (c *crawl) answered(x *connection, ok bool) {
	c.pool.fetched(x.pages[x.done], ok)
	x.answers += c.now - x.asked
	if x.done++; x.done < len(x.pages) {
		c.request(x)
		return
	}
	closing := 0.
	if c.run.Network.Closing {
		closing = x.opening
	}
	c.after(closing, func() {
		c.active(-1)
		c.pool.measured(x)
		c.after(c.run.Wait, func() { c.pool.busy(x.site, false) })
	})
}

// finish computes what is known at the end.
func (c *crawl) finish() {
	if n := len(c.result.Active); n > 0 {
		c.result.Seconds = c.result.Active[n-1].From
	}
	if c.link.rate > 0 {
		c.result.Least = c.result.Bytes / c.link.rate
	}
	for i, n := range c.asked {
		connections := (n + c.most[i] - 1) / c.most[i]
		c.result.Waits = max(c.result.Waits, float64(max(0, connections-1))*c.run.Wait)
	}
}
