package main

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/poll"
	"github.com/parleyweb/parley/internal/command"
)

// revisits returns the revisit policy.
func (s *settings) revisits() (fresh.Policy, error) {
	name, preset, _ := strings.Cut(s.policy, ":")
	switch {
	case s.policy == "priced":
		return s.priced()
	case name == "thesis":
		t, err := fresh.Preset(cmp.Or(preset, "general"))
		if err != nil {
			return nil, command.Misusef("--policy %s: %v", s.policy, err)
		}
		t.Threshold, t.MaxPeriod = s.threshold, time.Duration(s.maxPeriod)
		t.Periods = fresh.Periods{Page: time.Duration(s.minPeriod), Refused: time.Duration(s.minRefused), Failed: time.Duration(s.retry)}
		return t, nil
	}
	return nil, command.Misusef("--policy %s: want priced, thesis, or thesis for a purpose, such as thesis:news", s.policy)
}

// priced returns the policy for which the crawler computes a price.
func (s *settings) priced() (p fresh.Priced, err error) {
	p.Eager = !s.frugal
	p.Shortest, p.Longest = time.Duration(s.minPeriod), time.Duration(s.maxPeriod)
	switch s.costs {
	case "requests":
	case "bytes":
		p.Costs = fresh.Bytes()
	default:
		return p, command.Misusef("--costs %s: want requests or bytes", s.costs)
	}
	of := map[string]*float64{"fresh": &p.Fresh, "harmonic": &p.Harmonic, "age": &p.Age}
	for part := range strings.SplitSeq(s.objective, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		w, err := strconv.ParseFloat(value, 64)
		if of[name] == nil || err != nil || !(w >= 0) || math.IsInf(w, 0) {
			return p, command.Misusef("--objective %q: want fresh, harmonic or age, and a number, such as fresh=1", part)
		}
		*of[name] = w
	}
	return p, nil
}

// revisit returns the budget of revisits, nil if the policy has no price.
func (s *settings) revisit() (*crawl.Revisit, error) {
	if s.policy != "priced" {
		return nil, nil
	}
	p, err := s.priced()
	if err != nil {
		return nil, err
	}
	if s.stopValue > 0 {
		return nil, command.Misusef("--stop-value needs --policy thesis: only there the profit of a page is between 0 and 1")
	}
	if math.IsNaN(s.toldBudget) || math.IsInf(s.toldBudget, 0) || s.toldBudget == 0 {
		return nil, command.Misusef("--told-budget %g: want a multiple of the budget, such as 1 or 0.5, or -1 for no limit; --frugal counts such visits against the budget itself", s.toldBudget)
	}
	r := &crawl.Revisit{Policy: p, Every: time.Duration(s.replan), OutsideBudget: s.toldBudget}
	number, per, each := strings.Cut(s.budget, "/")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) || each && per != "page" {
		return nil, command.Misusef("--budget %q: want a number of requests a day, such as 5000, or for each page, such as 0.1/page", s.budget)
	}
	if r.PerDay = n; each {
		r.PerDay, r.PerPage = 0, n
	}
	return r, nil
}

// pollPolicy returns the rule for polling sitemaps and feeds, nil for fixed intervals.
func (s *settings) pollPolicy() (poll.Policy, error) {
	if s.polls == "fixed" {
		return nil, nil
	}
	p, err := poll.Named(s.polls)
	if err != nil {
		return nil, command.Misusef("--polls %s: want fixed, or a rule: %v", s.polls, err)
	}
	return p, nil
}
