//go:build linux

package anysite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// An Option is a row of a program's option table, as --help-json prints it.
type Option struct{ Name, Kind, Value, Default, Usage string }

// Tables are the options of all programs, by command: "crawl", "run", "follow", "notifier" and "rdfgen".
type Tables map[string][]Option

// ReadTables reads the option tables of the programs in a directory.
func ReadTables(dir string) (Tables, error) {
	tables := Tables{}
	for name, args := range map[string][]string{"crawl": {"crawler", "crawl"}, "run": {"crawler", "run"}, "follow": {"crawler", "follow"},
		"notifier": {"notifier"}, "rdfgen": {"rdfgen"}} {
		out, err := exec.Command(dir+"/"+args[0], append(args[1:], "--help-json")...).Output()
		if err != nil {
			return nil, fmt.Errorf("list options of %s: %w", name, err)
		}
		var table []Option
		if err := json.NewDecoder(bytes.NewReader(out)).Decode(&table); err != nil {
			return nil, fmt.Errorf("read options of %s: %w", name, err)
		}
		tables[name] = table
	}
	return tables, nil
}

// exceptions are options that are not drawn, with the reason.
var exceptions = map[string]string{
	"into": "set by the runner", "state": "set by the runner", "docroot": "set by the runner", "base": "set by the runner",
	"listen": "set by the runner", "out": "has a feature of its own", "parts": "has a feature of its own", "one-file": "the same as --parts 0", "admin": "set by the runner", "admin-token": "needs a file of tokens", "sites": "the start pages are arguments",
	"config": "options are given on the command line", "site": "there is no configuration file", "contact": "names the program in what is recorded",
	"agent": "names the program in what is recorded", "log-level": "kill steps count log lines", "log-format": "does not affect the judge",
	"resolver": "set by the runner for host names", "allow-private": "all sites are on this machine", "as": "has a feature of its own", "store": "has a feature of its own",
	"wait": "has a feature of its own", "wait-big": "goes with --wait", "delay": "goes with --wait", "hurry": "set short by the runner, so that a history lasts a second",
	"patience": "set short by the runner, so that a history lasts a second", "retry": "set short by the runner, so that a history lasts a second", "dns-retry": "set short by the runner, so that a history lasts a second",
	"refused-again": "set short by the runner, so that a history lasts a second", "source-again": "set short by the runner, so that a history lasts a second", "robots-every": "set short by the runner, so that a history lasts a second",
	"manifest-every": "set short by the runner, so that a history lasts a second", "sitemap-every": "set short by the runner, so that a history lasts a second", "feed-every": "set short by the runner, so that a history lasts a second",
	"poll": "set short by the runner, so that a history lasts a second", "look-every": "set short by the runner, so that a history lasts a second", "write-every": "set short by the runner, so that a history lasts a second",
	"grace": "set short by the runner, so that a history lasts a second", "preset": "set by the feature tells", "stream": "set by the feature tells",
	"serve-pages": "has a feature of its own", "expires": "goes with --serve-pages", "clean-urls": "has a feature of its own", "archive": "has a feature of its own", "versions": "has a feature of its own",
	"indexnow-listen": "nobody sends notices here", "indexnow": "there is no search engine here", "indexnow-key": "there is no search engine here",
	"indexnow-all": "there is no search engine here", "indexnow-rotate": "there is no search engine here", "indexnow-significance": "there is no search engine here",
	"trusted-proxy": "all clients are on this machine", "websub": "there is no hub here", "on-change": "there is no receiver here", "webhook": "there is no receiver here", "webhook-secret": "goes with --webhook", "hub": "there is no subscriber here", "log": "there is no NATS here", "log-creds": "goes with --log", "door": "goes with --log", "announce-tokens": "another inventory of a site",
	"urls": "another inventory of a site", "urls-cmd": "another inventory of a site", "urls-sitemap": "another inventory of a site",
	"urls-feed": "another inventory of a site", "fetch": "goes with lists", "fetch-rate": "goes with lists", "recheck": "goes with lists",
	"callers": "needs a file of tokens", "token": "needs a file of tokens", "program": "needs a program", "batches": "writes a file that nobody reads",
	"moved-from": "the address of a site stays", "previous": "needs a file that does not exist", "nginx-include": "names a file", "nginx-reload": "goes with --nginx-include",
	"sitemap": "names a file", "rss": "names a file", "atom": "names a file", "json-feed": "names a file", "title": "option of a feed", "feed-entries": "option of a feed",
	"sitemap-gzip": "option of a sitemap", "access-log": "names files", "robots": "has a feature of its own", "blocked-ip": "all sites have one address",
	"domain": "the start pages define the hosts", "partition": "needs --domain, and several crawlers", "exchange": "the same", "cluster": "there is no NATS here", "cluster-creds": "goes with --cluster", "cluster-name": "goes with --cluster", "partitions": "goes with --cluster", "cluster-events": "goes with --cluster", "lease": "goes with --cluster", "dry-run": "rdfgen must write", "json": "rdfgen must write", "accept-deletions": "confirmation by a person",
	"connect-timeout": "nothing here is slow", "min-speed": "nothing here is slow", "heal": "file dates are features of the runner",
	"start": "goes with --reachable", "where": "an expression that limits the copy to a part", "only": "limits the copy to a part", "every": "goes with --as batch",
	"count": "goes with --as batch", "ask-every": "goes with --via changes", "max-archive": "needs larger sites",
	"write-robots": "restores the robots.txt that steps remove", "threshold": "goes with --policy thesis", "min-period-refused": "goes with --policy thesis", "stop-value": "goes with --policy thesis",
	"changed": "goes with --text-digest", "training-period": "goes with --polls training", "subscribers": "needs numbers of subscribers", "ask-via": "has a feature of its own", "trust-docroot": "has a feature of its own", "include": "drawn with the types of pages",
	"ca": "the environment has the runner's authority", "proxy": "sites are reached directly",
	"profile": "sets options that are drawn themselves", "requisites": "fetches images, which no oracle follows",
	"cookies": "no site here has a login", "client-cert": "no site here wants a certificate", "client-key": "goes with --client-cert", "client-host": "goes with --client-cert",
	"history": "names a file", "rank-every": "goes with --strategy batch-pagerank and partial-pagerank, of whose first ranks the crawl has enough",
	"depth-for": "sets --max-depth, which is drawn itself", "q": "goes with --depth-for",
	"copy-to": "copies files that the judge reads where they are", "requests": "adds records to the archive, which the judge skips",
	"reachable": "leaves out pages by links, which the oracle of the site does not follow",
}

// Exception returns why an option is not drawn, empty if it is.
func Exception(name string) string { return exceptions[name] }

// values are for options whose kind does not say which values they accept.
var values = map[string][]string{
	"accept": {"**"}, "reject": {"**/page-3*"}, "reject-word": {"none", "login"}, "session-id": {"none", "sid"}, "static-ext": {"none"},
	"dynamic-ext": {"none", "php"}, "log-ext": {"none", "zip"}, "budget": {"1000000", "0.1/page", "10000/page"}, "objective": {"fresh=1", "age=1"}, "outdated": {"0.1", "any=0.5", "fastest=0.2"},
	"strategy": {"batch-pagerank", "breadth-first", "larger-sites-first", "manifest-first", "partial-pagerank", "performance", "profit", "random"}, // historical ones need --history
	"score":    {"depth=1"}, "exclude": {"page-4*"}, "mask": {"[0-9]+"}, "policy": {"priced", "uniform", "proportional", "thesis", "thesis:mirror"},
	"archive-share": {"0.1", "1"}, "max-file": {"50KB", "2MB"}, "max-page": {"50KB", "2MB"}, "max-pages": {"5", "1000", "2000"}, "per-site": {"5", "1000", "2000"}, "max-sites": {"1", "100", "200"},
	"costs": {"requests", "bytes"}, "round": {"0", "1", "5"}, "max-depth": {"1", "30", "40"}, "max-warc": {"1KB", "1MB"}, "max-subscribers": {"1", "50"}, "per-address": {"1", "50"}, "in-flight": {"1", "100"}, "retention": {"10ms", "1h"},
	"min-in-flight": {"1"}, "stop-after": {"300ms", "1h", "2h"}, "stop-pages": {"3", "1000", "2000"}, "stop-bytes": {"10KB", "1GB", "2GB"}, "heartbeat": {"1s", "50ms"}, "max-period": {"100ms", "1h"}, "min-period": {"10ms", "1s"},
	"ask-rate": {"20", "200"}, "welcome-rate": {"5", "10", "50"}, "max-rate": {"0", "3", "50"}, "max-state": {"1MB", "1GB"}, "polls": {"fixed", "ahead", "index"}, "pagerank-jump": {"0.15", "0.5"}, "max-failed-lookups": {"0.5", "1"}, "dates-from": {"1993", "2020-06"}, "dates-ahead": {"0", "24h"}, "at-once": {"1", "3", "20"}, "answers": {"usual", "all", "none"},
}

// byKind are the values of all other options.
var byKind = map[string][]string{
	"bool": {"true", "false"}, "int": {"1", "3", "100"}, "float64": {"0.05", "0.5", "1"}, "duration": {"10ms", "100ms", "1s"}, "size": {"10KB", "1MB"},
}

// listed finds the values in a help text that ends in a list: ": warc, mirror, both or none".
var listed = regexp.MustCompile(`: ((?:[a-z0-9-]+, )+[a-z0-9-]+ or [a-z0-9-]+)`)

// Drawn returns the values that an option may be given; nil if it is not drawn.
func (o Option) Drawn() []string {
	if _, ok := exceptions[o.Name]; ok {
		return nil
	}
	if o.Name == "per-address" && o.Kind == "string" {
		return []string{"20/s", "100/s,2"}
	}
	if o.Name == "max-pages" && o.Default == "0" {
		return []string{"100000"} // of a site, which must publish all its pages
	}
	if v, ok := values[o.Name]; ok && o.Kind != "bool" {
		return v
	}
	if v, ok := byKind[o.Kind]; ok {
		return v
	}
	if m := listed.FindStringSubmatch(o.Usage); m != nil {
		return strings.Split(strings.ReplaceAll(m[1], " or ", ", "), ", ")
	}
	return nil
}

// drawable returns the options of a command that a seed may draw.
func (t Tables) drawable(command string) (list []Option) {
	for _, o := range t[command] {
		if o.Drawn() != nil {
			list = append(list, o)
		}
	}
	return list
}

// called returns the command of a plan's crawler.
func (p *Plan) called() string {
	if c := p.Chosen["crawler"]; c != "crawl-again" {
		return c
	}
	return "crawl"
}

// An entry is an option that a plan may draw.
type entry struct {
	program string // "crawler" or "notifier"
	Option
}

// entries returns all drawable options of all commands: first those that only follow has.
func (t Tables) entries() (list []entry) {
	for _, c := range []struct{ program, command, without string }{{"crawler", "follow", "run"}, {"crawler", "run", ""}, {"notifier", "notifier", ""}} {
		for _, o := range t.drawable(c.command) {
			if t.has(c.without, o.Name) {
				continue
			}
			if !slices.ContainsFunc(list, func(e entry) bool { return e.program == c.program && e.Name == o.Name }) {
				list = append(list, entry{c.program, o})
			}
		}
	}
	return list
}

func (t Tables) has(command, option string) bool {
	return slices.ContainsFunc(t[command], func(o Option) bool { return o.Name == option })
}

// pairsIn is the number of consecutive seeds within which every pair of options is drawn.
const pairsIn = 2000

// apart is the distance between the positions of two consecutive seeds. It has no factor in common with their
// number.
const apart = 617

// twice is the index of the first pair of options that is drawn twice; as many pairs are drawn twice as there
// are positions left.
const twice = 534

// pairs returns the pairs of options that a seed draws. Every third seed has none. Pairs with an option that
// only follow has come first, one in a seed: their other options fit no other command.
func (t Tables) pairs(seed uint64, all []entry) (list [][2]entry) {
	var alone, others [][2]entry
	for i, a := range all {
		for _, b := range all[i+1:] {
			switch {
			case a.program == "notifier" || t.has("run", a.Name):
				others = append(others, [2]entry{a, b})
			case b.program == "notifier" || t.has("follow", b.Name):
				alone = append(alone, [2]entry{a, b})
			}
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	if turns := pairsIn*2/3 - 2; seed%3 != 0 && len(others) > 0 {
		turn := int((seed - seed/3 - 1) % uint64(turns) * apart % uint64(turns))
		if turn < len(alone) {
			return alone[turn : turn+1]
		}
		left := turns - len(alone)
		each := max(2, (len(others)+left-1)/left) // some pairs are drawn twice, so that each option meets all others
		for i := range each {
			n := (turn-len(alone))*each + i
			if n >= len(others) {
				n += twice
			}
			list = append(list, others[n%len(others)])
		}
	}
	return list
}

// drawOptions draws the options of the seed. The crawler's command is one that has them.
func (p *Plan) drawOptions(tables Tables) {
	if p.leaves("options") {
		return
	}
	all := tables.entries()
	list := tables.pairs(p.Seed, all)
	if r := drawing(p.Seed, "alone"); list == nil && p.called() == "follow" { // follow has few options of its own
		e := all[r.IntN(max(1, slices.IndexFunc(all, func(e entry) bool { return tables.has("run", e.Name) })))]
		list = [][2]entry{{e, e}}
	}
	for _, pair := range list {
		for _, e := range pair {
			if p.leaves("--"+e.Name) || slices.ContainsFunc(p.Options[e.program], func(s Setting) bool { return s.Name == e.Name }) {
				continue
			}
			if e.program == "crawler" && !tables.has(p.called(), e.Name) {
				p.Chosen["crawler"] = "run"
				if tables.has("follow", e.Name) {
					p.Chosen["crawler"] = "follow"
				}
			}
			p.Options[e.program] = append(p.Options[e.program], Setting{e.Name, pick(drawing(p.Seed, e.program+" --"+e.Name), e.Drawn())})
		}
	}
	without := func(s Setting) bool { return (s.Name == "no-links" || s.Name == "no-parse") && s.Value == "true" }
	if list := p.Options["crawler"]; slices.ContainsFunc(list, without) { // which the crawler refuses with orders by links
		p.Options["crawler"] = slices.DeleteFunc(list, func(s Setting) bool { return s.Name == "strategy" && strings.HasSuffix(s.Value, "pagerank") })
	}
}
