package main

import "fmt"

// A way is one of the twelve schemes, or none.
type way struct {
	name   string
	follow []string // options of "crawler follow"
	poll   []string // options of this program's own poller, for a site that publishes nothing
	agent  bool     // with the agent examples/agents/minor
	nobody bool     // a site that publishes, without subscribers

	// signs is the row of table 6.2: network, server, crawler, freshness.
	signs [4]string
}

// ways returns the ways to measure: first no cooperation, with which all others are compared.
func ways(o options) []way {
	every := o.period.String()
	pull := func(as string) []string {
		return []string{"--as", as, "--via", "changes", "--ask-every", every}
	}
	push := func(as string) []string { return []string{"--as", as} }
	matters := fmt.Sprintf("minsig=%g", matter)
	return []way{
		{name: "none", poll: []string{"-every", every}, signs: [4]string{"0", "0", "0", "Normal"}},
		{name: "no subscribers", nobody: true},
		{name: "push meta", follow: push("meta"), signs: [4]string{"+", "+", "0", "High"}},
		{name: "push delta", follow: push("delta"), signs: [4]string{"--", "++", "+", "High"}},
		{name: "push page", follow: push("page"), signs: [4]string{"-", "+", "0", "High"}},
		{name: "push batch", follow: append(push("batch"), "--every", every), signs: [4]string{"+", "+", "0", "High"}},
		{name: "push site", follow: push("site"), signs: [4]string{"++", "+", "0", "High"}},
		{name: "push agent", follow: push("page"), agent: true, signs: [4]string{"--", "++", "-", "High"}},
		{name: "poll meta", follow: pull("meta"), signs: [4]string{"+", "+", "0", "Normal"}},
		{name: "poll delta", follow: pull("delta"), signs: [4]string{"--", "++", "+", "Normal"}},
		{name: "poll page", poll: []string{"-every", every, "-conditional"}, signs: [4]string{"-", "0", "0", "Normal"}},
		{name: "poll batch", follow: pull("batch"), signs: [4]string{"-", "0", "0", "Normal"}},
		{name: "poll site", follow: pull("site"), signs: [4]string{"++", "+", "0", "Normal"}},
		{name: "poll filter", follow: append(pull("page"), "--only", matters), signs: [4]string{"--", "++", "-", "High"}},
	}
}
