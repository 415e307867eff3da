package anysite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// An Option is a line of a program's own table, as --help-json prints it.
type Option struct{ Name, Kind, Value, Default, Usage string }

// Tables are the options of all programs, by what is called: "crawl", "run",
// "follow", "notifier" and "rdfgen".
type Tables map[string][]Option

// ReadTables asks the programs of a directory.
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

// exceptions are options that are not drawn by themselves, and why.
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
	"threshold": "goes with --policy thesis", "min-period-refused": "goes with --policy thesis", "stop-value": "goes with --policy thesis",
	"changed": "goes with --text-digest", "ask-via": "there is no proxy here", "include": "drawn with the types of pages",
	"reachable": "leaves out pages by links, which the oracle of the site does not follow",
}

// values are for options whose kind does not say what they take.
var values = map[string][]string{
	"accept": {"**"}, "reject": {"**/page-3*"}, "reject-word": {"none", "login"}, "session-id": {"none", "sid"}, "static-ext": {"html", "none"},
	"dynamic-ext": {"none", "php"}, "log-ext": {"none", "zip"}, "budget": {"1000000", "0.1/page", "10000/page"}, "objective": {"fresh=1", "age=1"},
	"score": {"depth=1"}, "exclude": {"page-4*"}, "mask": {"[0-9]+"}, "policy": {"priced", "thesis", "thesis:mirror"},
	"archive-share": {"0.1", "1"}, "max-file": {"50KB", "2MB"}, "max-page": {"50KB", "2MB"}, "max-pages": {"5", "1000"}, "per-site": {"5", "1000"}, "max-sites": {"1", "100"},
	"max-depth": {"1", "30"}, "max-warc": {"1KB", "1MB"}, "max-subscribers": {"1", "50"}, "per-address": {"1", "50"}, "in-flight": {"1", "100"}, "retention": {"10ms", "1h"},
	"min-in-flight": {"1"}, "stop-after": {"300ms", "1h"}, "heartbeat": {"1s", "50ms"}, "max-period": {"100ms", "1h"}, "min-period": {"10ms", "1s"},
	"polls": {"fixed", "ahead", "index"}, "strategy": {"breadth-first", "larger-sites-first", "manifest-first", "profit", "random"}, "answers": {"usual", "all", "none"},
}

// byKind are for all others.
var byKind = map[string][]string{
	"bool": {"true", "false"}, "int": {"1", "3", "100"}, "float64": {"0.05", "0.5", "1"}, "duration": {"10ms", "100ms", "1s"}, "size": {"10KB", "1MB"},
}

// listed are the words of a help text that ends in a list: ": warc, mirror, both or none".
var listed = regexp.MustCompile(`: ((?:[a-z0-9-]+, )+[a-z0-9-]+ or [a-z0-9-]+)`)

// drawn are the values that an option may be given; nil if it is not drawn.
func (o Option) drawn() []string {
	if _, ok := exceptions[o.Name]; ok {
		return nil
	}
	if v, ok := values[o.Name]; ok {
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

// drawable are the options of a table of which a seed draws.
func (t Tables) drawable(command string) (list []Option) {
	for _, o := range t[command] {
		if o.drawn() != nil {
			list = append(list, o)
		}
	}
	return list
}

// called is the command that a plan has for its crawler.
func (p *Plan) called() string {
	if c := p.Chosen["crawler"]; c != "crawl-again" {
		return c
	}
	return "crawl"
}

// drawOptions draws options in pairs: over as many seeds as there are pairs each comes
// up, and a third of the seeds have none but what the features ask for, which is how most people run it.
func (p *Plan) drawOptions(tables Tables) {
	type entry struct {
		program string
		Option
	}
	var all []entry
	for _, o := range tables.drawable(p.called()) {
		all = append(all, entry{"crawler", o})
	}
	for _, o := range tables.drawable("notifier") {
		all = append(all, entry{"notifier", o})
	}
	if len(all) < 2 || p.leaves("options") {
		return
	}
	draw := func(e entry) {
		has := func(s Setting) bool { return s.Name == e.Name }
		if p.leaves("--"+e.Name) || slices.ContainsFunc(p.Options[e.program], has) {
			return
		}
		v := pick(drawing(p.Seed, e.program+" --"+e.Name), e.drawn())
		p.Options[e.program] = append(p.Options[e.program], Setting{e.Name, v})
	}
	r := drawing(p.Seed, "options")
	for range []int{0, 1, 2, 2, 4, 8}[r.IntN(6)] {
		draw(all[r.IntN(len(all))])
	}
}
