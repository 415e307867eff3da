package trust_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/trust"
)

// A fakeSite has pages with versions, and a crawler's copies of them.
type fakeSite struct {
	kind   int // 0 to 4: honest, unlucky, sloppy, liar, flooding liar
	record trust.Record
	live   []int
	copies []int
	last   []time.Time // visits
	queue  []int       // pages to visit
	claims map[int]time.Time

	ignored, lies int
}

func (s *fakeSite) visit(rules trust.Rules, page int, now time.Time) {
	changed := s.copies[page] != s.live[page]
	if at, told := s.claims[page]; told {
		delete(s.claims, page)
		status := 304
		if changed {
			status = 200
		}
		o := trust.Judge(trust.Claim{At: at}, trust.Seen{Asked: now, Status: status, Changed: changed, Last: s.last[page]})
		if o == trust.Wrong {
			s.lies++
		}
		rules.Outcome(s.record.Source("indexnow"), o, now)
	}
	s.copies[page], s.last[page] = s.live[page], now
}

// A Web in which one site in five lies and one in five floods, from the view of a
// crawler: each notice becomes a pending fetch, one per page however often it is repeated,
// waits for the site's slot, and is judged; every page is visited every
// two days, whatever the notices. Honest sites are heard throughout, liars are muted
// after 20 lies, and every copy is correct in the end.
func TestTrustConverges(t *testing.T) {
	const (
		pages = 20
		step  = 10 * time.Minute
		steps = 7 * 24 * 6
		quiet = 3 * 24 * 6 // steps at the end in which nothing changes
		turns = 40         // visits a site allows in a step
	)
	var rules trust.Rules
	r := rand.New(rand.NewPCG(1, 11))
	sites := make([]*fakeSite, 30)
	for i := range sites {
		sites[i] = &fakeSite{kind: i % 5, live: make([]int, pages), copies: make([]int, pages), last: make([]time.Time, pages), claims: make(map[int]time.Time)}
		for p := range pages {
			sites[i].last[p] = start
		}
	}
	now := start
	for n := range steps {
		now = now.Add(step)
		for _, s := range sites {
			tell := func(page int) {
				if page >= pages {
					return // unknown, and not admitted
				}
				if _, told := s.claims[page]; told {
					return
				}
				if !rules.Notice(s.record.Source("indexnow"), now).Taken() {
					s.ignored++
					return
				}
				s.claims[page] = now
				s.queue = append(s.queue, page)
			}
			if n < steps-quiet && r.IntN(6) == 0 { // a change an hour
				page := r.IntN(pages)
				s.live[page]++
				if s.kind < 3 && r.Float64() < 0.98 {
					tell(page)
				}
			}
			switch s.kind {
			case 1: // one in ten is wrong
				if r.IntN(55) == 0 {
					tell(r.IntN(pages))
				}
			case 2: // one in two
				if r.IntN(6) == 0 {
					tell(r.IntN(pages))
				}
			case 3:
				tell(r.IntN(pages))
			case 4:
				for k := range 220 {
					tell(k % (pages + n%2*1000)) // pages that do not exist, too
				}
			}
		}
		for _, s := range sites {
			for p := range pages {
				if now.Sub(s.last[p]) > 48*time.Hour {
					s.visit(rules, p, now)
				}
			}
			for range min(turns, len(s.queue)) {
				s.visit(rules, s.queue[0], now)
				s.queue = s.queue[1:]
			}
		}
	}
	for i, s := range sites {
		for p := range pages {
			if s.live[p] != s.copies[p] {
				t.Errorf("site %d, of kind %d: the copy of page %d is outdated", i, s.kind, p)
			}
		}
		if s.kind <= 1 && s.ignored > 0 {
			t.Errorf("site %d, of kind %d: %d notices are ignored", i, s.kind, s.ignored)
		}
		// A liar's lie may be true by chance: its page has just changed.
		v := s.record.Source("indexnow")
		if bound := 20 + 3*int(v.Right) + 4*9 + turns; s.kind >= 3 && s.lies > bound {
			t.Errorf("site %d, of kind %d: %d lies were fetched, bound %d: %v", i, s.kind, s.lies, bound, v)
		}
	}
}
