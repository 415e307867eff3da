package fresh_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A page is visited when the gain of a visit has reached its price, and not before.
func TestPricedVisitsWhenGainReachesPrice(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	paid, early, late := 0, 0, 0
	for range 20_000 {
		pr := fresh.Priced{Objective: objectives[rng.IntN(len(objectives))], Price: math.Exp(rng.Float64()*16 - 14), Shortest: time.Hour, Longest: 400 * day}
		if rng.IntN(2) == 0 {
			pr.Costs = fresh.Bytes()
		}
		p := &fresh.Page{Importance: rng.ExpFloat64(), Length: rng.Int64N(100_000)}
		p.Visits, p.First, p.Last = 3, epoch, epoch.Add(day)
		p.Belief = belief(rng)
		if rng.IntN(3) == 0 {
			p.Site = &fresh.Site{Extra: pr.Price * rng.ExpFloat64(), Tells: rng.IntN(2) == 0}
			for range rng.IntN(30) {
				p.Site.Signal.Judged(rng.IntN(3) > 0)
				p.Site.Signal.Found(rng.IntN(3) > 0)
			}
		}
		if rng.IntN(2) == 0 {
			*p = fresh.Page{History: p.Confirm(epoch.Add(2 * day)), Importance: p.Importance, Length: p.Length, Site: p.Site}
		}
		next := pr.Next(p, p.Last)
		profit := pr.Profit(p, next)
		switch wait := next.Sub(p.Last); {
		case wait == time.Hour:
			if early++; profit < pr.Price*(1-1e-3) {
				t.Fatalf("%+v: %+v visited as soon as may be gains %v", pr, p, profit)
			}
		case wait == 400*day:
			if late++; profit > pr.Price*(1+1e-3) {
				t.Fatalf("%+v: %+v visited as late as may be gains %v", pr, p, profit)
			}
		default:
			if paid++; !about(profit, pr.Price, 1e-3) {
				t.Fatalf("%+v: %+v: after %v a visit gains %v", pr, p, wait, profit)
			}
		}
	}
	if paid < 3000 || early < 100 || late < 100 {
		t.Errorf("%d at their time, %d early, %d late", paid, early, late)
	}
}

// A notice makes a visit due if the visit is worth the price, and not otherwise; a notice from a
// liar does not.
func TestPricedHeedsCredibleNotices(t *testing.T) {
	honest := &fresh.Site{}
	for range 50 {
		honest.Signal.Judged(true)
		honest.Signal.Found(true)
	}
	liar := &fresh.Site{}
	for range 50 {
		liar.Signal.Judged(false)
	}
	due := func(site *fresh.Site, importance float64, notices int) time.Duration {
		p := &fresh.Page{Importance: importance, Site: site}
		p.Visits, p.First, p.Last, p.Belief = 2, epoch, epoch, fresh.Belief{Quiet: 100, Dated: 10}
		if notices > 0 {
			p.Heard.Notices, p.Heard.Noticed = notices, epoch.Add(time.Hour)
		}
		now := epoch.Add(2 * time.Hour)
		return fresh.Priced{Price: 1}.Next(p, now).Sub(now)
	}
	if wait := due(honest, 1, 1); wait > 0 {
		t.Errorf("a changed page worth more than the price waits for %v", wait)
	}
	if wait := due(honest, 0.01, 1); wait < 20*day {
		t.Errorf("a changed page worth less than the price is visited after %v", wait)
	}
	quiet := due(liar, 1, 0)
	if told := due(liar, 1, 1); quiet < day || told < quiet/2 {
		t.Errorf("the page of a lying site is visited after %v, and with a notice after %v", quiet, told)
	}
}

// New pages are worth their days of being right, beside old ones: see the order of a few.
func TestPricedOrder(t *testing.T) {
	pr := fresh.Priced{Price: 1}
	now := epoch.Add(30 * day)
	visited := func(quiet, dated float32) *fresh.Page {
		p := &fresh.Page{Importance: 1}
		p.Visits, p.First, p.Last, p.Belief = 2, epoch, epoch, fresh.Belief{Quiet: quiet, Dated: dated}
		return p
	}
	unseen := &fresh.Page{Importance: 1}
	order := []*fresh.Page{visited(1000, 0), visited(300, 3), visited(100, 10), unseen}
	for i, p := range order[1:] {
		if a, b := pr.Profit(order[i], now), pr.Profit(p, now); a >= b {
			t.Errorf("%d: %v, and then %v", i, a, b)
		}
	}
	often := pr // more visits than a site may grant
	often.Longest = time.Second
	for i, p := range order[:3] {
		if a, b := often.Profit(unseen, now), often.Profit(p, now); a <= b {
			t.Errorf("%d: a page without a copy gains %v, and a visited one %v", i, a, b)
		}
	}
	if next := pr.Next(unseen, now); !next.IsZero() {
		t.Errorf("a page that was never visited waits until %v", next)
	}
	unseen.Importance = 0.001
	if a, b := pr.Profit(unseen, now), pr.Profit(order[0], now); a >= b {
		t.Errorf("a new page of no importance gains %v, and an old one that may have changed %v", a, b)
	}
	everything := fresh.Priced{}
	if wait := everything.Next(order[0], now).Sub(epoch); wait != time.Minute {
		t.Errorf("at price 0 the wait is %v", wait)
	}
	order[0].Importance = 0
	if wait := pr.Next(order[0], now).Sub(epoch); wait != 90*day {
		t.Errorf("a worthless page is visited after %v", wait)
	}
}

// For any page and any policy: times are times and profits are numbers.
func TestPricedTakesAnyInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	any := func() float64 {
		if rng.IntN(2) == 0 {
			return math.Exp(rng.Float64()*40 - 30)
		}
		return hostile[rng.IntN(len(hostile))]
	}
	for range 20_000 {
		pr := fresh.Priced{Objective: fresh.Objective{Fresh: any(), Harmonic: any(), Age: any()}, Costs: fresh.Costs{Header: any(), Body: any()},
			Price: any(), Shortest: time.Duration(rng.Int64() >> rng.IntN(64)), Longest: time.Duration(rng.Int64()>>rng.IntN(64) - 5)}
		p := &fresh.Page{History: randomHistory(rng), Importance: any(), Length: rng.Int64() - rng.Int64()}
		p.Belief = hostileBelief(rng)
		p.Heard.Notices, p.Heard.Noticed = rng.IntN(5)-1, epoch.Add(time.Duration(rng.Int64N(int64(500*day))))
		if rng.IntN(2) == 0 {
			p.Site = &fresh.Site{Extra: any(), Tells: rng.IntN(2) == 0,
				Signal: fresh.Signal{Right: float32(any()), Wrong: float32(any()), Heard: float32(any()), Missed: float32(any())}}
			for k := range p.Site.Prior {
				p.Site.Prior[k] = float32(any())
			}
			p.Listed, p.Site.Manifest = true, fresh.Manifest{Read: epoch.Add(time.Duration(rng.Int64N(int64(500 * day)))), Recall: any(), Planned: rng.IntN(2) == 0}
			p.Listen()
		}
		now := epoch.Add(time.Duration(rng.Int64N(int64(500 * day))))
		if v := pr.Profit(p, now); !(v >= 0) || math.IsInf(v, 0) {
			t.Fatalf("%+v: %+v gains %v", pr, p, v)
		}
		if next := pr.Next(p, now); p.Visits <= 0 {
			if !next.IsZero() {
				t.Fatalf("%+v: new and waits until %v", pr, next)
			}
		} else if wait := next.Sub(p.Last); wait < 0 || wait > 101*365*day {
			t.Fatalf("%+v: %+v waits for %v", pr, p, wait)
		}
	}
}

func hostileBelief(rng *rand.Rand) (b fresh.Belief) {
	odd := func() float32 {
		if rng.IntN(2) == 0 {
			return float32(hostile[rng.IntN(len(hostile))])
		}
		return float32(rng.ExpFloat64())
	}
	b.Quiet, b.Dated = odd(), odd()
	for range rng.IntN(4) {
		b.Seen[rng.IntN(len(b.Seen))] = odd()
	}
	return b
}

// For any observations and any prior, the posterior is a distribution.
func TestBeliefTakesAnyInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	for range 50_000 {
		b := hostileBelief(rng)
		b.Unchanged(hostile[rng.IntN(len(hostile))])
		b.Changed(hostile[rng.IntN(len(hostile))])
		b.ChangedAt(hostile[rng.IntN(len(hostile))])
		b.Counted(rng.IntN(9)-3, hostile[rng.IntN(len(hostile))])
		var prior fresh.Prior
		if rng.IntN(2) == 0 {
			for k := range prior {
				prior[k] = float32(hostile[rng.IntN(len(hostile))])
			}
		}
		p, sum := prior.Under(&b), 0.
		for _, share := range p {
			if !(share >= 0) {
				t.Fatalf("%v under %v: %v", b, prior, p)
			}
			sum += share
		}
		if !about(sum, 1, 1e-9) {
			t.Fatalf("%v under %v: sum %v", b, prior, sum)
		}
	}
}

// Bayes' rule, by the probabilities of what was observed.
func TestBeliefIsBayes(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 38))
	prior := fresh.Prior{}
	for k := range prior {
		prior[k] = rng.Float32()
	}
	spans := []float64{1e-6 * math.Exp(step*12), 1e-6 * math.Exp(step*20), 1e-6 * math.Exp(step*25)} // that are told apart exactly
	var b fresh.Belief
	b.Unchanged(3)
	b.ChangedAt(0.5)
	b.Counted(2, 4)
	for _, s := range spans {
		b.Changed(s)
	}
	got := prior.Under(&b)
	var want [fresh.Points]float64
	sum := 0.
	for k, rate := range fresh.Rates() {
		want[k] = float64(prior[k]) * math.Exp(-7.5*rate) * math.Pow(rate, 3)
		for _, s := range spans {
			want[k] *= -math.Expm1(-rate * s)
		}
		sum += want[k]
	}
	for k := range want {
		if math.Abs(got[k]-want[k]/sum) > 1e-9 {
			t.Errorf("rate %d: %v, want %v", k, got[k], want[k]/sum)
		}
	}
}

// The size of a visited page in memory, and stored.
func TestBeliefIsSmall(t *testing.T) {
	var b fresh.Belief
	belief, posterior := unsafe.Sizeof(b), unsafe.Sizeof(fresh.Posterior{})
	for range 100 {
		b.Changed(7)
	}
	t.Logf("a belief is %d bytes, stored %d; a posterior, which is computed when it is needed, %d; a page of a policy %d",
		belief, len(b.Append(nil)), posterior, unsafe.Sizeof(fresh.Page{}))
	if belief+160 > 360 || len(b.Append(nil)) > 360 {
		t.Errorf("a belief is %d bytes", belief)
	}
}

func belief(rng *rand.Rand) (b fresh.Belief) {
	for range rng.IntN(20) {
		span := math.Exp(rng.Float64()*9 - 6)
		switch rng.IntN(4) {
		case 0:
			b.Changed(span)
		case 1:
			b.ChangedAt(span * rng.Float64())
		default:
			b.Unchanged(span)
		}
	}
	return b
}

func BenchmarkNext(b *testing.B) {
	site := &fresh.Site{Tells: true}
	for range 50 {
		site.Signal.Judged(true)
		site.Signal.Found(true)
	}
	listed := &fresh.Site{Manifest: fresh.Manifest{Recall: .9, Planned: true, Read: epoch, Every: 10 * day}}
	for _, c := range []struct {
		name string
		page fresh.Page
	}{{"polled", fresh.Page{Importance: 0.01}}, {"listed", fresh.Page{Importance: 0.01, Listed: true, Site: listed}}, {"silent", fresh.Page{Importance: 0.01, Site: site}}, {"told", fresh.Page{Importance: 0.01, Site: site, History: fresh.History{Heard: fresh.Hearsay{Notices: 1, Noticed: epoch}}}}} {
		p := &c.page
		p.Visits, p.First, p.Last, p.Belief = 3, epoch, epoch, fresh.Belief{Quiet: 30, Dated: 2}
		p.Belief.Changed(3)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				fresh.Priced{Price: 0.1, Audit: fresh.AuditShare}.Next(p, epoch)
			}
		})
	}
}

// A stored policy has the weights and the costs beside the other settings.
func TestPricedJSON(t *testing.T) {
	const want = `{"Fresh":1,"Harmonic":0,"Age":0.5,"Header":1,"Body":2,"Manifest":0,"Entry":0.25,"Price":0.125,"Shortest":0,` +
		`"Longest":3600000000000,"Eager":true,"Ends":false,"OutsideBudget":0,"Audit":0.1}`
	pr := fresh.Priced{Objective: fresh.Objective{Fresh: 1, Age: .5}, Costs: fresh.Costs{Header: 1, Body: 2, Entry: .25},
		Price: .125, Longest: time.Hour, Eager: true, Audit: .1}
	if b, err := json.Marshal(pr); err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	var got fresh.Priced
	if err := json.Unmarshal([]byte(want), &got); err != nil || got != pr {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1.3e4: "13000", 1.146: "1.15", 8.713e-5: "0.0000871", -25.04: "-25.0", math.Inf(1): "+Inf"} {
		if got := fresh.Figure(x); got != want {
			t.Errorf("%g is %s, want %s", x, got, want)
		}
	}
}

// Where the silence of a site says nothing, because its manifest is no longer polled or its notices come now and then, a notice
// makes no visit later, however often the site was wrong.
func TestNoticeMakesNoVisitLater(t *testing.T) {
	site := fresh.Site{Signal: fresh.Signal{Right: 20, Wrong: 60, Heard: 60, Missed: 2}}
	for _, objective := range []fresh.Objective{{Fresh: 1}, {Harmonic: 1}, {Age: 1}} {
		page := fresh.Page{History: fresh.History{}.Visit(epoch, false, time.Time{}), Importance: .5, Site: &site}
		for n := range 4 {
			page.History = page.History.Visit(epoch.Add(time.Duration(n+1)*5*day), n%2 == 0, time.Time{})
		}
		policy := fresh.Priced{Objective: objective, Price: .3}
		told, at := page, page.Last.Add(day)
		told.History = told.Notice(at, at, site.Signal.Precision(), 0)
		told.Heard.Notified = true
		if plain, next := policy.Next(&page, at), policy.Next(&told, at); next.After(plain) {
			t.Errorf("%+v: the page is due after %v, and with a notice after %v", objective, plain.Sub(page.Last), next.Sub(page.Last))
		}
		later := at.Add(8 * day)
		if plain, gain := policy.Profit(&page, later), policy.Profit(&told, later); gain < .99*plain {
			t.Errorf("%+v: a visit gains %.3f, and with a notice %.3f", objective, plain, gain)
		}
	}
}
