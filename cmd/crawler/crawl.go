package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/indexnow"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/protocol"
)

func crawlOnce() *command.Command {
	return crawlCommand("crawl", "crawl sites until nothing is left to fetch", `
Crawl one site, or many, into a directory:
    crawler crawl https://www.example.org/ --into crawl/ --contact you@example.net
    crawler crawl --sites sites.txt --into crawl/ --contact you@example.net

It obeys robots.txt, waits 15 s after each request before the next one to the
same site, and follows links on the hosts of the start pages. If a site has a
robots.rdf, its pages are taken from there. Stop or kill it at any moment: the
next run resumes where it stopped. After a finished crawl, the next run fetches
the pages that sites report as changed and revisits those that may have changed;
with --again, all pages. At the end it reports how many listed pages were not
fetched, and why.

For a site on your own machine:
    crawler crawl http://127.0.0.1:8080/ --into crawl/ --allow-private --wait 0

Exit codes: 0 done, or stopped by a signal; 1 something failed, or no page
was obtained; 2 wrong usage.`, true)
}

func runCommand() *command.Command {
	return crawlCommand("run", "crawl sites, and keep the stored pages fresh", `
    crawler run --sites sites.txt --into crawl/ --contact you@example.net

It does what "crawler crawl" does, and continues until you stop it: it follows
sites that publish their changes, accepts notices, and revisits pages of the
other sites when they are likely to have changed.

"crawler status", "sites", "pages", "why", "add", "events" and "get" work while
it runs. CMS plug-ins for IndexNow can notify it of changes:
    crawler run ... --indexnow-listen :8641

Exit codes: 0 stopped by a signal; 1 something failed; 2 wrong usage.`, false)
}

// crawlCommand returns the command "crawl", which ends (once), or "run", which does not.
func crawlCommand(name, summary, help string, once bool) *command.Command {
	s := newSettings()
	var file string
	var again bool
	return &command.Command{
		Name: name, Summary: summary, Help: help,
		Usage:    "[URL...] --into DIR [options]",
		Variadic: true,
		Required: []string{"into"},
		LogLevel: slog.LevelInfo,
		Groups:   append(crawlGroups(), command.Group{Title: "This run", Options: []string{"sites", "again", "config"}}),
		Flags: func(fs *flag.FlagSet) {
			s.define(fs)
			fs.StringVar(&file, "sites", "", "read start URLs from `FILE`, one per line")
			fs.BoolVar(&again, "again", false, "fetch every known page once more, at once")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			start := env.Args
			if file != "" {
				more, err := readSites(file)
				if err != nil {
					return err
				}
				start = append(start, more...)
			}
			return s.crawl(ctx, env, start, once, again)
		},
	}
}

// crawl runs the engine and its listeners until it is done or ctx ends.
func (s *settings) crawl(ctx context.Context, env *command.Env, start []string, once, again bool) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	for i, u := range start {
		if start[i], err = protocol.CanonicalURL("", u); err != nil {
			return command.Misusef("%s: want a URL such as https://www.example.org/", u)
		}
	}
	if err := s.checkHosts(hostsOf(start)); err != nil {
		return err
	}
	col, err := s.open(env.Log)
	if errors.Is(err, collection.ErrHeld) {
		return fmt.Errorf("%w: to fetch a page in the running crawler, use \"crawler add URL --into %s\"", err, s.into)
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, col.Close()) }()
	if len(start) == 0 && col.Len() == 0 {
		return command.Misusef("%s is empty: give a URL to begin with, or --sites FILE", s.into)
	}
	begun := slices.Clone(start)
	for site := range col.Sites() {
		if site.Requests > 0 || site.Ready > 0 { // other sites are known only from links that were not followed
			begun = append(begun, site.Origin)
		}
	}
	hosts := hostsOf(begun)
	if len(s.domains) == 0 {
		if s.hosts = portsOf(begun); len(hosts) == 0 {
			return command.Misusef("no host to crawl: give a URL to begin with, or --domain SUFFIX")
		}
	}
	if err := s.checkHosts(append(hosts, s.domains...)); err != nil {
		return err
	}
	c, err := s.crawler(col, env.Log)
	if err != nil {
		return err
	}
	c.Start, c.Once, c.Again = start, once, again
	d := &localAPI{col: col, crawler: c, log: env.Log}

	asked := ctx // ends when the crawl is told to stop
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer func() { // before the collection is closed
		cancel(nil)
		wg.Wait()
	}()
	also := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	listen := func(address string, h http.Handler) error {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		listeners = append(listeners, ln)
		also(func(ctx context.Context) error { return serve(ctx, ln, h) })
		return nil
	}
	if s.indexnow != "" {
		r := &indexnow.Receiver{UserAgent: s.userAgent(), Transport: func(origin string) http.RoundTripper { return c.Harvester.Transport(origin) }, Wanted: c.Knows,
			Accept: func(ctx context.Context, urls []string) error { return c.Notice(ctx, urls, collection.ByIndexNow) }, Log: env.Log}
		if err := listen(s.indexnow, r); err != nil {
			return err
		}
		also(r.Run)
	}
	if s.admin != "" {
		if err := listen(s.admin, adminHandler(c)); err != nil {
			return err
		}
	}
	also(func(ctx context.Context) error { return holder.Serve(ctx, statePath(s.into), d.handler(), env.Log) })
	if env.IsTerminal() {
		also(func(ctx context.Context) error { watch(ctx, env, c); return nil })
	}
	err = c.Run(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	wg.Wait()
	if err == nil && once {
		done := c.Status()
		summarize(env, done)
		s.sayFull(env.Stderr, col)
		if err = sayAside(env.Stderr, col); err == nil && asked.Err() == nil && done.Ends == "" && done.Nothing() {
			err = nothing(col, done)
		}
	}
	return err
}

// nothing returns the error of a crawl that has obtained nothing, or nil if nothing was due.
func nothing(col *collection.Collection, s crawl.Status) error {
	if s.Trouble != "" {
		return fmt.Errorf("no page was obtained: %s", s.Trouble)
	}
	for site := range col.Sites() {
		if site.Held > 0 {
			return nil // nothing was due
		}
	}
	return errors.New("no page was obtained: \"crawler why URL\" explains why a page is not stored")
}

// checkHosts returns an error if the settings suit only our own hosts, and one of these may not be.
func (s *settings) checkHosts(hosts []string) error {
	return cmp.Or(s.checkAddresses(hosts), s.checkContact(hosts), s.checkWaits(hosts))
}

// hostsOf returns the hosts of URLs.
func hostsOf(urls []string) (list []string) {
	for _, u := range urls {
		if p, err := url.Parse(u); err == nil {
			list = append(list, p.Hostname())
		}
	}
	return list
}

// portsOf returns the hosts of URLs, with the port if the URL names one: a crawl that begins on such a port
// stays there.
func portsOf(urls []string) (list []string) {
	for _, u := range urls {
		if p, err := url.Parse(u); err == nil && p.Port() != "" {
			list = append(list, p.Host)
		} else if err == nil {
			list = append(list, p.Hostname())
		}
	}
	return list
}

// serve answers HTTP until ctx ends.
func serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(end) != nil {
		srv.Close()
	}
	<-done
	return nil
}

// watch prints the progress of the crawl on a terminal until ctx ends.
func watch(ctx context.Context, env *command.Env, c *crawl.Crawler) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, then := c.Status(), time.Now()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprint(env.Stderr, "\r\033[K")
			return
		case <-tick.C:
		}
		now, s := time.Now(), c.Status()
		rate := float64(s.Fetched+s.Unchanged-last.Fetched-last.Unchanged) / now.Sub(then).Seconds()
		fmt.Fprintf(env.Stderr, "\r\033[K%d pages, %.1f/s, %d sites in flight, %d in the queue, %.1f MB",
			s.Fetched+s.Unchanged, rate, s.InFlight, s.Queue, float64(s.Came())/1e6)
		last, then = s, now
	}
}

// sayAside reports pages that a mirror cannot store under the names of their URLs.
func sayAside(w io.Writer, col *collection.Collection) error {
	n, err := col.Displaced()
	if n > 0 {
		fmt.Fprintf(w, "%d pages are in mirror/.parley/other: their URLs cannot be file names, or other pages have those names\n", n)
	}
	return err
}

// sayFull reports which limits on the number of pages were reached.
func (s *settings) sayFull(w io.Writer, col *collection.Collection) {
	for site := range col.Sites() {
		if s.perSite > 0 && site.Pages >= s.perSite {
			fmt.Fprintf(w, "%s has reached --per-site, %d pages: any further URLs were dropped\n", site.Origin, s.perSite)
		}
	}
	if s.maxPages > 0 && int(col.Len()) >= s.maxPages {
		fmt.Fprintf(w, "the collection has reached --max-pages, %d pages: any further URLs were dropped\n", s.maxPages)
	}
}

// sayTraps reports the families whose pages wait because similar pages led to nothing new.
func sayTraps(env *command.Env, s crawl.Status) {
	if s.Waiting == 0 {
		return
	}
	fmt.Fprintf(env.Stderr, "%d pages were not fetched, since similar pages led only to more of their kind and to nothing new (--trap-share):\n", s.Waiting)
	for _, x := range s.Traps[:min(len(s.Traps), 5)] {
		fmt.Fprintf(env.Stderr, "  %s%s: %d fetched, %d useful; %d waiting, and %d links to more of them dropped\n", x.Site, x.Like, x.Asked, x.Useful, x.Waiting, x.Refused)
	}
}

// summarize prints the results of a crawl.
func summarize(env *command.Env, s crawl.Status) {
	fmt.Fprintf(env.Stderr, "%d pages fetched, %d unchanged, %d missing, %d refused, %d faults; %d requests, %.1f MB\n",
		s.Fetched, s.Unchanged, s.Missing, s.Refused, s.Faults, s.Requests, float64(s.Came())/1e6)
	if s.Delivered > 0 {
		fmt.Fprintf(env.Stderr, "%d pages were delivered without a request of their own, %.1f MB\n", s.Delivered, float64(s.DeliveredBytes)/1e6)
	}
	if s.Audits+s.Again > 0 {
		fmt.Fprintf(env.Stderr, "%d audits of sites that publish their changes, %d pages fetched again because they differed from what was published\n", s.Audits, s.Again)
	}
	if s.Truncated > 0 {
		fmt.Fprintf(env.Stderr, "%d pages are longer than --max-file, and stored in part: \"crawler pages\" marks them with a +\n", s.Truncated)
	}
	sayTraps(env, s)
	if s.Ignored > 0 {
		fmt.Fprintf(env.Stderr, "%d announced changes were ignored, since earlier ones of the same source were wrong or showed no change: see \"crawler why URL\"\n", s.Ignored)
	}
	if len(s.Owed) == 0 {
		return
	}
	total, of := 0, map[string]int{}
	for _, d := range s.Owed {
		total += d.Pages
		of[d.Why] += d.Pages
	}
	reasons := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("%d: %s", of[why], why)
	}
	fmt.Fprintf(env.Stderr, "%d listed pages were not fetched (%s)\n", total, strings.Join(reasons[:min(len(reasons), 5)], "; "))
}
