package siteflags

import (
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/catalog"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// pages are the options that say which pages are published, and what is read from each.
type pages struct {
	choice
	urls, commands, sitemaps, feeds []string // lists of pages
	tokens                          string   // file of tokens with which pages are announced

	fetch    bool
	fetching catalog.Fetch
	fetched  forms.Features // of fetched pages; nil if none are fetched

	heal        bool
	masks, logs []string
}

// choice are the options that choose among the pages of a site, whether they are files or listed. They are not bound to a
// field of the library: both a Site and a Catalog have these fields, and neither may change once it has been checked.
type choice struct {
	include, exclude         []string
	cleanURLs                bool
	robots                   string
	robotsWait, robotsRemind time.Duration
	maxFile                  int64
	reachable                bool
	start                    []string // pages from which others are reached, besides the home page
}

func (c *choice) options() []command.Flag {
	bind := command.Bind
	c.maxFile, c.robotsWait, c.robotsRemind = server.MaxFile, time.Minute, 24*time.Hour
	return []command.Flag{
		bind("include", &c.include, "also publish files that match `PATTERN`, such as '**/*.txt' (repeatable)"),
		bind("exclude", &c.exclude, "do not publish files that match `PATTERN`, such as 'drafts/**' (repeatable)"),
		bind("clean-urls", &c.cleanURLs, "the web server serves page.html as /page"),
		bind("robots", &c.robots, "`FILE or URL` of the robots.txt to obey (default: robots.txt in the docroot, or that of the host if there is no docroot or the base has a path)"),
		bind("robots-wait", &c.robotsWait, "apply new permissions in robots.txt after `TIME` without another change; new prohibitions apply at once"),
		bind("robots-remind", &c.robotsRemind, "warn every `TIME` while robots.txt is missing, has no rule or cannot be read; until then the last rules stay in force"),
		bind("max-file", &c.maxFile, "leave out files over `SIZE`"),
		bind("reachable", &c.reachable, "publish only pages that can be reached by links from the home page, or from --start"),
		bind("start", &c.start, "with --reachable, begin at `URL` too (repeatable)"),
	}
}

func (p *pages) options() []command.Flag {
	bind := command.Bind
	p.fetching = catalog.Fetch{Rate: 2, Recheck: 24 * time.Hour}
	return append(p.choice.options(),
		bind("urls", &p.urls, "publish the URLs in `FILE`, or at a URL: one a line, CSV with a header, or JSON lines (repeatable)"),
		bind("urls-cmd", &p.commands, "publish the URLs that `COMMAND` prints, in the formats of --urls (repeatable)"),
		bind("urls-sitemap", &p.sitemaps, "publish the URLs of the sitemap at `FILE or URL` (repeatable)"),
		bind("urls-feed", &p.feeds, "publish the URLs of the feed at `FILE or URL`; a page that drops out of it is not deleted (repeatable)"),
		bind("announce-tokens", &p.tokens, "accept announcements of pages at BASE/parley/announce from clients with a token in `FILE`, one per line, read at the start"),
		bind("fetch", &p.fetch, "fetch listed pages from the web server, for their digests and titles, and to measure how much of them changed"),
		bind("fetch-rate", &p.fetching.Rate, "with --fetch: fetch at most `N` listed pages a second"),
		bind("recheck", &p.fetching.Recheck, "with --fetch: fetch a listed page again after `TIME`, even if the list reports no change"),
		bind("mask", &p.masks, "ignore text that matches `REGEXP` when measuring how much of a page changed (repeatable; see rdfgen learn)"),
		bind("access-log", &p.logs, "estimate the importance of pages from the visitors in `FILES`, such as '/var/log/nginx/access.log*' (repeatable)"))
}

// listed reports whether the site's pages are listed.
func (p *pages) listed() bool { return len(p.urls)+len(p.commands)+len(p.sitemaps)+len(p.feeds) > 0 }

// Inventory returns the site's inventory. The journal has the published pages; if it is nil, none are known,
// and no listed page is fetched.
func (f *Flags) Inventory(j *server.Journal, log *slog.Logger) (inventory.Inventory, error) {
	p := &f.pages
	masks, err := maintext.ParseMasks(p.masks)
	if err != nil {
		return nil, command.Misusef("--mask: %w", err)
	}
	if p.fetching.Rate <= 0 {
		return nil, command.Misusef("--fetch-rate %g: want more than 0", p.fetching.Rate)
	}
	features := canonicalHere(forms.ReadFeatures(masks), f.Base, f.journal.Former)
	inv, err := p.inventory(f, features, j, log)
	if err != nil {
		return nil, err
	}
	if !p.reachable {
		return inv, nil
	}
	site, ok := inv.(*server.Site)
	if !ok {
		return nil, command.Misusef("--reachable follows the links of files: it needs --docroot")
	}
	r := &catalog.Reachable{Inventory: site, Open: site.Open, Links: links, Start: append([]string{f.Base}, p.start...), Base: f.Base, Journal: j, Log: log}
	if err := r.Check(); err != nil {
		return nil, command.Misusef("%w", err)
	}
	return r, nil
}

func (p *pages) inventory(f *Flags, features forms.Features, j *server.Journal, log *slog.Logger) (inventory.Inventory, error) {
	if f.Docroot != "" {
		site := &server.Site{Docroot: f.Docroot, Base: f.Base, Hurry: f.Hurry, Journal: j,
			Features: features, FeaturesVersion: strings.Join(p.masks, "\n"), Log: log}
		files, robots := &site.Files, &site.Robots
		files.Include, files.Exclude, files.CleanURLs, files.Max = p.include, p.exclude, p.cleanURLs, p.maxFile
		robots.File, robots.Wait, robots.Remind = p.robots, p.robotsWait, p.robotsRemind
		for _, own := range append(f.outputs.own(f), f.Out, f.manifest()+manifest.PartsSuffix, f.State, f.keyFile(j)) {
			if own != "" {
				files.Own = append(files.Own, own)
			}
		}
		if err := site.Check(); err != nil {
			return nil, command.Misusef("%w", err)
		}
		if f.pages.heal {
			f.Publish.Pages.Healer = site
		}
		return site, nil
	}
	c := &catalog.Catalog{Base: f.Base, Exclude: p.exclude, Robots: p.robots, RobotsWait: p.robotsWait, RobotsRemind: p.robotsRemind,
		Every: pause.AtMost(time.Minute, f.Hurry), Journal: j, Log: log}
	for _, s := range p.urls {
		c.Sources = append(c.Sources, catalog.List(s))
	}
	for _, s := range p.commands {
		c.Sources = append(c.Sources, catalog.Command{Line: s})
	}
	for _, s := range p.sitemaps {
		c.Sources = append(c.Sources, catalog.Sitemap(s))
	}
	for _, s := range p.feeds {
		c.Sources = append(c.Sources, catalog.Feed(s))
	}
	if p.fetch && j != nil {
		p.fetched = features
		p.fetching.MaxBytes = p.maxFile
		p.fetching.Features = func(url string, page []byte, whole bool) (inventory.Features, error) {
			return p.fetched(url, page, whole)
		}
		c.Fetch = &p.fetching
	}
	if err := c.Check(); err != nil {
		return nil, command.Misusef("%w", err)
	}
	return c, nil
}

// links returns the targets of a page's links.
func links(pageURL string, page []byte) []string {
	return html.Read(pageURL, page, html.Options{Links: true}).Links
}

// recount is the maximum age of the counts of visitors in a long-running process.
const recount = time.Hour

// importance counts visitors in the access logs, again every hour. Until one can be read, the importance of
// pages is unknown.
func importance(logs []string, log *slog.Logger) func(string) protocol.Importance {
	if len(logs) == 0 {
		return nil
	}
	var counts *accesslog.Counts
	var at time.Time
	return func(pageURL string) protocol.Importance { // a Publisher calls it from one goroutine at a time
		if at.IsZero() || time.Since(at) > recount {
			if c := countVisitors(logs, log); c != nil {
				counts = c
			}
			at = time.Now()
		}
		u, err := url.Parse(pageURL)
		if err != nil || counts == nil {
			return 0
		}
		// In twentieths: a few more visitors must not make a page count as changed.
		const step = 5
		n := protocol.Importance(counts.Importance(u.EscapedPath()))
		return (n + step - 1) / step * step
	}
}

// countVisitors returns nil if the logs cannot be opened.
func countVisitors(patterns []string, log *slog.Logger) *accesslog.Counts {
	files, err := accesslog.Open(patterns, nil)
	if err != nil {
		log.Warn("no importance is published: --access-log could not be read", "err", err)
		return nil
	}
	defer files.Close()
	counts := accesslog.NewCounts()
	for e := files.Next(); e != nil; e = files.Next() {
		counts.Add(e)
	}
	for _, f := range files.Files() {
		if f.Err != nil {
			log.Warn("access log could not be read to its end", "file", f.Name, "err", f.Err)
		}
	}
	return counts
}

// DocrootOf returns the docroot behind an inventory returned by Inventory; nil if there is none.
func DocrootOf(inv inventory.Inventory) *server.Site {
	switch inv := inv.(type) {
	case *server.Site:
		return inv
	case *catalog.Reachable:
		return DocrootOf(inv.Inventory)
	}
	return nil
}

// Rules are the robots.txt rules of an inventory.
type Rules interface {
	// PublicTo reports whether a caller with rules of its own in robots.txt may be told of a URL.
	PublicTo(name, url string) bool
	// AcceptRobots makes the next scan accept robots.txt as it is then.
	AcceptRobots()
	// RobotsProblem describes a problem with robots.txt, and says whether it was logged as an error, and whether
	// the file is missing or has lost its rules, so that a person is needed.
	RobotsProblem() (trouble string, said, lost bool)
}

// RulesOf returns the rules of an inventory returned by Inventory. All of those have some.
func RulesOf(inv inventory.Inventory) Rules {
	if docroot := DocrootOf(inv); docroot != nil {
		return docroot
	}
	return inv.(Rules)
}

// Fetched wraps the Features of fetched pages, before any is fetched. It is called after Inventory.
func (f *Flags) Fetched(wrap func(forms.Features) forms.Features) {
	if f.pages.fetched != nil {
		f.pages.fetched = wrap(f.pages.fetched)
	}
}
