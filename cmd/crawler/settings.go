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

// crawlGroups returns the settings that -h shows.
func crawlGroups() []command.Group {
	return []command.Group{
		{Title: "Collection and contact", Options: []string{"into", "store", "contact"}},
		{Title: "Scope", Options: []string{"domain", "max-pages", "per-site", "max-depth"}},
		{Title: "Rate", Options: []string{"wait", "in-flight", "budget", "allow-private"}},
		{Title: "Operation", Options: []string{"admin"}},
	}
}

// common returns the names of those settings.
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
	s.define(flag.NewFlagSet("", flag.ContinueOnError)) // sets the other defaults
	return s
}

func (s *settings) define(fs *flag.FlagSet) {
	fs.StringVar(&s.into, "into", "", "store the collection in `DIR`")
	fs.StringVar(&s.contact, "contact", "", "`MAIL or URL` at which people reach you, sent with every request; required unless all sites are on this machine")
	fs.StringVar(&s.agent, "agent", "Parley/0.1", "the crawler's `NAME/VERSION` for User-Agent; NAME is matched in robots.txt")
	fs.StringVar(&s.store, "store", "warc", "store contents as `FORM`: warc, mirror, both or none")
	fs.StringVar(&s.coding, "coding", "gzip", "compress WARC records with `CODING`: none, gzip or zstd")
	fs.StringVar(&s.answers, "answers", "usual", "archive `WHICH` responses besides pages: usual (redirects, 404, 410), all or none")
	fs.Var(&s.maxWARC, "max-warc", "begin a new WARC file after `SIZE`")
	fs.BoolVar(&s.noLinks, "no-links", false, "do not store the links between pages")
	fs.BoolVar(&s.noParse, "no-parse", false, "do not parse pages for links; URLs come only from manifests, sitemaps, feeds and notices")
	fs.BoolVar(&s.text, "text-digest", false, "also digest the main text, so that events can say whether it changed")
	fs.BoolVar(&s.noManifests, "no-manifests", false, "do not fetch robots.rdf")
	fs.BoolVar(&s.noSitemaps, "no-sitemaps", false, "do not fetch sitemaps")
	fs.BoolVar(&s.noFeeds, "no-feeds", false, "do not fetch feeds")
	fs.BoolVar(&s.noStreams, "no-streams", false, "do not subscribe over WebSocket")
	fs.StringVar(&s.as, "as", "auto", "subscribe in `FORM` where a site offers it: auto, meta, delta, page, batch or site; with --policy priced auto is meta, because the price decides what to fetch")

	fs.Var(&s.domains, "domain", "crawl only hosts equal to or below `SUFFIX` (repeatable; default: the hosts of the start pages)")
	fs.Var(&s.accept, "accept", "crawl only URLs that match `PATTERN` (repeatable)")
	fs.Var(&s.reject, "reject", "do not crawl URLs that match `PATTERN` (repeatable)")
	fs.Var(&s.rejectWords, "reject-word", "do not crawl URLs whose purpose is `WORD`, such as login (repeatable; replaces the built-in list)")
	fs.Var(&s.sessionIDs, "session-id", "remove URL parameters whose name ends in `NAME` as session ids (repeatable; replaces the built-in list)")
	fs.Var(&s.staticExt, "static-ext", "`EXTENSION` of static pages (repeatable; default: all that are in no other list)")
	fs.Var(&s.dynamicExt, "dynamic-ext", "`EXTENSION` of pages generated by a program (repeatable; replaces the built-in list)")
	fs.Var(&s.logExt, "log-ext", "`EXTENSION` of links to record but not fetch, such as zip (repeatable; replaces the built-in list; none to fetch all)")
	fs.IntVar(&s.maxPages, "max-pages", 10_000_000, "store at most `N` URLs")
	fs.IntVar(&s.maxSites, "max-sites", 100_000, "store at most `N` sites")
	fs.IntVar(&s.perSite, "per-site", 25_000, "store at most `N` URLs of a site")
	fs.IntVar(&s.depthStatic, "max-depth", 15, "follow at most `N` links from a start page")
	fs.IntVar(&s.depthDynamic, "max-depth-dynamic", 5, "follow at most `N` links to pages generated by a program")
	fs.Float64Var(&s.trapShare, "trap-share", 0.1, "limit pages of a kind that leads only to more of that kind, such as combinations of facets, to the share `X` of the requests to a site (0: fetch none; 1: no limit)")
	fs.BoolVar(&s.www, "same-www", true, "treat www.example.org and example.org as one site")

	fs.StringVar(&s.strategy, "strategy", "profit", "`ORDER` of the crawl: breadth-first, larger-sites-first, opic, manifest-first, profit or random")
	fs.StringVar(&s.policy, "policy", "priced", "`POLICY` of revisits: priced, thesis, or thesis:PURPOSE, with PURPOSE research, focused, archive, news or mirror")
	fs.StringVar(&s.budget, "budget", "0.1/page", "priced: make `N` requests a day for revisits (with --costs bytes, units of 20 kB), or N/page for each stored page")
	fs.BoolVar(&s.frugal, "frugal", false, "priced: count fetches of announced changes against the budget too, and delay those that are not worth their price (default: fetch them at once, beside the budget)")
	fs.Float64Var(&s.toldBudget, "told-budget", 1, "priced, without --frugal: spend at most `X` times the --budget on announced changes, in addition to it; if there are more, fetch the most valuable ones (-1: no limit)")
	fs.StringVar(&s.objective, "objective", "", "priced: define the cost of an outdated copy by `WEIGHTS` of fresh, harmonic and age, such as fresh=1 (default: harmonic=1)")
	fs.StringVar(&s.costs, "costs", "requests", "priced: `UNIT` of the budget: requests, or bytes in units of 20 kB")
	fs.StringVar(&s.changed, "changed", "bytes", "count a page as changed when this `PART` changed: bytes, or text, which needs --text-digest")
	fs.StringVar(&s.polls, "polls", "ahead", "`RULE` for polling sitemaps and feeds: ahead, by the changes expected; index, minimum-delay, posting-rate, training, advarss, round-robin; or fixed, by --sitemap-every and --feed-every")
	fs.Var(&s.replan, "replan", "recompute the price of a visit every `TIME` (0: an hour), less often if there are many pages")
	fs.StringVar(&s.score, "score", "", "`WEIGHTS` of a page's quality: depth=1,static=1,queue=0,access=1,pagerank=0")
	fs.IntVar(&s.batch, "batch", 100_000, "select `N` pages at a time")
	fs.StringVar(&s.batches, "batches", "", "write each selected batch to a file in `DIR`: lines of JSON, with all that a harvester needs")
	fs.IntVar(&s.sameSite, "same-site", 500, "select at most `N` pages of one site in a batch")
	fs.Var(&s.minPeriod, "min-period", "wait at least `TIME` before revisiting a page, unless its site announces a change (0: a minute, and with --policy thesis a day, or --max-period if that is less)")
	fs.Var(&s.maxPeriod, "max-period", "revisit a page after `TIME` even if it never changed; later if that would take more than a fiftieth of the budget, and never before --min-period")
	fs.Var(&s.minRefused, "min-period-refused", "wait at least `TIME` before revisiting a page that had no content")
	fs.Float64Var(&s.threshold, "threshold", 0.1, "thesis: revisit a page when the profit is at least `X`, between 0 and 1")

	fs.StringVar(&s.resolver, "resolver", "", "`ADDRESS` of a name server (default: that of the system)")
	fs.Var(&s.blocked, "blocked-ip", "never connect to `ADDRESS or PREFIX` (repeatable)")
	fs.BoolVar(&s.private, "allow-private", false, "also connect to addresses outside the public Internet")
	fs.StringVar(&s.perAddress, "per-address", "", "send at most `RATE` requests a second to one IP address, over at most N connections, however many hosts it serves, as in 5/s or 5/s,8 (default: 2/s,4); not applied with --wait 0")
	fs.Float64Var(&s.maxRate, "max-rate", harvest.DefaultMaxRate, "send at most `N` requests a second to a site that states its own rate (0: ignore stated rates)")
	fs.IntVar(&s.inFlight, "in-flight", harvest.DefaultSites, "crawl `N` sites in parallel")
	fs.IntVar(&s.minInFlight, "min-in-flight", harvest.DefaultMinSites, "end a cycle when fewer than `N` of its sites are left")
	fs.IntVar(&s.perConn, "per-connection", harvest.DefaultPerConn, "send `N` requests over one connection")
	fs.Var(&s.connect, "connect-timeout", "give up connecting after `TIME`")
	fs.Var(&s.wait, "wait", "wait `TIME` after each request before the next one to the same site")
	fs.Var(&s.waitBig, "wait-big", "wait `TIME` after each request to a site with more than 100 pages, instead of --wait")
	fs.Var(&s.maxFile, "max-file", "read at most `SIZE` of a page")
	fs.BoolVar(&s.ranges, "range", false, "request only the first --max-file bytes of a page; responses are then uncompressed")
	fs.IntVar(&s.minSpeed, "min-speed", harvest.DefaultMinSpeed, "abort a response that arrives at less than `N` bytes a second")
	fs.Var(&s.retry, "retry", "retry a page that is down after `TIME`")
	fs.Var(&s.dnsRetry, "dns-retry", "retry a page whose host has no address after `TIME`")
	fs.Var(&s.refusedAgain, "refused-again", "retry a page that was refused or redirected elsewhere after `TIME`, and one that is gone after four times that")
	fs.Var(&s.sourceAgain, "source-again", "retry a manifest, sitemap or feed that was missing after `TIME`")
	fs.Var(&s.robotsEvery, "robots-every", "fetch robots.txt again after `TIME`")
	fs.Var(&s.patience, "patience", "at the end of a crawl, wait at most `TIME` for pages that are due for a retry")
	fs.Var(&s.hurry, "hurry", "cap our own waiting times, such as before retries, at `TIME`; politeness is not affected (0: no cap; for tests)")
	fs.Var(&s.manifestEvery, "manifest-every", "fetch a manifest every `TIME` if a site offers neither push nor polling for changes; with --policy priced at most that often")
	fs.Var(&s.sitemapEvery, "sitemap-every", "fetch a sitemap every `TIME`, with --polls fixed and until its pattern of changes is known")
	fs.Var(&s.feedEvery, "feed-every", "fetch a feed every `TIME`, with --polls fixed and until its pattern of changes is known")
	fs.StringVar(&s.indexnow, "indexnow-listen", "", "accept IndexNow notices on `ADDRESS`")
	fs.StringVar(&s.admin, "admin", "", "serve metrics and health on `ADDRESS`")
	fs.Float64Var(&s.stopValue, "stop-value", 0, "thesis: do not fetch unannounced pages whose profit is less than `X`, between 0 and 1 (0: no limit)")
	fs.IntVar(&s.stopPages, "stop-pages", 0, "stop after `N` pages")
	fs.Var(&s.stopBytes, "stop-bytes", "stop after `SIZE` of response bodies")
	fs.Var(&s.stopAfter, "stop-after", "stop after `TIME`")
}

// listed returns a list for seed.Rules, where nil means the built-in list; "none" becomes an empty list.
func listed(s command.Strings) []string {
	switch {
	case len(s) == 0:
		return nil
	case len(s) == 1 && s[0] == "none":
		return []string{}
	}
	return s
}

// strategyNamed returns the crawl order of that name.
func strategyNamed(name string) (frontier.Strategy, error) {
	for _, s := range []frontier.Strategy{frontier.BreadthFirst{}, frontier.LargerSites{}, frontier.OPIC{}, frontier.ManifestFirst{}, frontier.Profit{}, frontier.Random(1)} {
		if s.Name() == name {
			return s, nil
		}
	}
	return nil, command.Misusef("--strategy %s: want breadth-first, larger-sites-first, opic, manifest-first, profit or random", name)
}

// open opens the collection as configured.
func (s *settings) open(log *slog.Logger) (*collection.Collection, error) {
	o, err := s.collection()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(statePath(stateIn(s.into))); err == nil {
		return nil, command.Misusef("%s is a copy made by \"crawler follow\": crawl into another directory", s.into)
	}
	o.Wait = 5 * time.Second // another command may just be reading it
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
		return nil, command.Misusef("--changed text: add --text-digest, which detects changes of the text")
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
	s.capRetryWaits(o)
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

// capRetryWaits caps the waits after a failure that have no option of their own.
func (s *settings) capRetryWaits(o *collection.Options) {
	if o.Hurry = time.Duration(s.hurry); o.Hurry > 0 {
		for i, d := range o.Again.Failing[:3] {
			o.Again.Failing[i] = min(d, o.Hurry)
		}
		o.Again.Missing, o.Again.Missed = o.Hurry, []time.Duration{o.Hurry, o.Hurry, o.Hurry}
	}
}

// rules returns the rules by which the Seeder admits URLs.
func (s *settings) rules() seed.Rules {
	return seed.Rules{DomainSuffixes: s.domains, Hosts: s.hosts, Accept: s.accept, Reject: s.reject, RejectWords: listed(s.rejectWords),
		SessionIDs: listed(s.sessionIDs), StaticExt: listed(s.staticExt), DynamicExt: listed(s.dynamicExt), LogExt: listed(s.logExt),
		MaxDepthStatic: s.depthStatic, MaxDepthDynamic: s.depthDynamic, MaxPerSite: s.perSite, SplitWWW: !s.www}
}

// traps returns --trap-share for a Crawler, where 0 means the default and -1 none.
func (s *settings) traps() float64 {
	if s.trapShare == 0 {
		return -1
	}
	return s.trapShare
}

// least is the shortest allowed wait between two requests to somebody else's host.
const least = time.Second

// checkWaits returns an error if --wait or --wait-big is shorter than least and one of the hosts may belong to
// somebody else.
func (s *settings) checkWaits(hosts []string) error {
	name, wait := "wait", s.wait
	if s.waitBig < wait {
		name, wait = "wait-big", s.waitBig
	}
	if time.Duration(wait) >= least {
		return nil
	}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); !thisMachine(host) && (err != nil || !ip.IsPrivate()) {
			return command.Misusef("--%s %s: %s may belong to somebody else: wait at least %s", name, &wait, host, least)
		}
	}
	if !s.private {
		return command.Misusef("--%s %s: add --allow-private if the machine is yours", name, &wait)
	}
	return nil
}

// thisMachine reports whether a host is certainly this machine, which includes names below localhost
// (RFC 6761).
func thisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") || err == nil && ip.IsLoopback()
}

// check returns an error for numbers out of range.
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
		return command.Misusef("--strategy opic needs links: remove --no-links and --no-parse")
	}
	return nil
}

// checkAddresses returns an error for hosts to which the harvester would never connect.
func (s *settings) checkAddresses(hosts []string) error {
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); !s.private && (thisMachine(host) || err == nil && (ip.IsPrivate() || ip.IsLinkLocalUnicast())) {
			return command.Misusef("%s is not on the public Internet: add --allow-private if the machine is yours", host)
		}
	}
	return nil
}

// checkContact returns an error if other people's hosts would be crawled without --contact.
func (s *settings) checkContact(hosts []string) error {
	for _, host := range hosts {
		if s.contact == "" && !thisMachine(host) {
			return command.Misusef("%s is another machine: add --contact MAIL or URL, so that its operators can reach you", host)
		}
	}
	return nil
}

// harvester returns a Harvester configured by the settings.
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
	if h.WaitBig == 0 { // zero would mean the default
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

// addressRate parses --per-address: requests a second, and connections.
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
		return 0, 0, command.Misusef("--per-address %s: want requests a second and optionally connections, such as 5/s or 0.5/s,2", v)
	}
	return rate, conns, nil
}

// userAgent returns the User-Agent header: the agent, and the contact in brackets.
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

// token returns the name that is matched in robots.txt.
func (s *settings) token() string {
	name, _, _ := strings.Cut(s.agent, "/")
	return strings.ToLower(name)
}

// crawler returns a Crawler configured by the settings.
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
	polls, err := s.pollPolicy()
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
		return nil, fmt.Errorf("%s contains no URL", name)
	}
	return list, nil
}
