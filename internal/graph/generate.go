package graph

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
)

// A Model describes a web to generate. Exponents are those of power laws, of which the largest numbers are few: k occurs in proportion to
// k^-exponent. The defaults are what Castillo 2004, section 2.1.3, has of the real Web; the mean of links is a usual one.
type Model struct {
	Pages, Hosts int     // at least one page for each host
	Links        float64 // of a page, on average, at least 1; 0 means 10. Pages times Links is below 2^32
	In           float64 // exponent of how many links lead to a page, above 2; 0 means 2.1
	Out          float64 // exponent of how many links a page has, above 2; 0 means 2.7
	Sites        float64 // exponent of how many pages a host has, above 1; 0 means 1.77
	Away         float64 // about the share of links that lead to another host, below 1; 0 means .1
	Seed         uint64

	// Lean is how site size and Pagerank are correlated: a host of s pages gets the links from other hosts in proportion to s^(1+Lean).
	// At 0 these are spread over all pages alike, but pages of large hosts have more Pagerank all the same, since small hosts have too few
	// pages to link to within; near -.8 pages of large and small hosts have the same, and the smaller Lean, the more have the small ones'.
	Lean float64
}

// Generate makes a graph by copying: most links of a page are copied from another page of its host, and so pages that have many links
// get more; some lead to a page at random. A page arrives with a link from an earlier page of its host, and the first of a host is its
// start page, from which the host's others can be reached. One page in 50 has no links.
//
// Pages have no paths. The graph is the same for the same Model on every machine. Pages of small hosts find too few links within and have
// more to other hosts, so that of Away .1 becomes about .15. The law of links to a page is a power law from about 20 on, as that of
// all models of copying, and with fewer than 11 links a page its exponent is somewhat higher than asked for.
func Generate(m Model) *Graph {
	if m.Pages < 1 {
		return &Graph{}
	}
	w := newWeb(m)
	order := slices.Clone(w.g.Host) // of arrival, by host
	w.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, h := range order {
		w.arrive(h)
	}
	for page := range uint32(m.Pages) {
		w.link(page, w.most(page))
	}
	return w.graph()
}

// noLinks is the share of pages without links.
const noLinks = .02

// A web is a graph in the making. Its pages are numbered as in the graph, but the slice of their links has gaps.
type web struct {
	g          Graph
	rng        *rand.Rand
	has        []uint32  // how many links a page has so far; g.First and g.To have room for all that it will have
	start      []uint32  // the first page of each host, and the number of pages
	arrived    []uint32  // how many of the pages of a host
	weight     []float64 // weight[h] is how strongly hosts up to h attract links of others
	copy       float64   // the chance that a link is a copy, where there is a choice
	near, away float64   // the chance that a link leads to a page at random of the own host; to another host
	linked     []uint32  // the last round in which a page was linked or is not to be
	round      uint32
}

func newWeb(m Model) *web {
	hosts := min(max(m.Hosts, 1), m.Pages)
	mean := max(cmp.Or(m.Links, 10), 1)
	w := &web{rng: rand.New(rand.NewPCG(m.Seed, 0x9ea9)), arrived: make([]uint32, hosts), start: make([]uint32, 1, hosts+1),
		has: make([]uint32, m.Pages), linked: make([]uint32, m.Pages)}
	sum := 0.0
	for h, size := range w.shuffled(drawn(hosts, m.Pages, m.Pages, cmp.Or(m.Sites, 1.77))) {
		w.g.Hosts = append(w.g.Hosts, fmt.Sprintf("site%d.example", h))
		for range size {
			w.g.Host = append(w.g.Host, uint32(h))
		}
		w.start = append(w.start, uint32(len(w.g.Host)))
		sum += power(float64(size), 1+m.Lean)
		w.weight = append(w.weight, sum)
	}
	const mostLinks = 4096 // of a page
	degrees := w.shuffled(drawn(m.Pages, int(mean*float64(m.Pages)/(1-noLinks)), max(min(m.Pages-1, mostLinks), 1), cmp.Or(m.Out, 2.7)))
	w.fit(degrees)
	w.g.First = make([]uint32, 1, m.Pages+1)
	total := uint32(0)
	for i, n := range degrees {
		if uint32(i) != w.start[w.g.Host[i]] && w.rng.Float64() < noLinks || m.Pages == 1 {
			n = 0
		}
		total += uint32(n)
		w.g.First = append(w.g.First, total)
	}
	w.g.To = make([]uint32, total)

	// What is copied grows in proportion to what there is. If that is a share c of all links, the exponent is 1 + 1/c. The link with which
	// a page arrives is no copy; the rest of the share that is none leads to pages at random.
	w.copy = min(1/(cmp.Or(m.In, 2.1)-1), 1)
	others := max(mean-1, 1e-9)
	w.near = min(max(float64((1-w.copy)*mean)-1, 0)/others, 1)
	// Copied links lead away as often as those that they copy, so few other links need to.
	if share := cmp.Or(m.Away, .1); hosts > 1 {
		w.away = min(share*(1/others+w.near)/max(1-share, 1e-9), 1)
	}
	return w
}

func (w *web) shuffled(numbers []int) []int {
	w.rng.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	return numbers
}

// fit exchanges numbers of links between pages, so that few pages have more than half as many as their host has pages.
func (w *web) fit(degrees []int) {
	for i := range degrees {
		for range 8 {
			j := w.rng.Uint32N(uint32(len(degrees)))
			if n := degrees[i]; 2*n > w.pages(uint32(i)) && n > degrees[j] && 2*n <= w.pages(j) {
				degrees[i], degrees[j] = degrees[j], n
			}
		}
	}
}

// pages returns how many the host of a page has.
func (w *web) pages(page uint32) int {
	host := w.g.Host[page]
	return int(w.start[host+1] - w.start[host])
}

// most returns how many links a page may have.
func (w *web) most(page uint32) uint32 { return w.g.First[page+1] - w.g.First[page] }

func (w *web) links(page uint32) []uint32 {
	return w.g.To[w.g.First[page] : w.g.First[page]+w.has[page]]
}

func (w *web) add(page, to uint32) {
	w.g.To[w.g.First[page]+w.has[page]] = to
	w.has[page]++
}

// arrive adds the next page of a host.
func (w *web) arrive(host uint32) {
	page := w.start[host] + w.arrived[host]
	w.adopt(w.start[host], page)
	w.arrived[host]++
	if n := w.most(page); n > 0 {
		w.link(page, n-n/5-1) // the rest waits for pages that arrive later
	}
}

// adopt gives a page that arrives a link from an earlier page of its host, of which start is the first.
func (w *web) adopt(start, page uint32) {
	for try := uint32(0); page > start && try < page-start+4; try++ {
		parent := page + 3 - try // the latest pages have the fewest links
		if try < 4 {
			parent = start + w.rng.Uint32N(page-start)
		}
		if w.has[parent] < w.most(parent) {
			w.add(parent, page)
			return
		}
	}
}

// link gives a page links until it has so many, or no more are found.
func (w *web) link(page, most uint32) {
	if w.has[page] >= most {
		return
	}
	host := w.g.Host[page]
	whole := w.start[host]+w.arrived[host] == w.start[host+1]
	w.round++
	w.linked[page] = w.round
	for _, to := range w.links(page) {
		w.linked[to] = w.round
	}
	var copying []uint32
	tries := 4*(most-w.has[page]) + 16
	for try := uint32(0); try < tries && w.has[page] < most; try++ {
		to, ok, choice := uint32(0), false, w.rng.Float64()
		switch {
		case choice < w.away || whole && try > tries/2: // a small host has no more pages
			to, ok = w.elsewhere(host)
		case choice < w.away+w.near:
			to, ok = w.anyOf(host), true
		default:
			if len(copying) == 0 {
				copying = w.stretch(w.anyOf(host))
			}
			if len(copying) > 0 {
				to, ok, copying = copying[0], true, copying[1:]
			}
		}
		if ok && w.linked[to] != w.round {
			w.linked[to] = w.round
			w.add(page, to)
		}
	}
}

// anyOf returns a page of a host at random.
func (w *web) anyOf(host uint32) uint32 { return w.start[host] + w.rng.Uint32N(w.arrived[host]) }

// stretch returns half of the links of a page, or fewer: each is as likely in it as any other.
func (w *web) stretch(page uint32) []uint32 {
	links := w.links(page)
	if len(links) == 0 {
		return nil
	}
	n := len(links)/2 + 1
	end := 1 + int(w.rng.Uint32N(uint32(len(links)+n-1)))
	return links[max(end-n, 0):min(end, len(links))]
}

// elsewhere returns a page of another host at random, or a page that it links to, and whether one was found.
func (w *web) elsewhere(host uint32) (uint32, bool) {
	h := uint32(sort.SearchFloat64s(w.weight, w.rng.Float64()*w.weight[len(w.weight)-1]))
	if h == host || w.arrived[h] == 0 {
		return 0, false
	}
	page := w.anyOf(h)
	if w.rng.Float64() >= w.copy {
		return page, true
	}
	links := w.links(page)
	if len(links) == 0 {
		return 0, false
	}
	return links[w.rng.Uint32N(uint32(len(links)))], true
}

// graph closes the gaps.
func (w *web) graph() *Graph {
	g := w.g
	g.To = w.g.To[:0]
	for page := range uint32(len(w.has)) {
		links := w.links(page)
		slices.Sort(links)
		g.First[page] = uint32(len(g.To))
		g.To = append(g.To, links...)
	}
	g.First[len(w.has)] = uint32(len(g.To))
	return &g
}
