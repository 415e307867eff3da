package crawl

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/bucket"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/protocol"
)

// DefaultQuality is that of a crawl without a Score.
var DefaultQuality = rank.DefaultQuality

// Open opens the collection and returns a Crawler for it. The caller runs the Crawler, and afterwards closes its
// Collection. The error is an OptionError if the options are wrong, and wraps collection.ErrHeld if another process has
// the collection open. Ctx ends the reading of a History, which may take minutes.
func (o *Options) Open(ctx context.Context) (*Crawler, error) {
	c, err := o.crawler()
	if err != nil {
		return nil, err
	}
	stored, err := o.stored(&c.settings)
	if err = cmp.Or(err, o.checkHosts(seed.HostsOf(c.settings.Start, false))); err != nil {
		return nil, err
	}
	into := o.Collection.Into
	if into == "" {
		return nil, wrong("%s is required", field("Into"))
	}
	if _, err := os.Stat(filepath.Join(into, ".parley", "state.db")); err == nil {
		return nil, wrong("%s is a copy made by \"crawler follow\": crawl into another directory", into)
	}
	with := *o
	if with.Order.earlier, err = rank.ReadHistory(ctx, o.Order.History, o.Scope.MaxPages, o.Order.PagerankJump); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, wrong("%s: %v", field("History"), err)
	}
	with.Order.links = &rank.Scores{}
	o, c.settings.Quality.Earlier, c.settings.Quality.Links = &with, with.Order.earlier, with.Order.links
	stored.Quality = c.settings.Quality.Of
	col, err := collection.Open(into, stored)
	if err != nil {
		return nil, err
	}
	client.RemoveParts(into) // the collection is locked, so no other process downloads there
	s, err := collection.Steering(col)
	if err == nil {
		c, err = o.steered(&s, col)
	}
	if odd := new(OptionError); s.Set() && errors.As(err, &odd) {
		odd.format += " (options are changed by \"crawler rate\" or \"crawler scope\": without arguments, these show what)"
	}
	if err != nil {
		return nil, errors.Join(err, col.Close())
	}
	c.settings.Temp = into
	return c, nil
}

// begin limits a crawl without Domain to the hosts that it began with, now or earlier, and returns an error if there
// are none, or the options do not suit them.
func (o *Options) begin(c *Crawler) error {
	if len(c.settings.Start) == 0 && c.Collection.Len() == 0 {
		return wrong("%s is empty: give a URL to begin with in %s", o.Collection.Into, field("Start"))
	}
	begun := slices.Clone(c.settings.Start)
	for site := range c.Collection.Sites() {
		if mirrors := o.Collection.Store == "mirror" || o.Collection.Store == "both"; mirrors && site.Withheld {
			return bad("Store", o.Collection.Store, "warc or none, since pages of "+site.Origin+" were fetched with cookies or a client certificate")
		}
		if site.Requests > 0 || site.Ready > 0 || site.Held > 0 { // other sites are known only from links that were not followed
			begun = append(begun, site.Origin)
		}
	}
	hosts, domains := seed.HostsOf(begun, false), o.Scope.Domain
	if len(domains) == 0 {
		if len(hosts) == 0 {
			return wrong("no host to crawl: give a URL to begin with, or %s SUFFIX", field("Domain"))
		}
		c.settings.Seeder.Rules.Hosts = seed.HostsOf(begun, true)
	}
	return o.checkHosts(append(hosts, domains...))
}

// crawler returns a Crawler without its Collection.
func (o *Options) crawler() (*Crawler, error) {
	order, sources, again := &o.Order, &o.Sources, &o.Retries
	name, _, _ := strings.Cut(strings.ToLower(o.Fetch.Agent), "/") // which is matched in robots.txt
	h, err := o.Harvester()
	h.Options.Hurry, h.Options.Log = again.Hurry, o.Log
	c := &Crawler{Harvester: h}
	s := &c.settings
	*s = settings{Seeder: &seed.Seeder{Agent: name}, Gatherer: gather.Gatherer{Agent: name, Text: o.Collection.TextDigest, Embedded: o.Scope.Requisites, References: !o.Collection.NoLinks},
		Batch: frontier.BatchOptions{Size: order.Batch, SameSite: order.SameSite}, Batches: order.Batches,
		Suits: o.CheckURL, Once: o.Once, Again: o.Again, Stop: o.Stop, TrapShare: o.Scope.TrapShare,
		NoParse: sources.NoParse, NoManifests: sources.NoManifests, NoSitemaps: sources.NoSitemaps, NoFeeds: sources.NoFeeds, NoStreams: sources.NoStreams,
		ManifestEvery: sources.ManifestEvery, SitemapEvery: sources.SitemapEvery, FeedEvery: sources.FeedEvery,
		RobotsEvery: sources.RobotsEvery, SourceAgain: sources.SourceAgain, Patience: again.Patience, Hurry: again.Hurry, Log: o.Log}
	s.Stop.Value = float32(o.Revisits.StopValue)
	if s.TrapShare == 0 { // in settings zero means the default
		s.TrapShare = -1
	}
	starts := make([]seed.Start, len(o.Start))
	for i, text := range o.Start {
		start, err := seed.ParseStart(text)
		if err != nil {
			return nil, wrong("%s: %v", text, err)
		}
		starts[i], s.Start = start, append(s.Start, start.URL)
	}
	var differ error
	if s.Seeder.Starts, differ = seed.NewStarts(starts, o.Scope.PerSite); differ != nil {
		err = cmp.Or(err, wrong("%v", differ))
	}
	err = cmp.Or(o.rules(&s.Seeder.Rules), o.order(s), o.policy(s), o.announcements(s), err)
	if share := o.Scope.Share; share != nil {
		s.Exchange, s.Seeder.Rules.Partition, h.Options.Ends = share, share.Partition, share.Ends
		if share.Addresses != nil {
			h.Options.May = share.Addresses.May
		}
	} else if o.Scope.Exchange != "" {
		s.Exchange = &partition.Exchange{Dir: o.Scope.Exchange, Partition: s.Seeder.Rules.Partition}
	}
	h.Options.Partition = s.Seeder.Rules.Partition
	return c, err
}

// choose returns the meaning of a word, the value of a field. The error lists the allowed words.
func choose[T any](f field, word, words string, meanings map[string]T) (T, error) {
	v, ok := meanings[word]
	if !ok {
		return v, bad(f, word, words)
	}
	return v, nil
}

// stored returns the options of the collection for a crawler.
func (o *Options) stored(c *settings) (*collection.Options, error) {
	s, again := &o.Collection, &o.Retries
	contents, err1 := choose("Store", s.Store, "warc, mirror, both or none", map[string]collection.Contents{
		"warc": collection.WARC, "mirror": collection.Mirror, "both": collection.WARC | collection.Mirror, "none": 0})
	coding, err2 := choose("Coding", s.Coding, "none, gzip or zstd", map[string]string{"none": "", "gzip": "gzip", "zstd": "zstd"})
	answers, err3 := choose("Answers", s.Answers, "usual, all or none", map[string]collection.Answers{
		"usual": 0, "all": collection.AllAnswers, "none": collection.NoAnswers})
	var err4 error
	c.Significant, err4 = choose("Changed", o.Revisits.Changed, "bytes, significant or text", map[string]bool{"bytes": false, "significant": true, "text": true})
	c.Gatherer.Sketch = o.Revisits.Changed == "text"
	if o.Fetch.Cookies+o.Fetch.ClientCert != "" && contents&collection.Mirror != 0 {
		err1 = bad("Store", s.Store, "warc or none, since pages fetched with cookies or a client certificate must not be files for everybody")
	}
	if s.CopyTo != "" {
		if _, err := bucket.Open(s.CopyTo); err != nil {
			err1 = wrong("%s: %v", field("CopyTo"), err)
		} else if contents&collection.WARC == 0 {
			err1 = wrong("%s %s: it needs %s warc or both", field("CopyTo"), s.CopyTo, field("Store"))
		}
	}
	down := again.Down
	failing := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, down, down, down, down}
	opts := &collection.Options{Log: o.Log, Contents: contents, Coding: coding, Answers: answers, Requests: s.Requests, MaxWARC: s.MaxWARC, CopyTo: s.CopyTo, NoLinks: s.NoLinks, Dates: c.Trust.Dates,
		Info:     map[string]string{"operator": o.Fetch.Contact, "http-header-user-agent": o.userAgent(), "robots": "classic"}, // that is, obeyed
		Strategy: c.Strategy, Quality: c.Quality.Of, Policy: c.Policy,
		MaxPages: o.Scope.MaxPages, MaxSites: o.Scope.MaxSites, PerSite: o.Scope.PerSite, Part: c.Seeder.Starts.Parts(),
		Again: collection.Again{Failing: failing, Lost: again.DNS, Refused: again.Refused, Moved: again.Refused, Gone: 4 * again.Refused},
		Hurry: again.Hurry, Wait: 5 * time.Second} // another command may just be reading it
	if hurry := again.Hurry; hurry > 0 { // the waits that have no field of their own
		for i := range failing[:3] {
			failing[i] = min(failing[i], hurry)
		}
		opts.Again.Missing, opts.Again.Missed = hurry, []time.Duration{hurry, hurry, hurry}
	}
	return opts, cmp.Or(err1, err2, err3, err4)
}

// rules sets the rules by which URLs are admitted.
func (o *Options) rules(r *seed.Rules) error {
	s := &o.Scope
	*r = seed.Rules{DomainSuffixes: s.Domain, Accept: s.Accept, Reject: s.Reject, RejectWords: listed(s.RejectWord),
		SessionIDs: listed(s.SessionID), StaticExt: listed(s.StaticExt), DynamicExt: listed(s.DynamicExt), LogExt: listed(s.LogExt),
		MaxDepthStatic: s.MaxDepth, MaxDepthDynamic: s.MaxDepthDynamic, MaxPerSite: s.PerSite, SplitWWW: !s.SameWWW}
	if !(s.TrapShare >= 0 && s.TrapShare <= 1) {
		return bad("TrapShare", s.TrapShare, "a share between 0 and 1")
	}
	var err error
	if r.Partition, err = partition.Parse(s.Partition); err != nil {
		return wrong("%s: %v", field("Partition"), err)
	}
	if (r.Partition.Of > 0) != (s.Exchange != "") || r.Partition.Of > 0 && len(s.Domain) == 0 {
		return wrong("%s, %s, a directory, and %s, the hosts of the whole crawl, go together: the latter two are the same for all crawlers", field("Partition"), field("Exchange"), field("Domain"))
	}
	return positive(number{"MaxPages", s.MaxPages}, number{"MaxSites", s.MaxSites}, number{"PerSite", s.PerSite},
		number{"MaxDepth", s.MaxDepth}, number{"MaxDepthDynamic", s.MaxDepthDynamic})
}

// A number is an int field: its name and its value.
type number struct {
	name  field
	value int
}

// positive returns an error if a number is below 1.
func positive(numbers ...number) error {
	for _, n := range numbers {
		if n.value < 1 {
			return bad(n.name, n.value, "1 or more")
		}
	}
	return nil
}

// listed returns a list of seed.Rules, where nil means the built-in one.
func listed(s []string) []string {
	switch {
	case len(s) == 0:
		return nil
	case len(s) == 1 && s[0] == "none":
		return []string{}
	}
	return s
}

// order sets the order of the crawl.
func (o *Options) order(c *settings) (err error) {
	order := &o.Order
	if c.Strategy, err = frontier.Named(order.Strategy, 1); err != nil {
		return bad("Strategy", order.Strategy, frontier.Names())
	}
	if c.Quality, err = rank.ParseQuality(order.Score); err != nil {
		return wrong("%s: %v", field("Score"), err)
	}
	c.Quality.Earlier, c.Quality.Links = order.earlier, order.links
	_, byRanks := c.Strategy.(frontier.Sharer)
	switch {
	case byRanks && (o.Collection.NoLinks || o.Sources.NoParse):
		return wrong("%s %s needs links: remove %s and %s", field("Strategy"), order.Strategy, field("NoLinks"), field("NoParse"))
	case order.History == "" && rank.OfHistory(order.Strategy):
		return wrong("%s %s needs the ranks of an earlier crawl: add %s", field("Strategy"), order.Strategy, field("History"))
	case order.History == "" && c.Quality.History > 0:
		return wrong("%s %s weighs ranks from outside: add %s", field("Score"), order.Score, field("History"))
	case order.History != "" && !byRanks && c.Quality.History == 0:
		return wrong("%s %s does not use the ranks of %s: add history=1 to %s", field("Strategy"), order.Strategy, field("History"), field("Score"))
	case c.Quality.ByLinks() && (o.Collection.NoLinks || o.Sources.NoParse):
		return wrong("%s %s needs links: remove %s and %s", field("Score"), order.Score, field("NoLinks"), field("NoParse"))
	case order.RankEvery > 0 && !c.Quality.ByLinks() && !rank.ByPagerank(order.Strategy):
		return wrong("%s %d computes nothing that is used: choose %s batch-pagerank or partial-pagerank, or add pagerank=1, weighted=1, hub=1, authority=1 or siterank=1 to %s", field("RankEvery"), order.RankEvery, field("Strategy"), field("Score"))
	case order.RankEvery < 0:
		return bad("RankEvery", order.RankEvery, "0 or more")
	case order.Round < 0:
		return bad("Round", order.Round, "0 or more")
	}
	c.RankEvery, c.Batch.Round = order.RankEvery, cmp.Or(order.Round, -1)
	if rank.ByPagerank(order.Strategy) {
		c.RankEvery = cmp.Or(c.RankEvery, 10_000)
		c.Batch.Size = min(c.Batch.Size, c.RankEvery)
	}
	if c.PagerankJump = order.PagerankJump; !(c.PagerankJump > 0 && c.PagerankJump < 1) {
		return bad("PagerankJump", c.PagerankJump, "a number between 0 and 1")
	}
	return positive(number{"Batch", order.Batch}, number{"SameSite", order.SameSite})
}

// policy sets the policy, and its budget if it has a price.
func (o *Options) policy(c *settings) (err error) {
	r := &o.Revisits
	if r.Threshold <= 0 || r.Threshold >= 1 {
		return bad("Threshold", r.Threshold, "a number between 0 and 1")
	}
	if o.hasPrice() {
		c.Revisit, err = o.budget()
		c.Policy = c.Revisit.Policy
		return err
	}
	name, purpose, _ := strings.Cut(r.Policy, ":")
	if name != "thesis" {
		return bad("Policy", r.Policy, "priced, uniform, proportional, thesis, or thesis for a purpose, such as thesis:news")
	}
	t, err := fresh.Preset(cmp.Or(purpose, "general"))
	if err != nil {
		return wrong("%s %s: %v", field("Policy"), r.Policy, err)
	}
	t.Threshold, t.MaxPeriod = r.Threshold, r.MaxPeriod
	t.Periods = fresh.Periods{Page: r.MinPeriod, Refused: r.MinPeriodRefused, Failed: o.Retries.Down}
	c.Policy = t
	return nil
}

// hasPrice reports whether the policy has a budget, and a price at which that is spent.
func (o *Options) hasPrice() bool {
	return slices.Contains([]string{"priced", string(fresh.Uniform), string(fresh.Proportional)}, o.Revisits.Policy)
}

// budget returns the budget of the policy for which the crawler computes a price.
func (o *Options) budget() (*budget.Options, error) {
	r := &o.Revisits
	costs, err := choose("Costs", r.Costs, "requests or bytes", map[string]fresh.Costs{"requests": {}, "bytes": fresh.Bytes()})
	objective, unread := fresh.ParseObjective(r.Objective)
	outdated, unclear := fresh.ParseOutdated(r.Outdated)
	if r.Policy != "priced" {
		objective = fresh.Objective{Rule: fresh.Rule(r.Policy)}
	}
	number, per, each := strings.Cut(r.Budget, "/")
	n, bad := strconv.ParseFloat(number, 64)
	switch {
	case unread != "":
		err = wrong("%s %q: want fresh, harmonic or age, and a number, such as fresh=1", field("Objective"), unread)
	case unclear != nil:
		err = wrong("%s %q: %v", field("Outdated"), r.Outdated, unclear)
	case r.StopValue > 0:
		err = wrong("%s needs %s thesis: only there the profit of a page is between 0 and 1", field("StopValue"), field("Policy"))
	case math.IsNaN(r.ToldBudget) || math.IsInf(r.ToldBudget, 0) || r.ToldBudget == 0:
		err = wrong("%s %g: want a multiple of the budget, such as 1 or 0.5, or -1 for no limit; %s counts such visits against the budget itself", field("ToldBudget"), r.ToldBudget, field("Frugal"))
	case bad != nil || !(n > 0) || math.IsInf(n, 0) || each && per != "page":
		err = wrong("%s %q: want a number of requests a day, such as 5000, or for each page, such as 0.1/page", field("Budget"), r.Budget)
	}
	p := fresh.Priced{Objective: objective, Eager: !r.Frugal, Shortest: r.MinPeriod, Longest: r.MaxPeriod, Costs: costs}
	b := &budget.Options{Policy: p, Outdated: outdated, PerDay: n, Every: r.Replan, OutsideBudget: r.ToldBudget}
	if each {
		b.PerDay, b.PerPage = 0, n
	}
	if share := o.Scope.Share; share != nil {
		b.PerDay, b.Market = b.PerDay/float64(share.Of), share.Market
	}
	return b, err
}

// announcements sets the form in which sites send announcements, which of their dates count, and how sitemaps and feeds are polled.
func (o *Options) announcements(c *settings) (err error) {
	s := &o.Sources
	if s.As != "auto" && s.As != "" {
		if c.As, err = protocol.ParseForm(s.As); err != nil {
			return bad("As", s.As, "auto, meta, delta, page, batch or site")
		}
	}
	c.Trust.Dates.Ahead = cmp.Or(s.DatesAhead, -1)
	if s.DatesFrom != "" {
		from, err := protocol.ParseDate(s.DatesFrom)
		if err != nil {
			return bad("DatesFrom", s.DatesFrom, "a date such as 1993 or 1995-06-30")
		}
		c.Trust.Dates.Earliest = from.Time
	}
	if !(s.SubscriberWeight >= 0 && s.SubscriberWeight <= math.MaxFloat32) {
		return bad("SubscriberWeight", s.SubscriberWeight, "0 or more")
	}
	c.Subscribers = map[string]float64{}
	for _, text := range s.Subscribers {
		number, feed, _ := strings.Cut(text, " ")
		n, err1 := strconv.ParseUint(number, 10, 32)
		feed, err2 := protocol.CanonicalURL("", strings.TrimSpace(feed))
		if err1 != nil || err2 != nil {
			return wrong("%s %q: want a number and the URL of a feed, such as \"120 https://www.example.org/feed.xml\"", field("Subscribers"), text)
		}
		c.Subscribers[feed] = 1 + s.SubscriberWeight*float64(n)
	}
	if s.Polls == "fixed" {
		return nil
	}
	rule, err := poll.Named(s.Polls, s.TrainingPeriod)
	if err != nil {
		return wrong("%s %s: want fixed, or a rule: %v", field("Polls"), s.Polls, err)
	}
	c.Polls = poll.Schedule{Policy: rule, Shortest: s.MinPollPeriod, Longest: longestRhythm}
	return nil
}

func (o *Options) userAgent() string {
	return o.Fetch.Agent + strings.TrimPrefix(UserAgent(o.Fetch.Contact), UserAgent(""))
}

// Harvester returns a Harvester with these options.
func (o *Options) Harvester() (*harvest.Harvester, error) {
	f := &o.Fetch // in harvest.Options zero means the default
	h := harvest.Options{Agent: o.userAgent(),
		Wait: f.Wait, WaitBig: cmp.Or(f.WaitBig, time.Nanosecond), MaxRate: cmp.Or(max(f.MaxRate, 0), -1), Sites: f.InFlight, MinSites: f.MinInFlight, Overbook: true,
		PerConn: f.PerConnection, AtOnce: f.AtOnce, IdleTimeout: cmp.Or(f.IdleTimeout, -1), ConnectTimeout: f.ConnectTimeout, MaxFailedLookups: f.MaxFailedLookups,
		MinSpeed: cmp.Or(f.MinSpeed, -1), MaxBytes: f.MaxFile, Range: f.Range, Private: f.AllowPrivate}
	if strings.Contains(f.Contact, "@") && !strings.Contains(f.Contact, "://") {
		h.From = f.Contact
	}
	if h.Wait == 0 {
		h.Wait, h.Slow = -1, -1
	}
	if !(f.MaxFailedLookups > 0 && f.MaxFailedLookups <= 1) {
		return &harvest.Harvester{Options: h}, bad("MaxFailedLookups", f.MaxFailedLookups, "a share above 0 and up to 1")
	}
	for _, b := range f.BlockedIP {
		p, err := netip.ParsePrefix(b)
		if err != nil {
			a, err := netip.ParseAddr(b)
			if err != nil {
				return &harvest.Harvester{Options: h}, bad("BlockedIP", b, "an address such as 192.0.2.1 or a prefix such as 192.0.2.0/24")
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		h.Blocked = append(h.Blocked, p)
	}
	if f.Resolver != "" {
		h.Resolver = harvest.ResolverAt(f.Resolver)
	}
	var err error
	if h.TLS, err = harvest.Authorities(f.CA); err != nil {
		return &harvest.Harvester{Options: h}, wrong("%s: %v", field("CA"), err)
	}
	if h.Dial, err = harvest.Proxy(f.Proxy); err != nil {
		return &harvest.Harvester{Options: h}, wrong("%s: %v", field("Proxy"), err)
	}
	if h.Cookies, err = harvest.ReadCookies(f.Cookies); err != nil {
		return &harvest.Harvester{Options: h}, wrong("%s: %v", field("Cookies"), err)
	}
	if h.Cert, err = harvest.ClientCert(f.ClientCert, f.ClientKey, f.ClientHost); err != nil {
		return &harvest.Harvester{Options: h}, wrong("%s: %v", field("ClientCert"), err)
	}
	h.CertHost = f.ClientHost
	if f.PerAddress != "" {
		rate, conns, both := strings.Cut(f.PerAddress, ",")
		h.AddressRate, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rate), "/s"), 64)
		if err == nil && both {
			h.AddressConns, err = strconv.Atoi(strings.TrimSpace(conns))
		}
		if err != nil || !(h.AddressRate >= 0.0001 && h.AddressRate <= 1000) || both && (h.AddressConns < 1 || h.AddressConns > 1000) {
			return &harvest.Harvester{Options: h}, bad("PerAddress", f.PerAddress, "0.0001 to 1000 requests a second, and optionally 1 to 1000 connections, such as 5/s or 0.5/s,2")
		}
	}
	return &harvest.Harvester{Options: h}, positive(number{"InFlight", f.InFlight}, number{"PerConnection", f.PerConnection}, number{"AtOnce", f.AtOnce})
}

// CheckURL returns an error if the options suit only one's own machines, and the host of a URL may be somebody else's.
func (o *Options) CheckURL(u string) error { return o.checkHosts(seed.HostsOf([]string{u}, false)) }

// leastWait is the shortest wait between two requests to somebody else's host.
const leastWait = time.Second

func (o *Options) checkHosts(hosts []string) error {
	f := &o.Fetch
	name, wait := field("Wait"), f.Wait
	if f.WaitBig < wait {
		name, wait = "WaitBig", f.WaitBig
	}
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		here := inet.Loopback(host) || strings.HasSuffix(strings.ToLower(host), ".localhost")
		switch {
		case !f.AllowPrivate && (here || err == nil && inet.Special(ip) != ""):
			return wrong("%s is not on the public Internet: add %s if the machine is yours", host, field("AllowPrivate"))
		case f.Contact == "" && !here && host != "":
			return wrong("%s is another machine: add %s MAIL or URL, so that its operators can reach you", host, field("Contact"))
		case wait < leastWait && !inet.Own(host):
			return wrong("%s %s: %s may belong to somebody else: wait at least %s", name, wait, host, leastWait)
		}
	}
	if wait < leastWait && !f.AllowPrivate {
		return wrong("%s %s: add %s if the machine is yours", name, wait, field("AllowPrivate"))
	}
	return nil
}
