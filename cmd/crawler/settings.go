package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/gather"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/command"
)

// settings are the options of "crawler crawl" and "crawler run", which
// "crawler config" explains.
type settings struct {
	into, contact, agent   string
	store, coding, answers string
	maxWARC                command.Size
	noLinks, noParse, text bool
	noManifests            bool
	noSitemaps, noFeeds    bool
	noStreams              bool
	as                     string

	domains, accept, reject, sessionIDs command.Strings
	hosts                               []string // crawled beside domains; not an option
	staticExt, dynamicExt, logExt       command.Strings
	rejectWords                         command.Strings
	maxPages, maxSites, perSite         int
	depthStatic, depthDynamic           int
	www                                 bool

	strategy, policy, score string
	budget, objective       string
	costs, changed, polls   string
	frugal                  bool
	toldBudget              float64
	replan                  command.Duration
	batches                 string
	batch, sameSite         int
	minPeriod, maxPeriod    command.Duration
	minRefused              command.Duration
	threshold               float64

	resolver                       string
	blocked                        command.Strings
	private                        bool
	perAddress                     string
	maxRate                        float64
	inFlight, minInFlight, perConn int
	connect, wait, waitBig         command.Duration
	maxFile                        command.Size
	ranges                         bool
	minSpeed                       int
	retry, dnsRetry                command.Duration
	refusedAgain, sourceAgain      command.Duration
	robotsEvery, patience, hurry   command.Duration
	manifestEvery, sitemapEvery    command.Duration
	feedEvery                      command.Duration
	indexnow, admin                string
	stopValue, trapShare           float64
	stopPages                      int
	stopBytes                      command.Size
	stopAfter                      command.Duration
}

// crawlGroups are the settings that most crawls need.
func crawlGroups() []command.Group {
	return []command.Group{
		{Title: "What is kept, and who asks", Options: []string{"into", "store", "contact"}},
		{Title: "What is crawled", Options: []string{"domain", "max-pages", "per-site", "max-depth"}},
		{Title: "How it is asked", Options: []string{"wait", "in-flight", "budget", "allow-private"}},
		{Title: "Beside it", Options: []string{"admin"}},
	}
}

// common are the names of those settings.
func common() (names []string) {
	for _, g := range crawlGroups() {
		names = append(names, g.Options...)
	}
	return names
}

func newSettings() *settings {
	s := &settings{
		wait: command.Duration(harvest.DefaultWait), waitBig: command.Duration(harvest.DefaultWaitBig),
		connect: command.Duration(harvest.DefaultConnect), maxFile: harvest.DefaultMaxBytes, maxWARC: 1 << 30,
		maxPeriod: command.Duration(90 * 24 * time.Hour), minRefused: command.Duration(7 * 24 * time.Hour),
		retry: command.Duration(12 * time.Hour), dnsRetry: command.Duration(7 * 24 * time.Hour),
		refusedAgain: command.Duration(7 * 24 * time.Hour), sourceAgain: command.Duration(7 * 24 * time.Hour),
		robotsEvery: command.Duration(24 * time.Hour), patience: command.Duration(time.Minute),
		manifestEvery: command.Duration(10 * time.Minute), sitemapEvery: command.Duration(24 * time.Hour), feedEvery: command.Duration(time.Hour),
	}
	s.define(flag.NewFlagSet("", flag.ContinueOnError)) // which sets the other defaults
	return s
}

func (s *settings) define(fs *flag.FlagSet) {
	fs.StringVar(&s.into, "into", "", "keep the collection in `DIR`")
	fs.StringVar(&s.contact, "contact", "", "`MAIL or URL` that reaches you, sent with every request; required for sites that are not this machine's")
	fs.StringVar(&s.agent, "agent", "Parley/0.1", "how to be called: `NAME/VERSION`, the name being what robots.txt knows")
	fs.StringVar(&s.store, "store", "warc", "keep contents as `FORM`: warc, mirror, both or none")
	fs.StringVar(&s.coding, "coding", "gzip", "compress WARC records with `CODING`: none, gzip or zstd")
	fs.StringVar(&s.answers, "answers", "usual", "archive `WHICH` answers beside pages: usual (redirects, 404, 410), all or none")
	fs.Var(&s.maxWARC, "max-warc", "begin another WARC file after `SIZE`")
	fs.BoolVar(&s.noLinks, "no-links", false, "do not keep which page leads to which")
	fs.BoolVar(&s.noParse, "no-parse", false, "do not read pages for links: sites are known by what they tell")
	fs.BoolVar(&s.text, "text-digest", false, "digest the main text too, so that events can say whether it changed")
	fs.BoolVar(&s.noManifests, "no-manifests", false, "do not look for robots.rdf")
	fs.BoolVar(&s.noSitemaps, "no-sitemaps", false, "do not look for sitemaps")
	fs.BoolVar(&s.noFeeds, "no-feeds", false, "do not read feeds")
	fs.BoolVar(&s.noStreams, "no-streams", false, "do not be told over WebSocket")
	fs.StringVar(&s.as, "as", "auto", "have sites tell of themselves in `FORM`, where they offer it: auto, meta, delta, page, batch or site; auto is meta with --policy priced, which decides by price what to ask for")

	fs.Var(&s.domains, "domain", "crawl only hosts that end in `SUFFIX`, at a dot; may be repeated (none: the hosts of the start pages)")
	fs.Var(&s.accept, "accept", "admit only URLs that match `PATTERN`; may be repeated")
	fs.Var(&s.reject, "reject", "admit no URL that matches `PATTERN`; may be repeated")
	fs.Var(&s.rejectWords, "reject-word", "admit no URL that is for `WORD`, such as login; may be repeated, and replaces the list that is built in")
	fs.Var(&s.sessionIDs, "session-id", "parameter that ends in `NAME` names a session, not a page; may be repeated, and replaces the list that is built in")
	fs.Var(&s.staticExt, "static-ext", "`EXTENSION` of pages that are files; may be repeated (none: all that are in no other list)")
	fs.Var(&s.dynamicExt, "dynamic-ext", "`EXTENSION` of pages that a program makes; may be repeated, and replaces the list that is built in")
	fs.Var(&s.logExt, "log-ext", "`EXTENSION` of what is noted and not fetched, such as zip; may be repeated, and replaces the list that is built in (none: fetch all)")
	fs.IntVar(&s.maxPages, "max-pages", 10_000_000, "know at most `N` pages")
	fs.IntVar(&s.maxSites, "max-sites", 100_000, "know at most `N` sites")
	fs.IntVar(&s.perSite, "per-site", 25_000, "know at most `N` pages of a site")
	fs.IntVar(&s.depthStatic, "max-depth", 15, "go at most `N` links deep")
	fs.IntVar(&s.depthDynamic, "max-depth-dynamic", 5, "of pages that a program makes, at most `N`")
	fs.Float64Var(&s.trapShare, "trap-share", 0.1, "let pages that lead to more of their kind and to nothing new, such as combinations of facets, be at most the share `X` of the requests to a site (0: none once that is known; 1: any number)")
	fs.BoolVar(&s.www, "same-www", true, "take www.example.org and example.org for one site")

	fs.StringVar(&s.strategy, "strategy", "profit", "`ORDER` of the crawl: breadth-first, larger-sites-first, opic, manifest-first, profit or random")
	fs.StringVar(&s.policy, "policy", "priced", "`POLICY` of revisits: priced, or thesis, or thesis:PURPOSE for research, focused, archive, news or mirror")
	fs.StringVar(&s.budget, "budget", "0.1/page", "priced: visit pages again for `N` requests a day (with --costs bytes, units of 20 kB), or N/page for each that is held")
	fs.BoolVar(&s.frugal, "frugal", false, "priced: count visits of pages that a site tells of against the budget, too: those that are not worth their price wait (without it they are made at once, beside the budget)")
	fs.Float64Var(&s.toldBudget, "told-budget", 1, "priced, without --frugal: visits of pages that a site tells of cost at most `X` times the --budget, beside it; of more, those are made that are worth most (-1: any number)")
	fs.StringVar(&s.objective, "objective", "", "priced: what an outdated copy costs, by `WEIGHTS` of fresh, harmonic and age, such as fresh=1 (none: harmonic=1)")
	fs.StringVar(&s.costs, "costs", "requests", "priced: what the budget counts, `UNIT`: requests, or bytes in units of 20 kB")
	fs.StringVar(&s.changed, "changed", "bytes", "a page has changed when its `PART` has: bytes, or text, which needs --text-digest")
	fs.StringVar(&s.polls, "polls", "ahead", "when to ask sitemaps and feeds again, by `RULE`: ahead, by what is expected there; index, minimum-delay, posting-rate, training, advarss, round-robin; or fixed, by --sitemap-every and --feed-every")
	fs.Var(&s.replan, "replan", "find the price of a visit anew every `TIME` (0: an hour), or more seldom where there are many pages")
	fs.StringVar(&s.score, "score", "", "`WEIGHTS` of a page's quality: depth=1,static=1,queue=0,access=1,pagerank=0")
	fs.IntVar(&s.batch, "batch", 100_000, "choose `N` pages at a time")
	fs.StringVar(&s.batches, "batches", "", "keep each batch that is chosen as a file in `DIR`: lines of JSON, with all that a harvester needs")
	fs.IntVar(&s.sameSite, "same-site", 500, "of them at most `N` of one site")
	fs.Var(&s.minPeriod, "min-period", "visit a page again after `TIME` at the earliest, unless its site says that it changed (0: a minute, and with --policy thesis a day, or --max-period if that is less)")
	fs.Var(&s.maxPeriod, "max-period", "visit a page again after `TIME` at the latest, though it was never seen to change; later where that would take a tenth of the budget, and no sooner than --min-period")
	fs.Var(&s.minRefused, "min-period-refused", "a page that gave no content, after `TIME`")
	fs.Float64Var(&s.threshold, "threshold", 0.1, "thesis: visit again where the profit is at least `X`, between 0 and 1")

	fs.StringVar(&s.resolver, "resolver", "", "`ADDRESS` of a name server (none: the system's)")
	fs.Var(&s.blocked, "blocked-ip", "never ask `ADDRESS or PREFIX`; may be repeated")
	fs.BoolVar(&s.private, "allow-private", false, "ask addresses that are not of the public Internet too")
	fs.StringVar(&s.perAddress, "per-address", "", "ask an address, whatever number of names it has, at most `RATE` times a second and by N connections, as in 5/s or 5/s,8 (none: 2/s,4); --wait 0 has no such limit")
	fs.Float64Var(&s.maxRate, "max-rate", harvest.DefaultMaxRate, "ask a site that says how often it wishes to be asked at most `N` times a second (0: as all others)")
	fs.IntVar(&s.inFlight, "in-flight", harvest.DefaultSites, "ask `N` sites at once")
	fs.IntVar(&s.minInFlight, "min-in-flight", harvest.DefaultMinSites, "end a cycle when fewer than `N` sites are left of it")
	fs.IntVar(&s.perConn, "per-connection", harvest.DefaultPerConn, "ask `N` pages over one connection")
	fs.Var(&s.connect, "connect-timeout", "give up connecting after `TIME`")
	fs.Var(&s.wait, "wait", "leave a site in peace for `TIME` after each request")
	fs.Var(&s.waitBig, "wait-big", "a site of more than 100 pages, for `TIME`")
	fs.Var(&s.maxFile, "max-file", "read at most `SIZE` of a page")
	fs.BoolVar(&s.ranges, "range", false, "ask servers to send no more of a page than --max-file: nothing is sent compressed then")
	fs.IntVar(&s.minSpeed, "min-speed", harvest.DefaultMinSpeed, "give up a page that comes at less than `N` bytes a second")
	fs.Var(&s.retry, "retry", "ask again for a page that is down after `TIME`")
	fs.Var(&s.dnsRetry, "dns-retry", "ask again for a page whose host has no address after `TIME`")
	fs.Var(&s.refusedAgain, "refused-again", "ask again for a page that is refused, or led elsewhere, after `TIME`; for one that is gone, after four times that")
	fs.Var(&s.sourceAgain, "source-again", "ask again for a manifest, sitemap or feed that was not there after `TIME`")
	fs.Var(&s.robotsEvery, "robots-every", "ask for robots.txt again after `TIME`")
	fs.Var(&s.patience, "patience", "of a crawl that ends: wait `TIME` at most for pages that are to be asked again")
	fs.Var(&s.hurry, "hurry", "wait for nothing longer than `TIME` by rules of our own, such as until what failed is tried again; politeness is none of them (0: no limit; for tests)")
	fs.Var(&s.manifestEvery, "manifest-every", "look at a manifest every `TIME` where a site has no other door; with --policy priced at most that often")
	fs.Var(&s.sitemapEvery, "sitemap-every", "look at a sitemap every `TIME`, with --polls fixed and until its rhythm is known")
	fs.Var(&s.feedEvery, "feed-every", "look at a feed every `TIME`, with --polls fixed and until its rhythm is known")
	fs.StringVar(&s.indexnow, "indexnow-listen", "", "take notices of the IndexNow protocol on `ADDRESS`")
	fs.StringVar(&s.admin, "admin", "", "serve metrics and health on `ADDRESS`")
	fs.Float64Var(&s.stopValue, "stop-value", 0, "ask for nothing that gains less than `X`, between 0 and 1")
	fs.IntVar(&s.stopPages, "stop-pages", 0, "end after `N` pages")
	fs.Var(&s.stopBytes, "stop-bytes", "end after `SIZE` of bodies")
	fs.Var(&s.stopAfter, "stop-after", "end after `TIME`")
}

// listed is a list for seed.Rules, where nil means what is built in; "none" is
// an empty list.
func listed(s command.Strings) []string {
	switch {
	case len(s) == 0:
		return nil
	case len(s) == 1 && s[0] == "none":
		return []string{}
	}
	return s
}

// strategyNamed returns an order of the crawl.
func strategyNamed(name string) (frontier.Strategy, error) {
	for _, s := range []frontier.Strategy{frontier.BreadthFirst{}, frontier.LargerSites{}, frontier.OPIC{}, frontier.ManifestFirst{}, frontier.Profit{}, frontier.Random(1)} {
		if s.Name() == name {
			return s, nil
		}
	}
	return nil, command.Misusef("--strategy %s: want breadth-first, larger-sites-first, opic, manifest-first, profit or random", name)
}

// open opens the collection as the settings say.
func (s *settings) open(log *slog.Logger) (*collection.Collection, error) {
	o, err := s.collection()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(statePath(stateIn(s.into))); err == nil {
		return nil, command.Misusef("%s is a copy that \"crawler follow\" keeps: crawl into another directory", s.into)
	}
	o.Wait = 5 * time.Second // for a command that is just reading it
	return collection.Open(s.into, o)
}

func (s *settings) collection() (*collection.Options, error) {
	strategy, err := strategyNamed(s.strategy)
	if err != nil {
		return nil, err
	}
	policy, err := s.revisits()
	if err != nil {
		return nil, err
	}
	switch {
	case s.changed != "bytes" && s.changed != "text":
		return nil, command.Misusef("--changed %s: want bytes or text", s.changed)
	case s.changed == "text" && !s.text:
		return nil, command.Misusef("--changed text: add --text-digest, by which a change of the text is known")
	}
	quality, err := crawl.ParseQuality(s.score)
	if err != nil {
		return nil, command.Misusef("--score: %v", err)
	}
	o := &collection.Options{NoLinks: s.noLinks, MaxWARC: int64(s.maxWARC), Strategy: strategy, Quality: quality.Of,
		Policy: policy, TextOnly: s.changed == "text",
		MaxPages: s.maxPages, MaxSites: s.maxSites, PerSite: s.perSite,
		Again: collection.Again{Failing: []time.Duration{time.Minute, 10 * time.Minute, time.Hour, time.Duration(s.retry), time.Duration(s.retry), time.Duration(s.retry), time.Duration(s.retry)}, Lost: time.Duration(s.dnsRetry),
			Refused: time.Duration(s.refusedAgain), Moved: time.Duration(s.refusedAgain), Gone: 4 * time.Duration(s.refusedAgain)}}
	s.hurried(o)
	switch s.store {
	case "warc":
		o.Contents = collection.WARC
	case "mirror":
		o.Contents = collection.Mirror
	case "both":
		o.Contents = collection.WARC | collection.Mirror
	case "none":
	default:
		return nil, command.Misusef("--store %s: want warc, mirror, both or none", s.store)
	}
	switch s.coding {
	case "none":
	case "gzip", "zstd":
		o.Coding = s.coding
	default:
		return nil, command.Misusef("--coding %s: want none, gzip or zstd", s.coding)
	}
	switch s.answers {
	case "usual":
	case "all":
		o.Answers = collection.AllAnswers
	case "none":
		o.Answers = collection.NoAnswers
	default:
		return nil, command.Misusef("--answers %s: want usual, all or none", s.answers)
	}
	return o, nil
}

// hurried bounds the waits after a failure that no option names.
func (s *settings) hurried(o *collection.Options) {
	if o.Hurry = time.Duration(s.hurry); o.Hurry > 0 {
		for i, d := range o.Again.Failing[:3] {
			o.Again.Failing[i] = min(d, o.Hurry)
		}
		o.Again.Missing, o.Again.Missed = o.Hurry, []time.Duration{o.Hurry, o.Hurry, o.Hurry}
	}
}

// rules are what the Seeder admits.
func (s *settings) rules() seed.Rules {
	return seed.Rules{DomainSuffixes: s.domains, Hosts: s.hosts, Accept: s.accept, Reject: s.reject, RejectWords: listed(s.rejectWords),
		SessionIDs: listed(s.sessionIDs), StaticExt: listed(s.staticExt), DynamicExt: listed(s.dynamicExt), LogExt: listed(s.logExt),
		MaxDepthStatic: s.depthStatic, MaxDepthDynamic: s.depthDynamic, MaxPerSite: s.perSite, SplitWWW: !s.www}
}

// traps is --trap-share as a Crawler takes it, where 0 means the default.
func (s *settings) traps() float64 {
	if s.trapShare == 0 {
		return -1
	}
	return s.trapShare
}

// least is how seldom strangers are asked at most, whatever the options say.
const least = time.Second

// polite refuses to ask any of these hosts more often than that, unless it is
// certainly no stranger's.
func (s *settings) polite(hosts []string) error {
	name, wait := "wait", s.wait
	if s.waitBig < wait {
		name, wait = "wait-big", s.waitBig
	}
	if time.Duration(wait) >= least {
		return nil
	}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); !thisMachine(host) && (err != nil || !ip.IsPrivate()) {
			return command.Misusef("--%s %s: %s may be a stranger's, to be left in peace for %s at least", name, &wait, host, least)
		}
	}
	if !s.private {
		return command.Misusef("--%s %s: add --allow-private, for machines of your own", name, &wait)
	}
	return nil
}

// thisMachine reports whether a host is certainly this machine: names below
// localhost are its own, too (RFC 6761).
func thisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") || err == nil && ip.IsLoopback()
}

// check refuses numbers that mean nothing.
func (s *settings) check() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"batch", s.batch}, {"same-site", s.sameSite}, {"in-flight", s.inFlight}, {"per-connection", s.perConn}, {"max-pages", s.maxPages},
		{"max-sites", s.maxSites}, {"per-site", s.perSite}, {"max-depth", s.depthStatic}, {"max-depth-dynamic", s.depthDynamic}} {
		if n.value < 1 {
			return command.Misusef("--%s %d: want 1 or more", n.name, n.value)
		}
	}
	if !(s.trapShare >= 0 && s.trapShare <= 1) {
		return command.Misusef("--trap-share %g: want a share between 0 and 1", s.trapShare)
	}
	if s.threshold <= 0 || s.threshold >= 1 {
		return command.Misusef("--threshold %g: want a number between 0 and 1", s.threshold)
	}
	if s.strategy == "opic" && (s.noLinks || s.noParse) {
		return command.Misusef("--strategy opic: it needs the links of pages, without --no-links and --no-parse")
	}
	return nil
}

// public refuses hosts that would not be asked: it is better said at once.
func (s *settings) public(hosts []string) error {
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); !s.private && (thisMachine(host) || err == nil && (ip.IsPrivate() || ip.IsLinkLocalUnicast())) {
			return command.Misusef("%s is not of the public Internet: add --allow-private, for machines of your own", host)
		}
	}
	return nil
}

// known refuses to crawl strangers without a word of who we are.
func (s *settings) known(hosts []string) error {
	for _, host := range hosts {
		if s.contact == "" && !thisMachine(host) {
			return command.Misusef("%s is not this machine: add --contact MAIL or URL, so that its people can reach you", host)
		}
	}
	return nil
}

// harvester asks as the settings say.
func (s *settings) harvester(log *slog.Logger) (*harvest.Harvester, error) {
	h := &harvest.Harvester{Agent: s.userAgent(), From: s.from(), Wait: time.Duration(s.wait), WaitBig: time.Duration(s.waitBig),
		Sites: s.inFlight, MinSites: s.minInFlight, PerConn: s.perConn, ConnectTimeout: time.Duration(s.connect),
		Hurry: time.Duration(s.hurry), MinSpeed: s.minSpeed, MaxBytes: int64(s.maxFile), Range: s.ranges, Private: s.private, Overbook: true, Log: log}
	if h.Wait == 0 {
		h.Wait, h.Slow = -1, -1
	}
	if h.MaxRate = s.maxRate; h.MaxRate <= 0 {
		h.MaxRate = -1
	}
	var err error
	if h.AddressRate, h.AddressConns, err = addressRate(s.perAddress); err != nil {
		return nil, err
	}
	if h.WaitBig == 0 { // where zero would be the default
		h.WaitBig = time.Nanosecond
	}
	if h.MinSpeed == 0 {
		h.MinSpeed = -1
	}
	for _, b := range s.blocked {
		p, err := netip.ParsePrefix(b)
		if err != nil {
			a, err := netip.ParseAddr(b)
			if err != nil {
				return nil, command.Misusef("--blocked-ip %s: want an address such as 192.0.2.1 or a prefix such as 192.0.2.0/24", b)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		h.Blocked = append(h.Blocked, p)
	}
	if s.resolver != "" {
		h.Resolver = resolverAt(s.resolver)
	}
	return h, nil
}

// addressRate reads --per-address: requests a second, and connections.
func addressRate(v string) (rate float64, conns int, err error) {
	if v == "" {
		return 0, 0, nil
	}
	r, n, both := strings.Cut(v, ",")
	rate, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(r), "/s"), 64)
	if err == nil && both {
		conns, err = strconv.Atoi(strings.TrimSpace(n))
	}
	if err != nil || !(rate >= 0.0001 && rate <= 1000) || both && (conns < 1 || conns > 1000) {
		return 0, 0, command.Misusef("--per-address %s: want requests a second and perhaps connections, such as 5/s or 0.5/s,2", v)
	}
	return rate, conns, nil
}

// userAgent is how we are called, with how to reach us.
func (s *settings) userAgent() string {
	if s.contact == "" {
		return s.agent
	}
	return s.agent + " (+" + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '(' || r == ')' {
			return -1
		}
		return r
	}, s.contact) + ")"
}

func (s *settings) from() string {
	if strings.Contains(s.contact, "@") && !strings.Contains(s.contact, "://") {
		return s.contact
	}
	return ""
}

// token is the name that robots.txt knows us by.
func (s *settings) token() string {
	name, _, _ := strings.Cut(s.agent, "/")
	return strings.ToLower(name)
}

// crawler is the engine as the settings say.
func (s *settings) crawler(col *collection.Collection, log *slog.Logger) (*crawl.Crawler, error) {
	h, err := s.harvester(log)
	if err != nil {
		return nil, err
	}
	strategy, err := strategyNamed(s.strategy)
	if err != nil {
		return nil, err
	}
	quality, err := crawl.ParseQuality(s.score)
	if err != nil {
		return nil, err
	}
	policy, err := s.revisits()
	if err != nil {
		return nil, err
	}
	revisit, err := s.revisit()
	if err != nil {
		return nil, err
	}
	polls, err := s.rhythm()
	if err != nil {
		return nil, err
	}
	as, err := formNamed(s.as)
	if err != nil {
		return nil, err
	}
	return &crawl.Crawler{Collection: col, Harvester: h, Seeder: &seed.Seeder{Rules: s.rules(), Agent: s.token()}, Policy: policy, Revisit: revisit, Polls: polls, As: as, Quality: quality, Gatherer: gather.Gatherer{Agent: s.token(), Text: s.text},
		Strategy: strategy, Batch: frontier.BatchOptions{Size: s.batch, SameSite: s.sameSite}, Batches: s.batches,
		NoParse: s.noParse, NoManifests: s.noManifests, NoSitemaps: s.noSitemaps, NoFeeds: s.noFeeds, NoStreams: s.noStreams,
		ManifestEvery: time.Duration(s.manifestEvery), SitemapEvery: time.Duration(s.sitemapEvery), FeedEvery: time.Duration(s.feedEvery),
		RobotsEvery: time.Duration(s.robotsEvery), SourceAgain: time.Duration(s.sourceAgain), Patience: time.Duration(s.patience), Hurry: time.Duration(s.hurry),
		TrapShare: s.traps(),
		Stop:      crawl.Stop{Pages: s.stopPages, Value: float32(s.stopValue), Bytes: int64(s.stopBytes), After: time.Duration(s.stopAfter)}, Log: log}, nil
}

// readSites reads a file of start URLs: one a line, "#" begins a comment.
func readSites(name string) (list []string, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if f := strings.Fields(line); len(f) > 0 {
			list = append(list, f[0])
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no site", name)
	}
	return list, nil
}
