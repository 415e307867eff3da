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
	"into": "the runner says where", "state": "the runner says where", "docroot": "the runner says where", "base": "the runner says where",
	"listen": "the runner says where", "out": "a feature of its own", "admin": "the runner says where", "sites": "start pages are given",
	"config": "options are given on the command line", "site": "there is no configuration file", "contact": "names the program in what is recorded",
	"agent": "names the program in what is recorded", "log-level": "kills count lines of the log", "log-format": "says nothing that is judged",
	"resolver": "the runner's own, for names", "allow-private": "all sites are on this machine", "as": "a feature of its own", "store": "a feature of its own",
	"wait": "a feature of its own", "wait-big": "goes with --wait", "delay": "goes with --wait", "hurry": "makes a history last a second",
	"patience": "makes a history last a second", "retry": "makes a history last a second", "dns-retry": "makes a history last a second",
	"refused-again": "makes a history last a second", "source-again": "makes a history last a second", "robots-every": "makes a history last a second",
	"manifest-every": "makes a history last a second", "sitemap-every": "makes a history last a second", "feed-every": "makes a history last a second",
	"poll": "makes a history last a second", "look-every": "makes a history last a second", "write-every": "makes a history last a second",
	"grace": "makes a history last a second", "preset": "what a site tells is a feature of its own", "stream": "what a site tells is a feature of its own",
	"serve-pages": "a feature of its own", "clean-urls": "a feature of its own", "archive": "a feature of its own", "versions": "a feature of its own",
	"indexnow-listen": "nobody sends notices here", "indexnow": "there is no engine here", "indexnow-key": "there is no engine here",
	"indexnow-all": "there is no engine here", "indexnow-rotate": "there is no engine here", "indexnow-significance": "there is no engine here",
	"websub": "there is no hub here", "hub": "there is no subscriber here", "announce-tokens": "another way to say what a site has",
	"urls": "another way to say what a site has", "urls-cmd": "another way to say what a site has", "urls-sitemap": "another way to say what a site has",
	"urls-feed": "another way to say what a site has", "fetch": "goes with lists", "fetch-rate": "goes with lists", "recheck": "goes with lists",
	"callers": "needs a file of tokens", "token": "needs a file of tokens", "program": "needs a program", "batches": "a file that nobody reads",
	"previous": "a file that is not there", "nginx-include": "names a file", "nginx-reload": "goes with --nginx-include",
	"sitemap": "names a file", "rss": "names a file", "atom": "names a file", "json-feed": "names a file", "title": "of a feed", "feed-entries": "of a feed",
	"sitemap-gzip": "of a sitemap", "access-log": "names files", "robots": "a feature of its own", "blocked-ip": "all sites have one address",
	"domain": "start pages say which hosts", "dry-run": "rdfgen is to write", "json": "rdfgen is to write", "accept-deletions": "a person's word",
	"connect-timeout": "nothing here is slow", "min-speed": "nothing here is slow", "heal": "dates of files are the runner's own features",
	"start": "goes with --reachable", "where": "an expression: a copy of a part", "only": "a copy of a part", "every": "goes with --as batch",
	"count": "goes with --as batch", "ask-every": "goes with --via changes", "max-archive": "of sites that are larger",
	"write-robots": "writes what the steps take away", "threshold": "goes with --policy thesis", "min-period-refused": "goes with --policy thesis", "stop-value": "goes with --policy thesis",
	"changed": "goes with --text-digest", "ask-via": "a feature of its own", "trust-docroot": "a feature of its own", "include": "drawn with the types of pages",
	"reachable": "leaves out pages by links, which the oracle of the site does not follow",
}

// Exception returns why an option is not drawn, empty if it is.
func Exception(name string) string { return exceptions[name] }

// values are for options whose kind does not say which values they accept.
var values = map[string][]string{
	"accept": {"**"}, "reject": {"**/page-3*"}, "reject-word": {"none", "login"}, "session-id": {"none", "sid"}, "static-ext": {"none"},
	"dynamic-ext": {"none", "php"}, "log-ext": {"none", "zip"}, "budget": {"1000000", "0.1/page", "10000/page"}, "objective": {"fresh=1", "age=1"},
	"score": {"depth=1"}, "exclude": {"page-4*"}, "mask": {"[0-9]+"}, "policy": {"priced", "thesis", "thesis:mirror"},
	"archive-share": {"0.1", "1"}, "max-file": {"50KB", "2MB"}, "max-page": {"50KB", "2MB"}, "max-pages": {"5", "1000", "2000"}, "per-site": {"5", "1000", "2000"}, "max-sites": {"1", "100", "200"},
	"costs": {"requests", "bytes"}, "max-depth": {"1", "30", "40"}, "max-warc": {"1KB", "1MB"}, "max-subscribers": {"1", "50"}, "per-address": {"1", "50"}, "in-flight": {"1", "100"}, "retention": {"10ms", "1h"},
	"min-in-flight": {"1"}, "stop-after": {"300ms", "1h", "2h"}, "stop-pages": {"3", "1000", "2000"}, "stop-bytes": {"10KB", "1GB", "2GB"}, "heartbeat": {"1s", "50ms"}, "max-period": {"100ms", "1h"}, "min-period": {"10ms", "1s"},
	"ask-rate": {"20", "200"}, "welcome-rate": {"5", "10", "50"}, "max-rate": {"0", "3", "50"}, "max-state": {"1MB", "1GB"}, "polls": {"fixed", "ahead", "index"}, "strategy": {"breadth-first", "larger-sites-first", "manifest-first", "profit", "random"}, "answers": {"usual", "all", "none"},
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
}
