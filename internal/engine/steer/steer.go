// Package steer holds what a person changes about a crawl while it runs: which sites are paused, how many requests are made, and which
// URLs are crawled. It is stored with the crawl, and holds in later runs, too, until the person changes it again.
package steer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Steering is what is in force now. The zero Steering changes nothing.
type Steering struct {
	All   bool     `json:"all_paused,omitempty"`
	Sites []string `json:"paused,omitempty"` // origins, such as "https://example.org", or host names for all their ports and schemes; each stands for its www twin, too
	Rate  Rate     `json:"rate,omitzero"`
	Scope Scope    `json:"scope,omitzero"`

	Scoped time.Time `json:"scoped,omitzero"` // when Scope was last changed: lists of pages that were read before are out of date
}

// A Rate replaces options of the crawl, each as it is written there. An empty field replaces nothing.
type Rate struct {
	Budget     string `json:"budget,omitempty"`
	Wait       string `json:"wait,omitempty"`
	WaitBig    string `json:"wait_big,omitempty"`
	MaxRate    string `json:"max_rate,omitempty"`
	PerAddress string `json:"per_address,omitempty"`
}

// A Scope replaces lists of options of the crawl. An empty list replaces nothing; the one word "none" is the empty list.
type Scope struct {
	Domain []string `json:"domain,omitempty"`
	Accept []string `json:"accept,omitempty"`
	Reject []string `json:"reject,omitempty"`
}

// Words with a meaning: the value of the option again, all sites, and the empty list.
const (
	Default = "default"
	All     = "all" // a site of that name is named by its origin, http://all
	none    = "none"
)

// Limits of what a person can set.
const (
	mostSites    = 10_000
	mostPatterns = 1000 // in one list
	longestValue = 2048 // bytes
	mostRate     = 1e6  // requests a second
)

// Parse reads a stored Steering; empty text is the zero one.
func Parse(text []byte) (s Steering, err error) {
	if len(text) > 0 {
		if err = json.Unmarshal(text, &s); err != nil {
			err = fmt.Errorf("read steering: %w", err)
		}
	}
	return s, err
}

// Text returns s as it is stored.
func (s *Steering) Text() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot have
	}
	return text
}

// Set reports whether a person has set anything.
func (s *Steering) Set() bool {
	return s.All || len(s.Sites) > 0 || s.Rate != Rate{} || !s.Scope.Equal(Scope{})
}

// Pause pauses sites, each named by its origin, the URL of one of its pages or its host name; or all, by the one word All.
func (s *Steering) Pause(sites []string) error {
	names, all, err := named(sites)
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	if all {
		s.All = true
		return nil
	}
	for _, name := range names {
		if i, paused := slices.BinarySearch(s.Sites, name); !paused {
			s.Sites = slices.Insert(s.Sites, i, name)
		}
	}
	if len(s.Sites) > mostSites {
		return fmt.Errorf("pause: at most %d sites can be paused one by one: pause all, or limit the scope", mostSites)
	}
	return nil
}

// Resume ends the pause of sites, named as for Pause; of all, also of those that were paused one by one, by the one word All.
func (s *Steering) Resume(sites []string) error {
	names, all, err := named(sites)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if all {
		s.All, s.Sites = false, nil
		return nil
	}
	for _, name := range names {
		i, paused := slices.BinarySearch(s.Sites, name)
		switch {
		case paused:
			s.Sites = slices.Delete(s.Sites, i, i+1)
		case s.Pauses()(name):
			return fmt.Errorf("resume: %s is paused with others: name what was paused, or resume all", name)
		default:
			return fmt.Errorf("resume: %s is not paused", name)
		}
	}
	return nil
}

// named returns the sites that a person names, or whether that is the one word for all. An empty list means nothing: it is more often the list of a
// program that found no site, or misnamed it, than a wish to stop everything.
func named(sites []string) (names []string, all bool, err error) {
	if len(sites) == 0 {
		return nil, false, errors.New("no site is named: want the names of sites, or the one word \"all\"")
	}
	for _, text := range sites {
		if strings.EqualFold(text, All) {
			all = true
		} else if name, err := siteOf(text); err != nil {
			return nil, false, err
		} else {
			names = append(names, name)
		}
	}
	if all && len(sites) > 1 {
		err = errors.New("want the names of sites, or the one word \"all\", not both")
	}
	return names, all, err
}

// Unknown returns which of the names that a person has just paused are those of none of the origins.
func (s *Steering) Unknown(names []string, origins iter.Seq[string]) []string {
	missing := map[string]bool{}
	for _, text := range names {
		name, err := siteOf(text)
		if _, paused := slices.BinarySearch(s.Sites, name); err == nil && paused {
			missing[name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for origin := range origins {
		origin = bare(origin)
		delete(missing, origin)
		delete(missing, hostOf(origin))
	}
	return slices.Sorted(maps.Keys(missing))
}

// siteOf returns the origin or the host name that a person means.
func siteOf(text string) (string, error) {
	if strings.Contains(text, "://") {
		u, err := protocol.CanonicalURL("", text)
		if err != nil {
			return "", fmt.Errorf("%.200q: %w", text, err)
		}
		return bare(protocol.Origin(u)), nil
	}
	u, err := protocol.CanonicalURL("", "http://"+text+"/")
	if host := hostOf(u); err == nil && bare(host) != "" && u == "http://"+host+"/" {
		return bare(host), nil
	}
	return "", fmt.Errorf("%.200q: want an origin such as https://www.example.org, or a host name", text)
}

// bare returns an origin or a host name without "www.".
func bare(name string) string {
	scheme, host, ok := strings.Cut(name, "://")
	if !ok {
		return strings.TrimPrefix(name, "www.")
	}
	return scheme + "://" + strings.TrimPrefix(host, "www.")
}

// hostOf returns the host name of a URL, with the brackets of an IPv6 address.
func hostOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(u.Host, u.Port()), ":")
}

// Pauses returns a function that reports whether an origin is paused. It does not see later changes.
func (s *Steering) Pauses() func(origin string) bool {
	all, sites := s.All, map[string]bool{}
	for _, name := range s.Sites {
		sites[name] = true
	}
	return func(origin string) bool {
		if all || len(sites) == 0 {
			return all
		}
		origin = bare(origin)
		return sites[origin] || sites[hostOf(origin)]
	}
}

// SetRate replaces the fields of the Rate that are not empty in r; Default empties them. Apply checks the values.
func (s *Steering) SetRate(r Rate) error {
	to, from := s.Rate.fields(), r.fields()
	for i, v := range from {
		switch {
		case len(*v) > longestValue:
			return fmt.Errorf("rate: a value is longer than %d bytes", longestValue)
		case *v == Default:
			*to[i] = ""
		case *v != "":
			*to[i] = *v
		}
	}
	return nil
}

func (r *Rate) fields() []*string {
	return []*string{&r.Budget, &r.Wait, &r.WaitBig, &r.MaxRate, &r.PerAddress}
}

// Apply replaces options of a crawl. Those that are strings are checked by the crawl.
func (r *Rate) Apply(budget *string, wait, waitBig *time.Duration, maxRate *float64, perAddress *string) error {
	*budget, *perAddress = cmp.Or(r.Budget, *budget), cmp.Or(r.PerAddress, *perAddress)
	for _, x := range []struct {
		name, text string
		to         *time.Duration
	}{{"wait", r.Wait, wait}, {"wait-big", r.WaitBig, waitBig}} {
		if x.text == "" {
			continue
		}
		d, err := time.ParseDuration(x.text)
		if err != nil || d < 0 {
			return fmt.Errorf("rate: %s %q: want a time such as 30s", x.name, x.text)
		}
		*x.to = d
	}
	if r.MaxRate != "" {
		n, err := strconv.ParseFloat(r.MaxRate, 64)
		if err != nil || !(n >= 0 && n <= mostRate) {
			return fmt.Errorf("rate: max-rate %q: want requests a second, such as 2", r.MaxRate)
		}
		*maxRate = n
	}
	return nil
}

// SetScope replaces the lists of the Scope that are not empty in c; the one word Default empties them.
func (s *Steering) SetScope(c Scope) error {
	was := s.Scope
	to, from := s.Scope.fields(), c.fields()
	for i, list := range from {
		if len(*list) > mostPatterns || slices.ContainsFunc(*list, func(v string) bool { return v == "" || len(v) > longestValue }) {
			return fmt.Errorf("scope: want at most %d values in a list, each of 1 to %d bytes", mostPatterns, longestValue)
		}
		switch {
		case slices.Equal(*list, []string{Default}):
			*to[i] = nil
		case len(*list) > 0:
			*to[i] = slices.Clone(*list)
		}
	}
	if !was.Equal(s.Scope) {
		s.Scoped = time.Now()
	}
	return nil
}

func (c *Scope) fields() []*[]string { return []*[]string{&c.Domain, &c.Accept, &c.Reject} }

// Confines reports whether c replaces the hosts and domains of the crawl.
func (c *Scope) Confines() bool { return len(c.Domain) > 0 && !slices.Equal(c.Domain, []string{none}) }

// Equal reports whether two scopes are the same.
func (c Scope) Equal(d Scope) bool {
	return slices.Equal(c.Domain, d.Domain) && slices.Equal(c.Accept, d.Accept) && slices.Equal(c.Reject, d.Reject)
}

// Apply replaces options of a crawl.
func (c *Scope) Apply(domain, accept, reject *[]string) {
	for i, to := range []*[]string{domain, accept, reject} {
		switch list := *c.fields()[i]; {
		case slices.Equal(list, []string{none}):
			*to = nil
		case len(list) > 0:
			*to = slices.Clone(list)
		}
	}
}
