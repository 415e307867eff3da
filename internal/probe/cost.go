package probe

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
)

const (
	maxAges   = 2000 // pages that the fit uses
	groups    = 64   // of pages with about the same rate
	getHead   = 700  // bytes of both headers of a request
	condHead  = 434  // of a conditional request (S2 6.5.3), where none was measured
	pageBytes = 20_000
	mapEntry  = 14  // bytes of a sitemap's entry, compressed
	rdfEntry  = 28  // of a manifest's
	change    = 200 // of a change message
	hour      = 3600.0
)

// A mix is a distribution of the rates of change of a site's pages: shares of the pages, and their rates in
// changes a second.
type mix []struct{ share, rate float64 }

// believe fits a Gamma distribution of rates to the times since the last changes, by the likelihood on a
// grid, and gives each page its mean rate given its own time. So the rate of each page accounts for its age
// and for its uncertainty: a page that changed an hour ago need not change every hour.
func believe(ages []time.Duration) mix {
	if len(ages) == 0 {
		return mix{{1, 1 / assumedInterval.Seconds()}}
	}
	s := make([]float64, 0, len(ages))
	for _, a := range ages {
		s = append(s, max(a.Seconds(), 60))
	}
	slices.Sort(s)
	if len(s) > maxAges { // sample evenly
		thin := make([]float64, maxAges)
		for i := range thin {
			thin[i] = s[i*(len(s)-1)/(maxAges-1)]
		}
		s = thin
	}
	best, alpha, beta := math.Inf(-1), 1.0, s[len(s)/2]
	for _, al := range [...]float64{0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10} {
		for be := hour / 60; be < 1e10; be *= 1.5 {
			// Lomax: log(al) + al log(be) - (al+1) log(be+age); one pseudo-page at the assumed interval keeps
			// a few dates from counting too much.
			l := float64(len(s)) * (math.Log(al) + al*math.Log(be))
			for _, a := range s {
				l -= (al + 1) * math.Log(be+a)
			}
			a := assumedInterval.Seconds()
			l += math.Log(al) + al*math.Log(be) - (al+1)*math.Log(be+a)
			if l > best {
				best, alpha, beta = l, al, be
			}
		}
	}
	m := make(mix, 0, groups)
	for g := range min(groups, len(s)) {
		n := min(groups, len(s))
		part := s[g*len(s)/n : (g+1)*len(s)/n]
		rate := 0.0
		for _, a := range part {
			rate += (alpha + 1) / (beta + a)
		}
		m = append(m, struct{ share, rate float64 }{float64(len(part)) / float64(len(s)), rate / float64(len(part))})
	}
	return m
}

// fresh is the mean of F at an interval in seconds (F06).
func (m mix) fresh(interval float64) (f float64) {
	for _, g := range m {
		f += g.share * share(g.rate*interval)
	}
	return f
}

// share is (1 - e^-x)/x.
func share(x float64) float64 {
	if x < 1e-9 {
		return 1 - x/2
	}
	return -math.Expm1(-x) / x
}

// age is the mean age of a copy in seconds (F06).
func (m mix) age(interval float64) (a float64) {
	for _, g := range m {
		x := g.rate * interval
		if x < 1e-4 {
			a += g.share * interval * (x/6 - x*x/24) // the series: the formula would lose precision
			continue
		}
		a += g.share * interval * (0.5 - 1/x + -math.Expm1(-x)/(x*x))
	}
	return a
}

// changed is the share of pages that has changed after an interval in seconds.
func (m mix) changed(interval float64) (c float64) {
	for _, g := range m {
		c += g.share * -math.Expm1(-g.rate*interval)
	}
	return c
}

// rate is the mean rate.
func (m mix) rate() (r float64) {
	for _, g := range m {
		r += g.share * g.rate
	}
	return r
}

// interval is the longest interval in seconds at which the mean of F is at least f: from a second to a
// hundred years.
func (m mix) interval(f float64) float64 {
	low, high := 0.0, math.Log(100*365*24*hour)
	for range 60 {
		if mid := (low + high) / 2; m.fresh(math.Exp(mid)) >= f {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(low)
}

// measured is what the probe learns about the site's pages that their cost depends on.
type measured struct {
	pages  int   // of the site, as far as known
	whole  bool  // pages counts all of them
	bodies []int // sizes of pages on the wire, in bytes
	cond   []int // sizes of conditional requests answered by 304, in bytes

	ages  []time.Duration // times since the last changes of pages
	ageOf string          // source of ages
}

const otherContent = "other content"

// again returns the result of a conditional request for what a site has sent before.
func (m *measured) again(r, before *reply) string {
	switch {
	case r.status == http.StatusNotModified:
		m.cond = append(m.cond, r.heads+r.wire)
		return "304"
	case sameBody(r, before):
		return "sent again"
	case r.ok():
		return otherContent
	}
	return "no answer"
}

// take uses dates as those of the site's pages, unless others were taken before.
func (m *measured) take(of string, worth trust.Worth, dates []protocol.Date, now time.Time) {
	if !worth.Signal() || len(m.ages) > 0 {
		return
	}
	for _, d := range dates {
		if t, ok := protocol.SaneModified(d.Time, now, protocol.DateLimits{}); ok && !d.Time.IsZero() {
			m.ages, m.ageOf = append(m.ages, now.Sub(t)), of
		}
	}
}

// cost returns what a month of freshness would cost by each door of a site. Zero freshness and delay mean the
// defaults.
func (m *measured) cost(r *Report, freshness float64, delay time.Duration) *Cost {
	c := &Cost{Freshness: freshness, Pages: max(m.pages, 1), AllPages: m.whole, Delay: delay}
	if !(c.Freshness > 0 && c.Freshness < 1) {
		c.Freshness = defaultFresh
	}
	if c.Delay <= 0 {
		c.Delay = defaultDelay
	}
	c.Delay = max(c.Delay, r.Robots.Delay)
	rates := believe(m.ages)
	n, M := float64(c.Pages), month.Seconds()
	I := rates.interval(c.Freshness)
	c.Dates, c.Dated = m.ageOf, len(m.ages)
	c.ChangesADay = n * rates.rate() * 24 * hour
	c.Interval = seconds(I)
	body := mean(m.bodies, pageBytes)
	c.PageBytes = int(body)
	get, cond := body+getHead, mean(m.cond, condHead)
	c.NotModifiedBytes = int(cond)
	looks := M / I
	updates := looks * n * rates.changed(I)
	add := func(d Door) {
		d.Fits = d.Requests*c.Delay.Seconds() <= M
		c.Doors = append(c.Doors, d)
	}
	polled := func(name string, offered bool, why string, requests, bytes float64) {
		add(Door{Name: name, Offered: offered, Note: why, Every: seconds(I), Freshness: rates.fresh(I), Age: seconds(rates.age(I)),
			Requests: requests, Bytes: bytes})
	}
	polled("get", true, "", looks*n, looks*n*get)
	polled("conditional", r.Page.ByETag == "304" || r.Page.ByDate == "304", "", looks*n, looks*n*cond+updates*get)

	files, wire, trusted := 0.0, 0.0, ""
	for _, s := range r.Sitemaps {
		if s.Pages+s.Sitemaps > 0 {
			files, wire = files+1, wire+float64(s.Wire)
		}
		if s.Pages > 0 && (s.Dates.Dated == 0 || !s.Dates.worth.Signal()) {
			trusted = "its dates are not usable: " + s.Dates.Verdict
		}
	}
	found := files > 0
	if found {
		files += float64(r.SitemapsUnread)
	} else {
		files, wire = math.Ceil(n/50_000), n*mapEntry
	}
	polled("sitemap", found && trusted == "", trusted, looks*files+updates, looks*(wire+files*getHead)+updates*get)

	feedWire, entries, feeds := 15_000.0, 15.0, 0
	for _, f := range r.Feeds {
		if f.Entries > 0 {
			feedWire, entries = float64(f.Wire), float64(f.Entries)
			feeds++
			break
		}
	}
	// A feed has a window: a change that leaves it before the next poll is lost.
	fI := min(I, entries/max(n*rates.rate(), 1e-12))
	add(Door{Name: "feed", Offered: feeds > 0, Note: "only for the pages that it lists", Every: seconds(fI), Freshness: rates.fresh(fI), Age: seconds(rates.age(fI)),
		Requests: M/fI + M/fI*n*rates.changed(fI), Bytes: M/fI*(feedWire+getHead) + M/fI*n*rates.changed(fI)*get})

	manifest, mWire := r.Manifest != nil && r.Manifest.Items > 0, n*rdfEntry
	if manifest {
		mWire = float64(r.Manifest.Wire)
	}
	perLook, perUpdate := 1., get
	if manifest && r.Manifest.Parts > 0 { // the index, and a part that has what changed
		perLook, perUpdate = 2, get+rdfEntry
	}
	// A poll without changes is a 304; that every poll finds some is the worse case.
	polled("manifest", manifest, "", perLook*looks+updates, looks*(mWire+perLook*getHead)+updates*perUpdate)
	polled("changes", manifest && r.Manifest.ChangesOpen, "", looks+updates, looks*getHead+updates*(change+get))
	all := M * n * rates.rate()
	add(Door{Name: "stream", Offered: manifest && r.Manifest.StreamOpen, Freshness: 1, Requests: 1 + all, Bytes: getHead + all*(change+get)})
	return c
}

func seconds(s float64) time.Duration {
	if s > math.MaxInt64/1e9/2 {
		s = math.MaxInt64 / 1e9 / 2
	}
	return time.Duration(s * 1e9).Round(time.Second)
}

func mean(list []int, otherwise float64) float64 {
	if len(list) == 0 {
		return otherwise
	}
	sum := 0
	for _, n := range list {
		sum += n
	}
	return float64(sum) / float64(len(list))
}
