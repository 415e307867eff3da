package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
)

// worth is what a notice adds to the index of a page, in parts of what it adds if the site is always right: it
// changes twice a month, and was seen two weeks ago.
func worth(s fresh.Signal) float64 {
	post, age := near(1./15), 14.
	o := fresh.Objective{Fresh: 1}
	at := o.At(&post, age)
	return (o.Notified(&post, s, age, 1) - at) / (o.Notified(&post, tells(1, 1), age, 1) - at)
}

// Visits to a site that was honest, or silent, and then only lies: notices of a site that
// internal/engine/trust mutes are worth nothing here either, without any information from that package.
func TestMutedSitesHaveWorthlessNotices(t *testing.T) {
	post := near(1. / 15)
	for _, before := range []int{0, 5, 40, 1000} {
		var s fresh.Signal
		var v trust.Source
		var rules trust.Rules
		now := epoch
		judged := func(right bool) bool {
			now = now.Add(time.Minute)
			rules.Notice(&v, now)
			rules.Outcome(&v, map[bool]trust.Outcome{true: trust.Right, false: trust.Wrong}[right], now)
			s.Judged(right)
			_, mute := v.Muted()
			return mute
		}
		for range before {
			judged(true)
		}
		honest, lies := worth(s), 1
		for !judged(false) {
			lies++
		}
		if lies > 40 || before == 0 && lies > 20 {
			t.Fatalf("%d right notices before: internal/engine/trust mutes after %d lies", before, lies)
		}
		mute := worth(s)
		if mute > .01 || s.Precision() > .02 {
			t.Errorf("%d right notices before: muted after %d lies, but a notice is worth %.4f of a certain one (before: %.2f), precision %.3f",
				before, lies, mute, honest, s.Precision())
		}
		for _, o := range objectives {
			for _, age := range []float64{2, 5, 20, 90, 1000} {
				if got, at := o.Notified(&post, s, age, 1), o.At(&post, age); got > 1.01*at || got < .99*at {
					t.Errorf("%d right notices before: %+v: a notice changes the index to %v from %v at age %v", before, o, got, at, age)
				}
			}
		}
		// Its notices count again when it has been right again.
		rights := 0
		for worth(s) < .5 {
			if rights++; rights > 60 {
				t.Fatalf("%d right notices before: never trusted again: %+v", before, s)
			}
			s.Judged(true)
		}
		t.Logf("%d right notices before: worth %.2f; internal/engine/trust mutes after %d lies, worth %.4f here; half of a certain one again after %d right notices",
			before, honest, lies, mute, rights)
	}
}

// Notices of a source that package trust mutes are worth little in this package, too, in whatever order right and wrong
// notices come; those of a source that is right nine times in ten are always worth a visit.
func TestMutingAgreesInAnyNoticeOrder(t *testing.T) {
	most, least := 0., 1.
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		share := rng.Float64()
		if seed%3 == 0 {
			share = .9
		}
		var s fresh.Signal
		var v trust.Source
		var rules trust.Rules
		now := epoch
		for n := range 600 {
			right := rng.Float64() < share
			if seed%3 == 1 { // in long runs
				right = n/int(1+60*share)%2 == 0
			}
			now = now.Add(time.Minute)
			rules.Notice(&v, now)
			o := trust.Wrong
			if right {
				o = trust.Right
			}
			rules.Outcome(&v, o, now)
			s.Judged(right)
			if _, mute := v.Muted(); mute {
				most = max(most, worth(s))
			}
			if share == .9 && seed%3 == 0 && n > 20 {
				least = min(least, worth(s))
			}
		}
	}
	t.Logf("muted sites: at most %.3f; sites right nine times in ten: at least %.3f", most, least)
	if most > .05 || least < .6 {
		t.Errorf("notices of muted sites are worth %.3f, of sites that are right nine times in ten %.3f", most, least)
	}
}

// The number of notices that may wait for their verdict is limited, so that few lies are fetched before the
// site is known.
func TestRoom(t *testing.T) {
	var rules trust.Rules
	for _, c := range []struct{ right, wrong int }{{0, 0}, {0, 20}, {1000, 0}, {20, 20}, {1000, 10}, {3, 0}, {0, 3}} {
		var s fresh.Signal
		var v trust.Source
		for n := range c.right + c.wrong {
			right := n%(c.right+c.wrong) < c.right
			s.Judged(right)
			o := trust.Wrong
			if right {
				o = trust.Right
			}
			rules.Outcome(&v, o, epoch)
		}
		here, there := s.Room(), rules.MaxInFlight(&v)
		t.Logf("%d right, %d wrong: %d here, %d in internal/engine/trust", c.right, c.wrong, here, there)
		if lies := (1 - s.Precision()) * float64(here); here > 1 && lies > 6 {
			t.Errorf("%d right, %d wrong: of %d notices %v are expected to be lies", c.right, c.wrong, here, lies)
		}
		if here > 5*there+5 || there > 5*here+25 {
			t.Errorf("%d right, %d wrong: room for %d, internal/engine/trust has room for %d", c.right, c.wrong, here, there)
		}
	}
	var s fresh.Signal
	if room := s.Room(); room < 15 || room > 25 {
		t.Errorf("a new site has room for %d", room)
	}
}

// listened returns what visits reveal about a site, some of them caused by a notice and some scheduled.
func listened(seed uint64, recall, precision, flood float64) (s fresh.Signal) {
	rng := rand.New(rand.NewPCG(seed, 11))
	type page struct {
		rate, wrong, day, turn float64
		belief                 fresh.Posterior
		changed                bool
		fresh.Hearing
	}
	pages := make([]*page, 60)
	for i := range pages {
		z := rng.NormFloat64()
		rate := max(.1*z*z, 1e-3)
		pages[i] = &page{rate: rate, wrong: flood + recall*rate*(1-precision)/precision, turn: 20 * rng.Float64(), belief: near(rate)}
	}
	for {
		p := pages[0]
		for _, q := range pages {
			if q.day < p.day {
				p = q
			}
		}
		if p.day > 500 {
			return s
		}
		wait := min(rng.ExpFloat64()/(p.rate+p.wrong), p.turn-p.Age)
		p.day, p.Age = p.day+wait, p.Age+wait
		if p.Notices > 0 {
			p.Since += wait
		}
		visit := p.Age >= p.turn
		if u := rng.Float64() * (p.rate + p.wrong); !visit {
			p.changed = p.changed || u < p.rate
			if u >= (1-recall)*p.rate {
				p.Notices++
				visit = rng.IntN(3) == 0
			}
		}
		if visit {
			s.Visited(&p.belief, p.Hearing, p.changed)
			p.Hearing, p.changed, p.turn = fresh.Hearing{}, false, 5+20*rng.Float64()
		}
	}
}

// Visits show how much of a site's notices is right, and how many changes it does not announce, though it is
// unknown which of several notices was right, and whether a right one covered every change.
func TestVisitsMeasureNoticeQuality(t *testing.T) {
	for _, c := range []struct{ recall, precision, flood float64 }{{.99, .98, 0}, {.9, .98, 0}, {.9, .5, 0}, {.5, .95, 0}, {.2, .8, 0}, {.9, 1, .1}, {.5, 1, 1}} {
		s := listened(5, c.recall, c.precision, c.flood)
		precision := c.precision
		if c.flood > 0 {
			precision = c.recall * .1 / (c.recall*.1 + c.flood)
		}
		t.Logf("recall %.2f precision %.2f flood %.1f: recall %.3f, precision %.3f of %.3f, flood %.1f", c.recall, c.precision, c.flood, s.Recall(), s.Precision(), precision, s.Flood.Odds)
		if math.Abs(s.Recall()-c.recall) > .1 && c.flood < 1 {
			t.Errorf("recall %v is estimated as %v: %+v", c.recall, s.Recall(), s)
		}
		if math.Abs(s.Precision()-precision) > .1 || precision < .1 && s.Precision() > .1 {
			t.Errorf("precision %v is estimated as %v: %+v", precision, s.Precision(), s)
		}
		if c.flood > 0 && s.Flood.Odds < 1 || c.flood == 0 && c.precision < .9 && s.Flood.Odds > -2 {
			t.Errorf("flood %v: %v", c.flood, s.Flood.Odds)
		}
	}
}

// If wrong notices are spread over all pages alike, a page that hardly ever changes is not visited for
// them; one that often changes is.
func TestFloodCausesFewVisitsToSlowPages(t *testing.T) {
	s := listened(6, .9, 1, .1)
	slow, fast := near(.004), near(.5)
	if p, q := s.PrecisionOf(&slow), s.PrecisionOf(&fast); p > .15 || q < .6 {
		t.Errorf("notices of a slow page have precision %v, of a fast one %v", p, q)
	}
	o := fresh.Objective{Fresh: 1}
	if got, alike := o.Notified(&slow, s, 10, 1), o.Notified(&slow, tells(.5, .9), 10, 1); got > .2*alike {
		t.Errorf("a notice of a slow page has the index %v, and %v if half of all pages' were right", got, alike)
	}
}

// The recall of a site that numbers its notices need not be measured.
func TestNumberedNoticesMakeRecallExact(t *testing.T) {
	var s fresh.Signal
	s.Numbers.Add(1000, 0)
	if r := s.Recall(); r != .99 {
		t.Errorf("recall %v without a gap in the numbers", r)
	}
	s.Numbers.Add(0, 250)
	if r := s.Recall(); !about(r, .8, .005) {
		t.Errorf("recall %v with one number in five missing", r)
	}
	// Except for changes that the site itself did not notice.
	for range 200 {
		s.Found(false)
	}
	if r := s.Recall(); r > .2 {
		t.Errorf("recall %v, although no change found by visits was announced", r)
	}
	var unnumbered fresh.Signal
	for n := range 40 {
		unnumbered.Found(n%4 > 0)
	}
	if r := unnumbered.Recall(); !about(r, .75, .05) {
		t.Errorf("recall %v with three in four changes announced", r)
	}
}

func TestDelay(t *testing.T) {
	var s fresh.Signal
	if !about(s.Delay(), 1./24, 1e-9) {
		t.Errorf("the first notice is expected after %v days", s.Delay())
	}
	for n := range 1000 {
		s.Lagged(float64(n%2) * 4)
	}
	if !about(s.Delay(), 2, .05) {
		t.Errorf("notices come after 2 days, but are expected after %v", s.Delay())
	}
}

func TestSignalRoundTrip(t *testing.T) {
	s := listened(7, .9, .5, .2)
	s.Numbers.Add(7, 0)
	s.Numbers.Add(0, 2)
	s.Lagged(3)
	site := fresh.Site{Signal: s, Tells: true, Extra: 2}
	got, err := fresh.ParseSite(site.Append(nil))
	if err != nil || got != site {
		t.Errorf("%+v, want %+v: %v", got, site, err)
	}
	site.Manifest = fresh.Manifest{Read: epoch.Add(7 * time.Millisecond), Recall: .625, Planned: true}
	if got, err = fresh.ParseSite(site.Append(nil)); err != nil || got != site {
		t.Errorf("%+v, want %+v: %v", got, site, err)
	}
	for _, m := range []fresh.Manifest{site.Manifest, {}} {
		site.Manifest, site.Predictions = m, fresh.Predictions{Right: 3, Wrong: 1.5}
		if got, err = fresh.ParseSite(site.Append(nil)); err != nil || got != site {
			t.Errorf("%+v, want %+v: %v", got, site, err)
		}
	}
	told := fresh.Page{History: fresh.History{}.Visit(epoch, false, time.Time{}), Directory: 3, Site: &site}
	for n := range 5 {
		new(fresh.Audits).Audited(&site, &told, epoch.Add(time.Duration(n+1)*time.Hour), n == 2)
	}
	if got, err = fresh.ParseSite(site.Append(nil)); err != nil || *got.Audits != *site.Audits {
		t.Errorf("%+v, want %+v: %v", got.Audits, site.Audits, err)
	}
	site.Manifest, site.Predictions = fresh.Manifest{Recall: 1}, fresh.Predictions{}
	bad := site.Append(nil)
	for i := range bad[1:] {
		bad[1+i] = 0xff
	}
	got, err = fresh.ParseSite(bad)
	if err != nil || got.Signal.Flood.Odds != 0 || got.Signal.Right != 0 || got.Manifest.Recall != 0 || !got.Manifest.Read.IsZero() {
		t.Errorf("%+v: %v", got, err)
	}
}

// A notice teaches no more about a page than the visit that follows it shows.
func TestVisitsOutweighNotices(t *testing.T) {
	first := fresh.History{}.Visit(epoch, false, time.Time{})
	for _, recall := range []float64{0, .9} {
		for _, dated := range []bool{false, true} {
			told := first
			for n := 1; n <= 6; n++ {
				at := epoch.Add(time.Duration(n) * day)
				modified := time.Time{}
				if dated {
					modified = at.Add(-day / 4)
				}
				told = told.Notice(at, modified, .5, recall)
			}
			heard := told.Belief
			if heard.None() {
				t.Fatal("notices did not change the belief")
			}
			all := told.Visit(epoch.Add(7*day), false, time.Time{})
			if want := (fresh.Belief{Quiet: 7}); !about(float64(all.Belief.Quiet), 7, 1e-3) || all.Belief.Dated != 0 {
				t.Errorf("recall %v, dated %v: nothing had changed, and the belief is %+v, want %+v", recall, dated, all.Belief, want)
			}
			// Three of six were likely, and one is sure.
			some := told.Visit(epoch.Add(7*day), true, time.Time{}).Belief
			changes := some.Dated
			for _, n := range some.Seen {
				changes += n
			}
			if changes < 2.9 || changes > 3.2 {
				t.Errorf("recall %v, dated %v: it had changed, %v times: %+v", recall, dated, changes, some)
			}
		}
	}
	// A liar's page is estimated from visits alone.
	h := first
	for n := 1; n <= 40; n++ {
		for k := range 5 {
			h = h.Notice(epoch.Add(time.Duration(5*n+k-4)*day), time.Time{}, .01, .5)
		}
		h = h.Visit(epoch.Add(time.Duration(5*n)*day+time.Hour), n%4 == 0, time.Time{})
	}
	post := new(fresh.Prior).Under(&h.Belief)
	if rate := post.Mean(); !about(rate, .058, .2) {
		t.Errorf("one visit in four found a change, every five days: %v changes a day", rate)
	}
}
