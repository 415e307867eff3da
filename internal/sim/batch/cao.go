package batch

import (
	"fmt"
	"slices"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
)

// Parts of the comparison.
const (
	ByPagerank = "quality by Pagerank"
	ByZipf     = "quality by Zipf"
	byProtocol = "protocol"
	byRobots   = "connections"
	byVariant  = "crawl-ability" // with quality by Zipf: other estimates of speeds, another sum
)

// A Case is a crawl of Cao's comparison. Shares at a third and at the middle are those at that part of the time in which breadth-first fetches nine tenths of the
// pages: the others wait for a few slow servers, whatever the order.
type Case struct {
	Part         string  `json:"part"`
	Name         string  `json:"name"`
	Seconds      float64 `json:"seconds"`
	Half         float64 `json:"half_seconds"` // until half of the pages are there
	PagesThird   float64 `json:"pages_at_third"`
	PagesMiddle  float64 `json:"pages_at_middle"`
	HalfQuality  float64 `json:"quality_of_half_the_pages"`
	ThirdQuality float64 `json:"quality_at_third"`
	Middle       float64 `json:"quality_at_middle"`
	Connections  int     `json:"connections"`
	Run          Run     `json:"-"`
	Like         int     `json:"-"` // the first crawl with the same Result, which need not be simulated again
	Curves       []Point `json:"-"`
}

// A Point is of the three curves of the paper's section 5.3; pages and qualities are shares of all.
type Point struct {
	Seconds, Pages, Quality float64 // what is there after so many seconds
	Share, ShareQuality     float64 // a share of the pages, and the quality of so many
}

// Cao returns the crawls of the paper's sections 5.2 and 5.3 on a graph, and some of its section 6; the first is breadth-first.
func Cao(g *graph.Graph, robots int, seed uint64) (crawls []Case) {
	pagerank, zipf := g.Pagerank(graph.Pagerank{}), Zipf(g.Len(), seed)
	base := Run{Graph: g, Network: stanford(seed), Strategy: frontier.BreadthFirst{}, Quality: pagerank, Robots: robots, AtOnce: 100,
		Starts: g.Starts()}
	add := func(part, name string, change func(r *Run)) {
		r := base
		change(&r)
		crawls = append(crawls, Case{Part: part, Name: name, Run: r, Like: len(crawls)})
	}
	like := func(i int) { crawls[len(crawls)-1].Like = i }
	for _, x := range []struct {
		part    string
		quality []float64
	}{{ByPagerank, pagerank}, {ByZipf, zipf}} {
		for i, s := range []frontier.Strategy{frontier.BreadthFirst{}, frontier.Performance{}, frontier.Profit{}, frontier.CrawlAbility{}} {
			name := s.Name()
			if name == "profit" {
				name = "quality"
			}
			add(x.part, name, func(r *Run) { r.Strategy, r.Quality = s, x.quality })
			if i < 2 { // they do without the quality
				like(i)
			}
		}
	}
	ability := len(crawls) - 1
	add(byProtocol, "HTTP/1.0", func(r *Run) { r.AtOnce = 1 })
	add(byProtocol, "persistent", func(*Run) {})
	like(0)
	add(byProtocol, "pipelined", func(r *Run) { r.Network.Pipelined = true })
	for _, n := range []int{16, 32, 64, 96, 128, 192} {
		add(byRobots, fmt.Sprint(n), func(r *Run) { r.Robots = n })
		if n == robots {
			like(0)
		}
	}
	for i, learn := range []func(old, measured float64, before int) float64{nil, Mean, latest} {
		add(byVariant, []string{"moving average", "mean speed", "latest speed"}[i], func(r *Run) {
			r.Strategy, r.Quality, r.Learn = frontier.CrawlAbility{}, zipf, learn
		})
		if i == 0 {
			like(ability)
		}
	}
	add(byVariant, "best page alone", func(r *Run) { r.Strategy, r.Quality = bestAlone{}, zipf })
	return crawls
}

// bestAlone counts of the pages of a server only the best one, as if the others said the same (Cao, section 6).
type bestAlone struct{ frontier.CrawlAbility }

func (b bestAlone) Site(s frontier.SiteFacts) float32 {
	s.Sum = s.Best
	return b.CrawlAbility.Site(s)
}

// Measure fills in the shares and curves, from what happened in the crawl and in the first one, breadth-first.
func (r *Case) Measure(x, first *Result) {
	gained := x.gained(r.Run.Quality)
	r.Seconds, r.Half, r.Connections = x.Seconds, x.Until(.5), x.Connections
	at := func(seconds float64) (share, quality float64) {
		n := x.Fetched(seconds)
		return float64(n) / float64(len(x.Pages)), gained[n]
	}
	whole := first.Until(.9)
	r.PagesThird, r.ThirdQuality = at(whole / 3)
	r.PagesMiddle, r.Middle = at(whole / 2)
	r.HalfQuality = gained[len(x.Pages)/2]
	for i := range 25 {
		p := Point{Share: float64(i) / 24}
		p.Seconds, p.ShareQuality = p.Share*first.Seconds, gained[int(p.Share*float64(len(x.Pages)))]
		p.Pages, p.Quality = at(p.Seconds)
		r.Curves = append(r.Curves, p)
	}
}

// Ranks returns the ranks of servers that the formulas of the paper give, with 0.2 s to connect and 0.5 s to answer.
func Ranks() string {
	line := "Pages a second by 0.2 s, 0.5 s and pipelining, for 1, 10, 50 and 100 pages a connection:"
	speed := frontier.Speed{Connect: .2, Response: .5, Pipelined: true}
	for _, n := range []int{1, 10, 50, 100} {
		speed.PerConnection = n
		line += fmt.Sprintf(" %.3f", frontier.Performance{}.Site(frontier.SiteFacts{Ready: n, Speed: speed}))
	}
	speed.PerConnection = 50
	return line + fmt.Sprintf(". Crawl-ability of 50 pages of quality .01: %.4f.", frontier.CrawlAbility{}.Site(frontier.SiteFacts{Ready: 50, Sum: .5, Speed: speed}))
}

// A statement of the paper, and what was found.
type statement struct {
	Section, Says, Found string
	Met                  bool
	Why                  string // it is not met in the generated web, if that is so
}

// Statements returns those of Cao's sections 5.2 and 5.3 that a simulation can decide.
func Statements(crawls []Case) (list []statement) {
	of := func(part, name string) Case {
		i := slices.IndexFunc(crawls, func(r Case) bool { return r.Part == part && r.Name == name })
		return crawls[i]
	}
	add := func(section, says string, met bool, format string, args ...any) {
		list = append(list, statement{section, says, fmt.Sprintf(format, args...), met, ""})
	}
	because := func(why string) { list[len(list)-1].Why = why }
	old, persistent, pipelined := of(byProtocol, "HTTP/1.0").Half, of(byProtocol, "persistent").Half, of(byProtocol, "pipelined").Half
	add("5.2.1", "HTTP/1.1 is more than twice as fast as HTTP/1.0", old > 2*persistent, "%.2f times", old/persistent)
	because("connecting and closing take 0.4 s of 0.9 s a page here, and a quarter of the servers takes one request a connection")
	add("5.2.1", "pipelining gains less than persistent connections", persistent/pipelined > 1 && persistent/pipelined < old/persistent, "%.2f times", persistent/pipelined)
	few, more, most := of(byRobots, "64").Half, of(byRobots, "96").Half, of(byRobots, "192").Half
	add("5.2.1", "more connections are faster", of(byRobots, "16").Half > 1.1*of(byRobots, "32").Half && of(byRobots, "32").Half > 1.1*few, "%.2f times with 64 instead of 16", of(byRobots, "16").Half/few)
	add("5.2.1", "beyond 96 connections the gain disappears", more < 1.05*most, "%.2f times with 192 instead of 96", more/most)
	because("the simulated crawler needs no processor; only servers and the link limit it")

	b, s, q, a := of(ByPagerank, "breadth-first"), of(ByPagerank, "performance"), of(ByPagerank, "quality"), of(ByPagerank, "crawl-ability")
	add("5.3.1", "performance and crawl-ability fetch more pages than the others at 1/3", min(s.PagesThird, a.PagesThird) > max(b.PagesThird, q.PagesThird),
		"%.3f and %.3f; %.3f and %.3f", s.PagesThird, a.PagesThird, b.PagesThird, q.PagesThird)
	add("5.3.1", "performance has half more pages than breadth-first at 1/2", s.PagesMiddle > 1.4*b.PagesMiddle, "%.2f times", s.PagesMiddle/b.PagesMiddle)
	add("5.3.1", "crawl-ability fetches fewer pages than performance", a.PagesMiddle < s.PagesMiddle, "%.3f and %.3f", a.PagesMiddle, s.PagesMiddle)
	add("5.3.1", "quality and crawl-ability have 80 % of the quality in half of the pages", min(q.HalfQuality, a.HalfQuality) > .8, "%.3f and %.3f", q.HalfQuality, a.HalfQuality)
	add("5.3.1", "they have more of it than the other two", min(q.HalfQuality, a.HalfQuality) > max(b.HalfQuality, s.HalfQuality), "%.3f and %.3f", b.HalfQuality, s.HalfQuality)
	because("many links lead to the pages of high Pagerank, so that the order of discovery finds them early, too")
	add("5.3.1", "crawl-ability has most quality at 1/3, and quality is second", a.ThirdQuality > q.ThirdQuality && q.ThirdQuality > max(b.ThirdQuality, s.ThirdQuality),
		"%.3f and %.3f; %.3f and %.3f", a.ThirdQuality, q.ThirdQuality, b.ThirdQuality, s.ThirdQuality)
	add("5.3.1", "both have 80 % of the quality at 1/3", min(a.ThirdQuality, q.ThirdQuality) > .8, "%.3f and %.3f", a.ThirdQuality, q.ThirdQuality)
	because("the time here ends with nine tenths of the pages, that of the paper with all")
	add("5.3.1", "performance has half more quality than breadth-first at 1/2", s.Middle > 1.4*b.Middle, "%.2f times", s.Middle/b.Middle)
	because("fast servers are not those with the good pages, and pages of high Pagerank are discovered first")

	b, s, q, a = of(ByZipf, "breadth-first"), of(ByZipf, "performance"), of(ByZipf, "quality"), of(ByZipf, "crawl-ability")
	add("5.3.2", "crawl-ability has more quality than quality in half of the pages", a.HalfQuality > q.HalfQuality, "%.3f and %.3f", a.HalfQuality, q.HalfQuality)
	because("the difference is small, and other seeds reverse it")
	add("5.3.2", "crawl-ability has most quality at 1/3", a.ThirdQuality > max(b.ThirdQuality, s.ThirdQuality, q.ThirdQuality),
		"%.3f; %.3f, %.3f and %.3f", a.ThirdQuality, b.ThirdQuality, s.ThirdQuality, q.ThirdQuality)
	add("5.3.2", "it has 60 % of the quality at 1/3", a.ThirdQuality > .6, "%.3f", a.ThirdQuality)
	add("5.3.2", "it has 80 % of the quality at 1/2", a.Middle > .8, "%.3f", a.Middle)
	because("the time here ends with nine tenths of the pages, that of the paper with all")
	add("5.3.2", "performance and quality have more than breadth-first at 1/2", min(s.Middle, q.Middle) > b.Middle, "%.3f and %.3f; %.3f", s.Middle, q.Middle, b.Middle)
	add("5.3.2", "performance has more than quality at 1/2", s.Middle > q.Middle, "%.3f and %.3f", s.Middle, q.Middle)
	because("the difference is small, and other seeds reverse it")
	return list
}
