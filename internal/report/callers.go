package report

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/accesslog"
)

// visits counts a crawler's requests, separately for doors and for pages.
type visits struct {
	same        Traffic
	notModified int64
	goneAgain   Traffic
}

// A caller is the client, or clients, of one name.
type caller struct {
	agent    *accesslog.Agent
	claim    string
	number   int
	crawler  bool // its kind is one of crawlers
	obeys    bool // it is of a kind that reads robots.txt, and not under a false name
	asked    bool // it requested robots.txt
	ranges   []netip.Prefix
	impostor *caller // of the same name, from other addresses
	traffic  Traffic
	status   [statuses]int64
	hours    [24]int64
	came     dayset
	reading  Reading
	pages    visits
	doors    visits
	addrs    *addresses // if they are to be looked up
}

const statuses = 600

func (c *caller) visits(door bool) *visits {
	if door {
		return &c.doors
	}
	return &c.pages
}

// callers are the clients of a log, one for each name, and one more for each name whose operator publishes its
// addresses. They are for one goroutine at a time.
type callers struct {
	agents   *accesslog.Agents
	ranges   map[string][]netip.Prefix // by name in lower case, in the form that within takes
	resolver Resolver                  // may be nil
	byAgent  []*caller                 // by the agent's ID
	list     []*caller                 // by number
}

func newCallers(ranges map[string][]netip.Prefix, resolver Resolver) (*callers, error) {
	c := &callers{agents: accesslog.NewAgents(), ranges: map[string][]netip.Prefix{}, resolver: resolver}
	for name, list := range ranges {
		if len(list) == 0 {
			return nil, fmt.Errorf("ranges of %s: the list is empty", name)
		}
		c.ranges[strings.ToLower(name)] = disjoint(slices.Clone(list))
	}
	return c, nil
}

// of returns the caller of a request.
func (c *callers) of(e *accesslog.Entry) *caller {
	agent := c.agents.Identify(e.Agent)
	for agent.ID >= len(c.byAgent) {
		c.byAgent = append(c.byAgent, nil)
	}
	who := c.byAgent[agent.ID]
	if who == nil {
		who = c.add(agent, Claimed)
		if who.ranges = c.ranges[strings.ToLower(agent.Name)]; who.ranges != nil {
			who.claim = Verified
			who.impostor = c.add(agent, False)
		}
		c.byAgent[agent.ID] = who
	}
	if who.ranges != nil && !within(who.ranges, e.Addr) {
		return who.impostor
	}
	return who
}

func (c *callers) add(agent *accesslog.Agent, claim string) *caller {
	who := &caller{agent: agent, claim: claim, number: len(c.list), crawler: agent.Kind.Crawler()}
	switch agent.Kind {
	case accesslog.Feed, accesslog.Preview, accesslog.Monitor: // they fetch what a person chose
	default:
		who.obeys = who.crawler && claim != False
	}
	if c.resolver != nil && len(agent.Hosts) > 0 && claim == Claimed {
		who.addrs = &addresses{}
	}
	c.list = append(c.list, who)
	return who
}

// groups sums up the traffic by group, and by kind of crawler.
func (c *callers) groups() (groups, kinds []Group) {
	group, kind := map[string]Traffic{}, map[string]Traffic{}
	for _, who := range c.list {
		name := Crawlers
		switch who.agent.Kind {
		case accesslog.Browser:
			name = browsers
		case accesslog.Program:
			name = programs
		case accesslog.Unnamed:
			name = unnamed
		default:
			k := string(who.agent.Kind)
			if who.claim == False {
				k = False
			}
			sum := kind[k]
			sum.add(who.traffic)
			kind[k] = sum
		}
		sum := group[name]
		sum.add(who.traffic)
		group[name] = sum
	}
	kinds = []Group{}
	for _, name := range []string{browsers, Crawlers, programs, unnamed} {
		groups = append(groups, Group{name, group[name]})
	}
	for name, sum := range kind {
		if sum.Requests > 0 {
			kinds = append(kinds, Group{name, sum})
		}
	}
	slices.SortFunc(kinds, func(x, y Group) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Name, y.Name))
	})
	return groups, kinds
}
