package sim

import (
	"fmt"
	"strings"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/poll"
)

// A Rule is the way in which a policy chooses pages.
type Rule string

// The rules.
const (
	uniform       Rule = "uniform"      // every page in turn
	proportional  Rule = "proportional" // as often as it changes, times a constant
	byImportance  Rule = "importance"   // in proportion to its weight
	Thesis        Rule = "thesis"       // fresh.Thesis: profit above a threshold
	Priced        Rule = "priced"       // fresh.Priced: the index above a price
	pointEstimate Rule = "plugged"      // the index at the thesis's estimate of the rate, as if that were exact
	foreseeing    Rule = "foreseeing"   // see Foreseeing

	// The trusting rules fetch pages with notices, and nothing else, in one of three orders.
	oldestNotice  Rule = "trusting"        // oldest notice first
	mostImportant Rule = "trusting-weight" // most important page first
	highestGain   Rule = "trusting-gain"   // by mu/D: importance by rate of change
)

// A Policy is the behaviour of a run, and its knowledge.
type Policy struct {
	Name      string
	Rule      Rule
	Objective fresh.Objective // of Priced and pointEstimate

	Known              bool // it is told the true rates, and how well the sites tell of changes; the rules before Thesis always are
	Past               bool // Known, but of pages with a Trace only the rates before Run.From: what can be known at that time
	IgnoresNotices     bool // it ignores manifests and pushes
	Alone              bool // Priced, not Known: visits to a page show nothing about other pages of its site, their rates apart
	FetchOutsideBudget bool // Priced, not Known: fetches at once, outside the budget, what credible sites push, as the crawler does by default
	Daily              bool // Thesis: no page more than once a day (V13)

	// Alpha and Gamma are exponents of Thesis, see fresh.Thesis: of quality and of freshness; 0 means 1. The third does not matter
	// here, since every page has a copy from the start.
	Alpha, Gamma float64

	// Outdated and Polls, if set, decide when Priced polls manifests, where the rates are not Known; else the price does. For
	// Polls, an item of a site is a changed page. It has the weight 1, and Subscribers times the site's importance relative to
	// the mean of all sites is added.
	Outdated    fresh.Outdated
	Polls       poll.Policy
	Subscribers float64

	// LongestPoll, above 0, is after how many days a manifest is polled though by the price it is too soon, as the crawler does to
	// find new pages. Only the share that the price pays is charged.
	LongestPoll float64
}

// listening are the channels that it uses.
func (p *Policy) listening() Listening {
	return Listening{Manifest: !p.IgnoresNotices, Push: !p.IgnoresNotices}
}

// compares reports whether it learns from visits to a page when others of its site have changed.
func (p *Policy) compares() bool { return !p.Alone && (p.Rule == Priced || p.Rule == "") }

// Policies returns all named policies, in the order of the tables.
func Policies() []Policy {
	freshness, harmonic, age := fresh.Objective{Fresh: 1}, fresh.Objective{Harmonic: 1}, fresh.Objective{Age: 1}
	list := []Policy{
		{Name: "uniform", Rule: uniform, IgnoresNotices: true},
		{Name: "uniform-learned", Rule: Priced, Objective: fresh.Objective{Rule: fresh.Uniform}, IgnoresNotices: true},
		{Name: "proportional", Rule: proportional, IgnoresNotices: true},
		{Name: "proportional-learned", Rule: Priced, Objective: fresh.Objective{Rule: fresh.Proportional}, IgnoresNotices: true},
		{Name: "importance", Rule: byImportance, IgnoresNotices: true},
		{Name: "thesis", Rule: Thesis, Known: true, IgnoresNotices: true},
		{Name: "thesis-daily", Rule: Thesis, Known: true, IgnoresNotices: true, Daily: true},
		{Name: "thesis-learned", Rule: Thesis, IgnoresNotices: true, Daily: true},
		{Name: "thesis-rate", Rule: pointEstimate, Objective: freshness, IgnoresNotices: true},
	}
	for _, o := range []struct {
		name string
		fresh.Objective
	}{{"freshness", freshness}, {"harmonic", harmonic}, {"age", age}} {
		list = append(list,
			Policy{Name: o.name, Rule: Priced, Objective: o.Objective},
			Policy{Name: o.name + "-known", Rule: Priced, Objective: o.Objective, Known: true},
			Policy{Name: o.name + "-past", Rule: Priced, Objective: o.Objective, Known: true, Past: true},
			Policy{Name: o.name + "-eager", Rule: Priced, Objective: o.Objective, FetchOutsideBudget: true},
			Policy{Name: o.name + "-deaf", Rule: Priced, Objective: o.Objective, IgnoresNotices: true},
			Policy{Name: o.name + "-known-deaf", Rule: Priced, Objective: o.Objective, Known: true, IgnoresNotices: true})
	}
	for _, p := range []poll.Policy{poll.Trained{}, poll.PostingRate{}, poll.AdvaRSS{}} {
		list = append(list, Policy{Name: "manifest-" + p.Name(), Rule: Priced, Objective: freshness, Polls: p})
	}
	for _, of := range []string{"any", "mean", "fastest"} {
		list = append(list, Policy{Name: "outdated-" + of, Rule: Priced, Objective: freshness, Outdated: fresh.Outdated{Of: of, Limit: .1}})
	}
	return append(list,
		Policy{Name: "freshness-alone", Rule: Priced, Objective: freshness, IgnoresNotices: true, Alone: true},
		Policy{Name: "manifest-subscribers", Rule: Priced, Objective: freshness, Polls: poll.PostingRate{}, Subscribers: 1},
		Policy{Name: "manifest-daily", Rule: Priced, Objective: freshness, Polls: poll.RoundRobin{Every: day}},
		Policy{Name: "manifest-6h", Rule: Priced, Objective: freshness, Polls: poll.RoundRobin{Every: day / 4}},
		Policy{Name: "fifo", Rule: oldestNotice, Known: true},
		Policy{Name: "trust-importance", Rule: mostImportant, Known: true},
		Policy{Name: "trust-gain", Rule: highestGain, Known: true})
}

// Foreseeing is the policy that makes the best visits for freshness if it is told what to expect of each page: only worlds of
// [Web.Structured] can tell it that.
func Foreseeing() Policy {
	return Policy{Name: "freshness-foreseeing", Rule: foreseeing, Known: true, IgnoresNotices: true}
}

// NamedPolicy returns the policy with a name.
func NamedPolicy(name string) (Policy, error) {
	var names []string
	for _, p := range Policies() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Policy{}, fmt.Errorf("unknown policy %q: want one of %s", name, strings.Join(names, ", "))
}

// MustPolicy is NamedPolicy for constant names; it panics for an unknown one.
func MustPolicy(name string) Policy {
	p, err := NamedPolicy(name)
	if err != nil {
		panic(err)
	}
	return p
}
