package rank

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/client/collection"
)

// A Quality holds the weights of a page's intrinsic quality (V02, V14), the
// weighted mean of its inputs. Each input is between 0 and 1.
type Quality struct {
	Depth   float64 // 1 at a start page, half as much one link away, a third two links away
	Static  float64 // 1 for a page that is not dynamic
	Queue   float64 // larger sites first: the logarithm of the pages that wait on its site
	Access  float64 // how much the page is visited, as its site states; a half where it does not
	History float64 // 0 for a page with the rank 0 in Earlier, or with none; a half for the rank 1

	// By links; a half for the average page, and for one that is newer than the last computation.
	Pagerank  float64
	Weighted  float64 // Pagerank, with the links between two sites, or within one, weighing as much together as those between two others (K07)
	Hub       float64 // whether the page links to good authorities (K04), links weighed so, too; a half while its links are unknown
	Authority float64 // whether good hubs link to it
	Siterank  float64 // Pagerank of its site (K06)

	Earlier *History // nil: there is none
	Links   *Scores  // of Hub to Siterank and Weighted, where Ranks puts them; nil: they are not computed
}

// DefaultQuality uses no inputs that need the whole link graph, or a History.
var DefaultQuality = Quality{Depth: 1, Static: 1, Access: 1}

// ParseQuality reads weights such as "depth=1,static=0.5". Those that are not
// named are 0; the empty string means DefaultQuality.
func ParseQuality(s string) (Quality, error) {
	if s == "" {
		return DefaultQuality, nil
	}
	var q Quality
	of := map[string]*float64{"depth": &q.Depth, "static": &q.Static, "queue": &q.Queue, "access": &q.Access, "history": &q.History,
		"pagerank": &q.Pagerank, "weighted": &q.Weighted, "hub": &q.Hub, "authority": &q.Authority, "siterank": &q.Siterank}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		w, err := strconv.ParseFloat(value, 64)
		to := of[name]
		if to == nil || err != nil || !(w >= 0) || math.IsInf(w, 0) {
			return Quality{}, fmt.Errorf("weight %q: want depth, static, queue, access, pagerank, weighted, hub, authority, siterank or history, and a number, such as depth=1", part)
		}
		*to = w
	}
	if q.sum() == 0 {
		return Quality{}, fmt.Errorf("weights %q: all are 0", s)
	}
	return q, nil
}

func (q Quality) sum() float64 {
	return q.Depth + q.Static + q.Queue + q.Access + q.History + q.Pagerank + q.scored()
}

// ByLinks reports whether the quality depends on the links of all pages.
func (q Quality) ByLinks() bool { return q.Pagerank+q.scored() > 0 }

// scored returns the weights of what is in Links.
func (q Quality) scored() float64 { return q.Weighted + q.Hub + q.Authority + q.Siterank }

// queueFull is the number of waiting pages at which Queue is 1: the bound for a
// site (G04).
const queueFull = 25_000

// Of returns the quality of a page of a site. A duplicate has none (App. W).
func (q Quality) Of(p *collection.Page, s *collection.Site) float64 {
	sum := q.sum()
	if sum == 0 || p.Original != 0 {
		return 0
	}
	v := q.Depth / float64(1+max(0, p.Depth))
	if !p.Dynamic {
		v += q.Static
	}
	v += q.Queue * min(1, math.Log1p(float64(max(0, s.Ready)))/math.Log1p(queueFull))
	access := 0.5
	if x := float64(p.Importance); x >= 0 && x <= 1 {
		access = x
	}
	v += q.Access * access
	rank := 0.5
	if x := float64(p.Rank); x > 0 {
		rank = x / (1 + x)
	}
	v += q.Pagerank*rank + q.Links.of(&q, p)
	if q.History > 0 {
		x, _ := q.Earlier.of(p.URL)
		v += q.History * float64(x) / (1 + float64(x))
	}
	return v / sum
}
