package trust_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/trust"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A site says something every step; right says whether it is true. It returns
// what was taken, and the lies among it.
type site struct {
	rules  trust.Rules
	source trust.Source
	now    time.Time

	takes, samples, ignored, lies, rights int
}

func newSite() *site { return &site{now: start} }

func (s *site) say(right bool, step time.Duration) trust.Verdict {
	s.now = s.now.Add(step)
	d := s.rules.Notice(&s.source, s.now)
	switch d {
	case trust.Ignore:
		s.ignored++
		return d
	case trust.Sample:
		s.samples++
	case trust.Take:
		s.takes++
	}
	o := trust.Wrong
	if right {
		o, s.rights = trust.Right, s.rights+1
	} else {
		s.lies++
	}
	s.rules.Outcome(&s.source, o, s.now)
	return d
}

func TestLiarIsMutedAfterTwentyLies(t *testing.T) {
	s := newSite()
	for range 20 {
		if d := s.say(false, time.Minute); d != trust.Take {
			t.Fatalf("after %d lies: %v, want take", s.lies, d)
		}
	}
	if _, mute := s.source.Muted(); !mute {
		t.Fatal("not muted after 20 lies")
	}
	// A month of a notice a minute costs what the documentation says.
	for s.now.Before(start.Add(31 * 24 * time.Hour)) {
		s.say(false, time.Minute)
	}
	if s.lies > 20+44 {
		t.Errorf("%d lies were fetched in a month, want at most 64", s.lies)
	}
	if s.samples < 30 {
		t.Errorf("only %d samples in a month: a reformed site would not be trusted again", s.samples)
	}
}

func TestMutePeriodsGrowAndEnd(t *testing.T) {
	s := newSite()
	s.rules = trust.Rules{Mute: time.Hour, MaxMute: 8 * time.Hour}
	for range 20 {
		s.say(false, time.Second)
	}
	var periods []time.Duration
	last := time.Time{}
	for len(periods) < 6 {
		s.say(false, time.Minute)
		until, mute := s.source.Muted()
		if !mute {
			t.Fatal("a liar is trusted again")
		}
		if !last.IsZero() && until.After(last) {
			periods = append(periods, until.Sub(s.now))
		}
		last = until
	}
	want := []time.Duration{2, 4, 8, 8, 8, 8}
	for i, p := range periods {
		if p != want[i]*time.Hour {
			t.Errorf("period %d lasts %v, want %v", i, p, want[i]*time.Hour)
		}
	}
}

func TestHonestSiteIsNeverMuted(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newSite()
		streak := seed%2 == 1 // lies come in streaks, of 2 in the mean
		lying := false
		for range 3000 {
			if !streak {
				lying = r.Float64() < 0.1
			} else if lying {
				lying = r.Float64() < 0.5
			} else {
				lying = r.Float64() < 0.5/9
			}
			if d := s.say(!lying, time.Minute); d != trust.Take {
				t.Fatalf("seed %d: %v after %d right and %d wrong: %v", seed, d, s.rights, s.lies, &s.source)
			}
		}
	}
}

func TestStreakOfErrorsIsForgiven(t *testing.T) {
	for _, c := range []struct{ before, streak int }{{0, 19}, {80, 39}, {1000, 39}} {
		s := newSite()
		for range c.before {
			s.say(true, time.Minute)
		}
		for range c.streak {
			s.say(false, time.Minute)
		}
		if d := s.say(true, time.Minute); d != trust.Take {
			t.Errorf("%d lies after %d right notices: %v, want take", c.streak, c.before, d)
		}
	}
}

func TestOnceHonestLiarIsMutedAfterFortyLies(t *testing.T) {
	s := newSite()
	for range 100_000 {
		s.say(true, time.Minute)
	}
	for range 100 {
		if _, mute := s.source.Muted(); mute {
			break
		}
		s.say(false, time.Minute)
	}
	if s.lies != 40 {
		t.Errorf("muted after %d lies, want 40", s.lies)
	}
}

func TestPartlyHonestSiteIsFollowedAtItsRate(t *testing.T) {
	const notices = 20_000
	var before float64
	for i, p := range []float64{0, 0.1, 0.35, 0.5, 0.65, 0.75, 0.95} {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		s := newSite()
		for range notices {
			s.say(r.Float64() < p, 10*time.Minute)
		}
		share := float64(notices-s.ignored) / notices
		t.Logf("precision %.2f: %.3f of the notices taken, %d right, %d lies", p, share, s.rights, s.lies)
		if share < before {
			t.Errorf("precision %.2f: share %.3f, less than that of a worse site (%.3f)", p, share, before)
		}
		before = share
		low, high := p-0.12, p+0.12
		switch {
		case p <= 0.1:
			low, high = 0, 0.1
		case p >= 0.95:
			low, high = 1, 1
		}
		if share < low || share > high {
			t.Errorf("precision %.2f: share %.3f, want %.2f to %.2f", p, share, low, high)
		}
	}
}

// Whatever a site does, it cannot cause more fetches for lies than the bound:
// these sites see every decision and choose their next notice accordingly.
func TestWasteIsBoundedForAnySite(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := newSite()
		bias := r.Float64()
		wasThin := false
		for n := range 2000 {
			var right bool
			switch seed % 4 {
			case 0:
				right = r.Float64() < bias
			case 1: // right only when it would be mute
				right = s.source.MuteCredit <= 1
			case 2: // right only when it would be thinned out, or to be thick again
				right = s.source.Rationed || s.source.Credit <= 1
			case 3: // long runs
				right = n/int(1+40*bias)%2 == 0
			}
			s.say(right, time.Duration(r.IntN(100))*time.Minute)
			wasThin = wasThin || s.source.Rationed
			if bound := 20 + 3*s.rights + s.samples; s.lies > bound {
				t.Fatalf("seed %d: %d lies, bound %d", seed, s.lies, bound)
			}
			if !wasThin && float64(s.lies) >= 20+float64(s.rights)/4 {
				t.Fatalf("seed %d: still trusted after %d lies and %d right notices", seed, s.lies, s.rights)
			}
		}
	}
}

func TestReformedLiarIsTrustedAgain(t *testing.T) {
	s := newSite()
	for s.now.Before(start.Add(90 * 24 * time.Hour)) {
		s.say(false, 5*time.Minute)
	}
	reform, said := s.now, 0
	for s.source.Rationed {
		s.say(true, 5*time.Minute)
		if said++; said > 5000 {
			t.Fatal("not trusted again after 5,000 right notices")
		}
	}
	if took := s.now.Sub(reform); took > 3*24*time.Hour {
		t.Errorf("trusted again after %v, want within three days", took)
	}
	if s.source.Level != 0 {
		t.Errorf("level %d, want 0: the next mistake would be muted for longer than a first one", s.source.Level)
	}
}

func TestMutingEndsAfterClockIsSetBack(t *testing.T) {
	s := newSite()
	s.now = start.Add(10 * 365 * 24 * time.Hour)
	for range 30 {
		s.say(false, time.Second)
	}
	s.now = start
	s.say(false, time.Minute)
	if until, _ := s.source.Muted(); until.After(s.now.Add(2 * time.Hour)) {
		t.Errorf("muted until %v, which is %v away", until, until.Sub(s.now))
	}
	for range 24 * 60 {
		s.say(true, time.Minute)
	}
	if _, mute := s.source.Muted(); mute || s.rights == 0 {
		t.Errorf("still muted a day later: %v", &s.source)
	}
}

// Thousands of notices may come before the first is visited.
func TestRoomBoundsNoticesInFlight(t *testing.T) {
	s := newSite()
	if room := s.rules.MaxInFlight(&s.source); room != 20 {
		t.Errorf("room of a new site: %d, want 20", room)
	}
	for range 2000 {
		s.say(true, time.Second)
	}
	if room := s.rules.MaxInFlight(&s.source); room < 500 || room > 1000 {
		t.Errorf("room of a proven site: %d", room)
	}
	for range 60 {
		s.say(false, time.Second)
	}
	if room := s.rules.MaxInFlight(&s.source); room != 1 {
		t.Errorf("room of a liar: %d, want 1", room)
	}
}

// A Web where one site in five lies, one in five floods with lies, one in five
// is right every other time: honest sites are never muted, liars are within 20
// lies, and no site costs more than its bound.
func TestWebOfMixedSites(t *testing.T) {
	const sites, hours = 100, 24 * 14
	kinds := []struct {
		name     string
		right    float64
		per      int // notices an hour
		mostLies int
	}{
		{"honest", 0.97, 2, hours},
		{"unlucky", 0.9, 2, hours},
		{"sloppy", 0.5, 2, hours * 2},
		{"liar", 0, 2, 20 + 4*10},
		{"flooding liar", 0, 600, 20 + 4*10},
	}
	for i := range sites {
		kind := kinds[i%len(kinds)]
		r := rand.New(rand.NewPCG(3, uint64(i)))
		s := newSite()
		for range hours * kind.per {
			s.say(r.Float64() < kind.right, time.Hour/time.Duration(kind.per))
		}
		if kind.right >= 0.9 && s.ignored > 0 {
			t.Errorf("site %d (%s): %d notices ignored", i, kind.name, s.ignored)
		}
		if s.lies > kind.mostLies {
			t.Errorf("site %d (%s): %d lies fetched, want at most %d", i, kind.name, s.lies, kind.mostLies)
		}
		if kind.right == 0 && s.takes != 20 {
			t.Errorf("site %d (%s): %d notices followed, want 20", i, kind.name, s.takes)
		}
	}
}
