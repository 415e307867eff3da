package census

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/graph"
)

// scores are the link scores of pages, each a share of the sum of all (Castillo 8.5.2).
type scores struct{ pagerank, hub, authority []float64 }

// readScores computes the scores, and the links between sites.
func (t *taking) readScores() error {
	w := &t.web
	links := func(yield func(uint32, []uint32) bool) { // none as soon as ctx ends, so that the computations end, too
		for page, to := range w.All() {
			if page%1024 == 0 && t.ctx.Err() != nil || !yield(page, to) {
				return
			}
		}
	}
	t.scores.pagerank = graph.Pagerank{}.Ranks(w.Len(), links)
	t.scores.hub, t.scores.authority = graph.HITS{}.Scores(w.Len(), links)
	if t.ctx.Err() == nil {
		t.siteGraph = newSiteGraph(w)
	}
	return t.ctx.Err()
}

// nothing is a score that counts as zero, as a share of the mean. Those of hubs and authorities outside the largest community come closer
// to zero with every step, and reach it when a computer's numbers end.
const nothing = 1e-6

// A scoreHistogram counts scores, as multiples of the mean, by their first digit and power of ten. Key 0 are those that count as zero.
type scoreHistogram map[int]int64

// scoreKey is the key of a score: ten times the power of ten, which is above -10, and the first digit.
func scoreKey(score float64) int {
	if !(score >= nothing) {
		return 0
	}
	digits := strconv.FormatFloat(rounded(score), 'e', 5, 64) // 1.23456e-02
	power, _ := strconv.Atoi(digits[8:])
	return 10*(power+10) + int(digits[0]-'0')
}

func histogramOf(list []float64) scoreHistogram {
	h := scoreHistogram{}
	for _, x := range list {
		h[scoreKey(x*float64(len(list)))]++
	}
	return h
}

// scores adds a row for each class that is in one of the histograms: its lower border, and the count in each.
func (t *Table) scores(lists ...[]float64) {
	var histograms []scoreHistogram
	for _, list := range lists {
		histograms = append(histograms, histogramOf(list))
	}
	for _, key := range sorted(histograms...) {
		from := 0.0
		if key > 0 {
			from, _ = strconv.ParseFloat(strconv.Itoa(key%10)+"e"+strconv.Itoa(key/10-10), 64)
		}
		cells := []any{from}
		for _, h := range histograms {
			cells = append(cells, h[key])
		}
		t.row(cells...)
	}
}

// share returns the share of scores that do not count as zero.
func (h scoreHistogram) share() float64 {
	var all int64
	for _, n := range h {
		all += n
	}
	return per(all-h[0], all)
}

// scoreTables are the tables of link scores, of pages and of sites.
func (t *taking) scoreTables() []Table {
	s, g := t.scores, t.siteGraph
	pages := table("scores", "R17, Castillo 8.5.2", 1, "from", "pagerank", "hub", "authority")
	pages.scores(s.pagerank, s.hub, s.authority)

	sites := table("site_scores", "R22, K06, K08, Castillo 8.6.2", 1, "from", "pagerank", "hub", "authority", "siterank")
	ofSites := [][]float64{g.Sums(s.pagerank), g.Sums(s.hub), g.Sums(s.authority), g.Pagerank(graph.Pagerank{})}
	sites.scores(ofSites...)

	levels := table("pagerank_levels", "R28, Castillo 5.5", 1, "depth", "pages", "sum", "cumulative")
	var count [math.MaxUint8 + 1]int64
	var sums [math.MaxUint8 + 1]float64
	for page, depth := range t.book.depth {
		count[depth]++
		sums[depth] += s.pagerank[page]
	}
	var so float64
	for depth, n := range count {
		if so += sums[depth]; n > 0 {
			levels.row(depth, n, sums[depth], so)
		}
	}
	return []Table{pages, sites, t.siteTable(ofSites), levels}
}

// siteTable is the table of each site with its scores, of which the last ones order it.
func (t *taking) siteTable(scores [][]float64) Table {
	sites := table("sites", "K06, K08, V23, Castillo 7.2.1, 7.3.1 and 8.6.2", 1, "site", "pages", "bytes", "pagerank", "hub", "authority", "siterank")
	order := make([]int, len(t.sites.counts))
	for i := range order {
		order[i] = i
	}
	last := scores[len(scores)-1]
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(rounded(last[b]), rounded(last[a])), cmp.Compare(a, b)) })
	for _, i := range order {
		x := t.sites.counts[i]
		site, _ := t.col.SiteByID(x.id)
		if site.Withheld {
			continue
		}
		cells := []any{site.Origin, x.pages, x.bytes}
		for _, of := range scores {
			score := of[i] * float64(len(order))
			if score < nothing {
				score = 0
			}
			cells = append(cells, score)
		}
		sites.row(cells...)
	}
	return sites
}

// scoreFigures adds the figures of link scores to the summary.
func (t *taking) scoreFigures(s *Table) {
	mean := 1 / float64(len(t.scores.pagerank))
	least, below := math.NaN(), int64(0)
	for _, x := range t.scores.pagerank {
		if !(x >= least) {
			least = x
		}
		if x < mean*(1-1e-9) { // not only by rounding
			below++
		}
	}
	s.row("least Pagerank of a page, mean 1", least/mean)
	s.row("share of pages with less than the mean", per(below, int64(len(t.scores.pagerank))))
	s.row("share of pages with a hub score", histogramOf(t.scores.hub).share())
	s.row("share of pages with an authority score", histogramOf(t.scores.authority).share())
	t.value(s, mean)
}

// A freshness is what is needed to know how probable it is that a copy is as the page is by now.
type freshness struct {
	rate      float32 // of changes, a day; negative: it is known to be outdated
	confirmed uint32  // when the copy was known to be right, in seconds since 1970
}

func freshnessOf(p *collection.Page) freshness {
	if p.Outdated() {
		return freshness{rate: -1}
	}
	at := p.Last
	if p.Heard.Confirmed.After(at) {
		at = p.Heard.Confirmed
	}
	return freshness{float32(fresh.Rate(p.History)), uint32(min(max(at.Unix(), 0), math.MaxUint32))}
}

func (f freshness) at(now time.Time) float64 {
	if f.rate < 0 {
		return 0
	}
	return math.Exp(-float64(f.rate) * max(float64(now.Unix()-int64(f.confirmed)), 0) / (24 * 60 * 60))
}

// value adds the value of the index (V05): a page is worth its Pagerank, on average 1, by how probable it is that the copy is as the page
// is by now.
func (t *taking) value(s *Table, mean float64) {
	var sum, current float64
	least := math.Inf(1)
	for page, x := range t.scores.pagerank {
		now := t.book.fresh[page].at(t.book.count.total.newest)
		value := float64(x/mean) * now
		sum += float64(value)
		current += now
		least = min(least, value)
	}
	s.row("mean freshness of a page", per(current, len(t.scores.pagerank)))
	s.row("value of the index: the sum of Pagerank, mean 1, times freshness", sum)
	s.row("least value of a page", least)
}
