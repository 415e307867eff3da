//go:build linux

package anysite

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Plan is everything that a seed draws; only the timing varies.
type Plan struct {
	Seed    uint64
	Without []string // features and steps that were removed, such as "nonce" or "step2"
	Chosen  map[string]string
	Options map[string][]Setting // by program: options drawn from its table
	Sites   []Site
	Steps   []Step
}

// A Site is one base URL with a docroot of its own.
type Site struct {
	Name  string // "a", "b" ...
	Tells string // silent, manifest, changes, stream or high
	Front string // go, go-tls, nginx, nginx-tls, bad-cert or notifier
	Path  string // path of the base: "/" or one below the root
	Host  string // name below localhost; empty for an address
	Share int    // the site whose address it shares, -1 for an address of its own
	Pages []Page
}

// A Setting is an option with its value.
type Setting struct{ Name, Value string }

// A Step is one event of a history.
type Step struct {
	Number  int // in the history that the seed draws, even if steps were removed
	Kind    string
	Site    int
	Trigger string // of a kill: "at once", "request N", "byte N", "line N" or "manifest N", which is N times 4 ms after one was given
	Pause   int    // milliseconds of rest afterwards
}

// String returns the step as it is printed and removed.
func (s Step) String() string {
	t := fmt.Sprintf("step%d %s of site %c", s.Number, s.Kind, 'a'+rune(s.Site))
	if s.Trigger != "" {
		t += ", " + s.Trigger
	}
	return t
}

// A dimension is a property of which a seed draws one value. The first value is the plain one, which is used
// when the feature is removed.
type dimension struct {
	name   string
	values []string
}

// dimensions are all drawn properties except the steps and the options, which the programs themselves list.
var dimensions = append([]dimension{
	{"tells", []string{"silent", "manifest", "changes", "stream", "high", "high"}},
	{"front", []string{"go", "go-tls", "nginx", "nginx-tls", "notifier", "go", "go-tls", "nginx", "nginx-tls", "notifier", "bad-cert"}},
	{"place", []string{"root", "path", "two-paths", "two-addresses", "name"}},
	{"sites", []string{"1", "2", "3"}},
	{"shared", []string{"no", "names", "ports"}},
	{"size", []string{"small", "small", "middle", "large"}},
	{"protect", []string{"no", "401", "403", "address"}},
	{"robots", []string{"none", "forbids", "delay", "named"}},
	{"crawler", []string{"crawl", "crawl-again", "run", "run", "follow"}},
	{"begins", []string{"first", "later"}}, // whether the crawler starts before the steps or among them
	{"settled", []string{"no", "yes"}},     // whether the copy is complete before the first step
	{"store", []string{"warc", "mirror", "both", "warc", "both", "mirror", "none"}},
	{"as", []string{"auto", "auto", "meta", "delta", "page", "batch", "site"}},
	{"wait", []string{"10ms", "20ms", "0"}},
	{"budget", []string{"default", "ample", "ample", "plenty"}},    // enough for all announced changes, or for all pages
	{"hurry", []string{"50ms", "50ms", "200ms", "1s"}},             // of the crawler
	{"evidence", []string{"via", "via", "via", "trust", "inside"}}, // how a notifier learns what an anonymous client gets
	{"preset", []string{"as-is", "versions", "archive-only"}},
	{"parts", []string{"no", "1", "9", "26"}}, // from how many pages on manifests are in parts: all sites, and some as they grow or shrink
}, quirks()...)

// quirks are features that a site has or does not have.
func quirks() (list []dimension) {
	for _, name := range []string{"empty", "oversize", "huge", "pdf", "types", "twins", "odd-names", "encodings", "canonical", "noindex", "nofollow",
		"base", "unreadable", "unlinked", "nonce", "ssi-date", "minified", "stale", "old-dates", "future-dates", "clean-urls", "out"} {
		list = append(list, dimension{name, []string{"no", "no", "yes"}})
	}
	return list
}

// kinds are the kinds of steps. Some need a notifier, or a crawler that keeps running.
var kinds = []string{"edit", "edit-many", "trifles", "create", "move", "copy", "delete", "rebuild", "protect", "robots-lost", "robots-empty",
	"robots-back", "wrong-docroot", "wrong-docroot", "quiet", "grow", "parts", "restart-notifier", "restart-notifier", "kill-notifier", "kill-notifier", "restart-crawler", "kill-crawler", "kill-crawler", "disk-full"}

// drawing returns the random source of one part of a plan. It stays the same when other parts are removed.
func drawing(seed uint64, what string) *rand.Rand {
	h := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, what))
	return rand.New(rand.NewChaCha8(h))
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// Draw makes the plan of a seed, for programs with the options in tables.
func Draw(seed uint64, tables Tables, without ...string) *Plan {
	p := &Plan{Seed: seed, Without: without, Chosen: map[string]string{}, Options: map[string][]Setting{}}
	for _, d := range dimensions {
		p.Chosen[d.name] = pick(drawing(seed, d.name), d.values)
		if p.leaves(d.name) {
			p.Chosen[d.name] = d.values[0]
		}
	}
	p.drawOptions(tables)
	for _, rule := range exclusions {
		if rule.holds(p.Chosen) {
			p.Chosen[rule.sets] = rule.to
		}
	}
	drawn := func(s Setting) bool { return s.Name == "pages" }
	if as := p.Chosen["as"]; p.Chosen["crawler"] == "follow" && (as == "page" || as == "delta" || as == "batch") && slices.ContainsFunc(p.Options["notifier"], drawn) {
		p.Chosen["as"] = "auto" // with --pages=false the site does not offer these forms, and follow ends
	}
	p.drawSites()
	p.drawSteps()
	return p
}

func (p *Plan) leaves(name string) bool { return slices.Contains(p.Without, name) }

// Has reports whether a plan has a feature, such as "nonce".
func (p *Plan) Has(name string) bool { return p.Chosen[name] == "yes" }

// An exclusion is a combination that is impossible, and which of its features gives way.
type exclusion struct {
	holds    func(c map[string]string) bool
	sets, to string
	why      string
}

// exclusions are applied in order.
var exclusions = []exclusion{
	{func(c map[string]string) bool { return c["crawler"] == "follow" && c["tells"] == "silent" }, "tells", "stream", "follow needs a site with a manifest or notifier"},
	{func(c map[string]string) bool {
		return c["front"] == "notifier" && (c["tells"] == "silent" || c["tells"] == "manifest")
	}, "tells", "stream", "only a notifier can serve the pages"},
	{func(c map[string]string) bool { return c["front"] == "notifier" && c["protect"] != "no" }, "protect", "no", "a notifier that serves pages does not check passwords"},
	{func(c map[string]string) bool { return c["place"] == "name" && c["crawler"] == "follow" }, "place", "root", "follow has no --resolver for test host names"},
	{func(c map[string]string) bool { return c["shared"] == "names" && c["crawler"] == "follow" }, "shared", "no", "follow has no --resolver for test host names"},
	{func(c map[string]string) bool { return c["shared"] == "names" && c["sites"] == "1" }, "sites", "2", "sharing an address takes two sites"},
	{func(c map[string]string) bool { return c["shared"] == "names" && c["place"] == "two-addresses" }, "place", "root", "both set the address of a site"},
	{func(c map[string]string) bool {
		return c["crawler"] == "follow" && c["as"] != "auto" && c["as"] != "meta" && c["tells"] != "high"
	}, "tells", "high", "follow --as needs a site that offers the form"},
	{func(c map[string]string) bool {
		return c["as"] == "site" && (c["crawler"] == "follow" && c["preset"] == "versions")
	}, "preset", "as-is", "there is no archive to follow"},
	{func(c map[string]string) bool {
		return c["crawler"] == "follow" && c["preset"] == "archive-only" && (c["as"] == "delta" || c["as"] == "page" || c["as"] == "batch")
	}, "preset", "as-is", "follow --as needs a site that offers the form"},
	{func(c map[string]string) bool {
		return c["clean-urls"] == "yes" && strings.HasPrefix(c["front"], "nginx")
	}, "clean-urls", "no", "the shipped nginx configuration serves files by their names"},
	{func(c map[string]string) bool { return c["settled"] == "yes" && c["begins"] == "later" }, "begins", "first", "a crawler that starts later has no copy yet"},
	{func(c map[string]string) bool { return c["front"] == "bad-cert" && c["crawler"] == "follow" }, "front", "go-tls", "follow rejects a bad certificate"},
}

// drawSites makes the chosen sites. The features are those of the first.
func (p *Plan) drawSites() {
	c := p.Chosen
	add := func(s Site) {
		s.Name = string(rune('a' + len(p.Sites)))
		p.drawPages(&s)
		p.Sites = append(p.Sites, s)
	}
	first := Site{Tells: c["tells"], Front: c["front"], Path: "/", Share: -1}
	if c["place"] == "path" || c["place"] == "two-paths" {
		first.Path = "/docs/"
	}
	if c["place"] == "name" || c["shared"] == "names" {
		first.Host = "a.one.localhost"
	}
	add(first)
	r := drawing(p.Seed, "others")
	if c["place"] == "two-paths" {
		add(Site{Tells: pick(r, []string{"silent", "manifest", "stream"}), Front: first.Front, Path: "/other/", Host: first.Host, Share: 0})
		if first.Front == "notifier" {
			p.Sites[1].Tells = "stream"
		}
	}
	for n := int(c["sites"][0] - '1'); n > 0; n-- {
		s := Site{Tells: pick(r, []string{"silent", "manifest", "stream"}), Front: "go", Path: "/", Share: -1}
		if c["shared"] == "names" {
			s.Share, s.Front = 0, first.Front
			s.Host = []string{"b.one.localhost", "two.localhost"}[n%2]
		}
		if s.Front == "notifier" {
			s.Tells = "stream"
		}
		add(s)
	}
}

func (p *Plan) drawSteps() {
	r := drawing(p.Seed, "steps")
	n := pick(r, []int{1, 2, 3, 4, 5, 5})
	for i := range n {
		r := drawing(p.Seed, fmt.Sprint("step", i+1))
		s := Step{Number: i + 1, Kind: pick(r, kinds), Pause: pick(r, []int{0, 50, 200, 400})}
		if r.IntN(4) == 0 {
			s.Site = r.IntN(len(p.Sites))
		}
		trigger := fmt.Sprintf("%s %d", pick(r, []string{"request", "line", "manifest", "byte"}), 1+r.IntN(1+r.IntN(32)))
		if strings.HasPrefix(trigger, "byte") {
			trigger += "00"
		}
		if r.IntN(3) == 0 {
			trigger = "at once"
		}
		tells := p.Sites[s.Site].Tells
		notifier := tells != "silent" && tells != "manifest"
		switch {
		case strings.HasSuffix(s.Kind, "-notifier") && !notifier, s.Kind == "wrong-docroot" && !notifier, s.Kind == "parts" && tells == "silent":
			s.Kind = "edit"
		case s.Kind == "protect" && p.Sites[s.Site].Front == "notifier":
			s.Kind = "delete"
		}
		if strings.HasPrefix(s.Kind, "kill-") {
			s.Trigger = trigger
		}
		if s.Kind == "kill-notifier" { // the notifier requests no manifest
			s.Trigger = strings.Replace(s.Trigger, "manifest", "request", 1)
		}
		if !p.leaves(fmt.Sprint("step", i+1)) {
			p.Steps = append(p.Steps, s)
		}
	}
	// The kill of a crawler just after it read the first manifest is the only step: any event on the site would
	// bring back what it lost.
	if i := slices.IndexFunc(p.Steps, func(s Step) bool { return strings.HasPrefix(s.Trigger, "manifest") }); i >= 0 {
		p.Steps, p.Chosen["settled"] = p.Steps[i:i+1], "no"
	}
}

// Features lists the features of a plan, such as "front=nginx" and "step=edit".
func (p *Plan) Features() (list []string) {
	for _, d := range dimensions {
		list = append(list, d.name+"="+p.Chosen[d.name])
	}
	for _, s := range p.Steps {
		if f := "step=" + s.Kind; !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	for _, program := range []string{"crawler", "notifier"} {
		for _, s := range p.Options[program] {
			list = append(list, program+" --"+s.Name)
		}
	}
	return list
}

// Excluded returns why two features cannot be combined, empty if they can.
func Excluded(tables Tables, a, b string) string {
	for range 2 {
		an, av, _ := strings.Cut(a, "=")
		bn, bv, _ := strings.Cut(b, "=")
		option, isOption := strings.CutPrefix(a, "crawler --")
		other, both := strings.CutPrefix(b, "crawler --")
		has := tables.has
		switch {
		case an == bn && an != "step":
			return "a plan has one value of each dimension"
		case isOption && both && has("run", option) != has("run", other) && has("follow", option) != has("follow", other):
			return "no command has both options"
		case isOption && bn == "crawler" && !has(strings.TrimSuffix(bv, "-again"), option):
			return "the command has no such option"
		case isOption && !has("follow", option) && excluded("crawler=run", b) || isOption && !has("run", option) && excluded("crawler=follow", b):
			return "the command that has the option excludes the other feature"
		case excluded(a, b):
			return "the two features exclude each other"
		case an == "step" && bn == "tells" && (strings.HasSuffix(av, "-notifier") || av == "wrong-docroot" || av == "parts"):
			return "there is no notifier, or no manifest"
		}
		a, b = b, a
	}
	return ""
}

// excluded reports whether an exclusion removes one of two combined features, whatever else a plan has.
func excluded(a, b string) bool {
	an, av, _ := strings.Cut(a, "=")
	bn, bv, _ := strings.Cut(b, "=")
	c := map[string]string{}
	for _, d := range dimensions {
		c[d.name] = d.values[0]
	}
	for _, tells := range dimensions[0].values { // if it depends on a third feature, all values of that are tried
		for _, crawler := range []string{"crawl", "follow"} {
			c["tells"], c["crawler"], c["sites"] = tells, crawler, "2"
			c[an], c[bn] = av, bv
			for _, rule := range exclusions {
				if rule.holds(c) {
					c[rule.sets] = rule.to
				}
			}
			if c[an] == av && c[bn] == bv {
				return false
			}
		}
	}
	return true
}
