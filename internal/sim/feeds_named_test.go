package sim

import (
	"fmt"

	"github.com/parleyweb/parley/internal/engine/poll"
)

// A FeedPolicy is a policy for feeds by its name in tables, and how it is run.
type FeedPolicy struct {
	Name string
	poll.Policy
	Priced, Known, Even, Dated, Free bool // Free: it takes as many polls as it wants
}

// FeedPolicies returns all named policies, in the order of the tables. They learn
// from scratch, with as many polls as they are allowed, except for those named known.
func FeedPolicies() []FeedPolicy {
	return []FeedPolicy{
		{Name: "round-robin", Policy: poll.RoundRobin{}},
		{Name: "training", Policy: poll.Trained{}, Free: true},
		{Name: "training-literal", Policy: poll.Trained{Literal: true}, Free: true},
		{Name: "posting-rate", Policy: poll.PostingRate{}},
		{Name: "posting-rate-known", Policy: poll.PostingRate{}, Known: true},
		{Name: "square-root-known", Policy: poll.Index{Loss: -1}, Even: true, Priced: true}, // Sia and Cho's allocation, evenly placed
		{Name: "minimum-delay", Policy: poll.MinimumDelay{}},
		{Name: "minimum-delay-known", Policy: poll.MinimumDelay{}, Known: true},
		{Name: "index", Policy: poll.Index{}},
		{Name: "index-known", Policy: poll.Index{}, Known: true},
		{Name: "index-priced", Policy: poll.Index{}, Priced: true},
		{Name: "ahead", Policy: poll.Ahead{}, Priced: true},
		{Name: "ahead-dated", Policy: poll.Ahead{}, Priced: true, Dated: true},
		{Name: "ahead-known", Policy: poll.Ahead{}, Priced: true, Known: true},
	}
}

// NamedFeedPolicy returns the one with a name.
func NamedFeedPolicy(name string) (FeedPolicy, error) {
	names := ""
	for _, p := range FeedPolicies() {
		if p.Name == name {
			return p, nil
		}
		names += ", " + p.Name
	}
	return FeedPolicy{}, fmt.Errorf("unknown feed policy %q: want one of %s", name, names[2:])
}

// Run returns the policy's run in a world, scored from a day on, at so many polls a slot.
func (p FeedPolicy) Run(w *FeedWorld, from, polls float64) FeedRun {
	if p.Free {
		polls = 0
	}
	return FeedRun{World: w, Policy: p.Policy, Polls: polls, Priced: p.Priced, Known: p.Known, Even: p.Even, Dated: p.Dated, From: from}
}

// NamedFeeds returns a world of feeds: feeds or feeds-weekly, which are made from
// a seed, or feeds-real, which is read from a folder.
func NamedFeeds(name, dir string, seed uint64) (*FeedWorld, error) {
	switch name {
	case "feeds":
		return FeedWeb{Seed: seed}.World(), nil
	case "feeds-weekly":
		return FeedWeb{Seed: seed, Weekly: true}.World(), nil
	case "feeds-real":
		return OpenFeeds(dir, 15)
	}
	return nil, fmt.Errorf("unknown world of feeds %q: want feeds, feeds-weekly or feeds-real", name)
}
