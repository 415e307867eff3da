package trust_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/trust"
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

	look   bool      // it is to be looked at as a whole
	looked time.Time // so

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
		rules.Outcome(s.record.Voice("indexnow"), o, now)
	}
	s.copies[page], s.last[page] = s.live[page], now
}

// A Web of which one site in five lies and one in five floods, as a crawler
// lives through it: what is told goes through the storm, is asked about, waits
// for the site's turn, and is judged; a site that is degraded is looked at as a
// whole; every page is visited every two days, whatever is told. Honest sites are
// heard throughout, liars are mute after 20 lies, the memory is bounded, and
// every copy is right in the end.
func TestEverybodyConverges(t *testing.T) {
	const (
		pages   = 20
		step    = 10 * time.Minute
		steps   = 7 * 24 * 6
		quiet   = 3 * 24 * 6 // steps at the end in which nothing changes
		turns   = 40         // visits a site allows in a step
		perStep = 400        // notices that are taken in
	)
	var rules trust.Rules
	r := rand.New(rand.NewPCG(1, 11))
	storm := trust.Storm[int]{PerSite: 200, MaxBytes: 1 << 20}
	sites := make([]*fakeSite, 30)
	for i := range sites {
		sites[i] = &fakeSite{kind: i % 5, live: make([]int, pages), copies: make([]int, pages), last: make([]time.Time, pages), claims: make(map[int]time.Time)}
		for p := range pages {
			sites[i].last[p] = start
		}
	}
	now, most, looks := start, 0, 0
	for n := range steps {
		now = now.Add(step)
		for i, s := range sites {
			tell := func(page int) {
				storm.Add(trust.Said[int]{Site: i, URL: strconv.Itoa(page), Claim: trust.Claim{At: now}})
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
		most = max(most, storm.Len())
		degraded, all := storm.Degraded()
		if all {
			t.Fatal("all sites are degraded")
		}
		for _, i := range degraded {
			if sites[i].kind != 4 {
				t.Errorf("site %d, of kind %d, is degraded", i, sites[i].kind)
			}
			sites[i].look = true
		}
		for _, s := range sites {
			if !s.look || now.Sub(s.looked) < 6*time.Hour { // no oftener than it is polled anyway
				continue
			}
			s.look, s.looked = false, now
			looks++
			for p := range pages { // as a manifest would tell
				if s.live[p] != s.copies[p] {
					s.queue = append(s.queue, p)
				}
			}
		}
		for _, said := range storm.Next(perStep) {
			s := sites[said.Site]
			page, err := strconv.Atoi(said.URL)
			if err != nil || page >= pages {
				continue // unknown, and not admitted
			}
			if _, told := s.claims[page]; told {
				continue
			}
			if !rules.Notice(s.record.Voice("indexnow"), now).Taken() {
				s.ignored++
				continue
			}
			s.claims[page] = said.Claim.At
			s.queue = append(s.queue, page)
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
				t.Errorf("site %d, of kind %d: page %d is not as the site has it", i, s.kind, p)
			}
		}
		if s.kind <= 1 && s.ignored > 0 {
			t.Errorf("site %d, of kind %d: %d notices are ignored", i, s.kind, s.ignored)
		}
		// A liar's lie may be true by chance: its page has just changed.
		v := s.record.Voice("indexnow")
		if bound := 20 + 3*int(v.Right) + 4*9 + turns; s.kind >= 3 && s.lies > bound {
			t.Errorf("site %d, of kind %d: %d lies were fetched, bound %d: %v", i, s.kind, s.lies, bound, v)
		}
	}
	if most > 200*len(sites) || looks == 0 || looks > len(sites)*7*4 {
		t.Errorf("%d notices were held, %d times a site was looked at as a whole", most, looks)
	}
}
