package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/cmd/crawler/internal/webreport"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/indexnow"
	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/pause"
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

A start page may have limits of its own, for the pages of its directory, and
for those of its site that are in the directory of no start page:
    crawler crawl https://www.example.org/docs/ depth=3 pages=1000 --into crawl/

--profile archive, search or mirror begins with the settings for that purpose;
"crawler config --all --profile archive" prints them.

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
it runs, and "pause", "resume", "rate" and "scope" change what it does. CMS plug-ins for IndexNow can notify it of changes:
    crawler run ... --indexnow-listen :8641

Exit codes: 0 stopped by a signal; 1 something failed; 2 wrong usage.`, false)
}

// crawlCommand returns the command "crawl", which ends (once), or "run", which does not.
func crawlCommand(name, summary, help string, once bool) *command.Command {
	o, l, file, profile, depth := crawl.DefaultOptions(), listeners{}, "", "", depthRule{}
	return &command.Command{
		Name: name, Summary: summary, Help: help,
		Usage:    "[URL [depth=N] [pages=N]]... --into DIR [options]",
		Args:     []string{"..."},
		Required: []string{"into"},
		Groups:   append(crawlGroups(), command.Group{Title: "This run", Options: []string{"sites", "again", "config"}}),
		Flags: append(append(crawlFlags(&o, &l), depth.flags()...), profileFlag(&profile),
			command.Bind("sites", &file, "read start URLs from `FILE`, one per line, each with its own limits if they follow it: depth=N links from a start page, pages=N stored URLs"),
			command.Bind("again", &o.Again, "fetch every known page once more, at once")),
		Run: func(ctx context.Context, env *command.Env) error {
			if err := errors.Join(depth.set(env.Flags), setProfile(env.Flags, profile)); err != nil {
				return err
			}
			if l.adminToken != "" && l.admin == "" {
				return command.Misusef("--admin-token %s: it needs --admin", l.adminToken)
			}
			o.Start, o.Once, o.Log = startPages(env.Args), once, env.Log
			if file != "" {
				more, err := readSites(file)
				if err != nil {
					return err
				}
				o.Start = append(o.Start, more...)
			}
			if err := l.cluster.check(env.Flags, &o); err != nil {
				return err
			} else if l.cluster.servers != "" {
				return l.cluster.run(ctx, env, &o)
			}
			c, err := o.Open(ctx)
			if errors.Is(err, collection.ErrHeld) {
				return fmt.Errorf("%w: to fetch a page in the running crawler, use \"crawler add URL --into %s\"", err, o.Collection.Into)
			} else if err != nil {
				return misuse(err)
			}
			return errors.Join(l.crawl(ctx, env, c, &o), c.Collection.Close())
		},
	}
}

// crawl runs the engine and its listeners until it is done or ctx ends.
func (l *listeners) crawl(ctx context.Context, env *command.Env, c *crawl.Crawler, o *crawl.Options) (err error) {
	asked := ctx // ends when the crawl is told to stop
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer func() {
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
	var open []net.Listener
	defer func() {
		for _, ln := range open {
			ln.Close()
		}
	}()
	listen := func(address string, h func(at net.Addr) http.Handler) error {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		open = append(open, ln)
		handler := h(ln.Addr())
		also(func(ctx context.Context) error { return serve(ctx, ln, handler) })
		return nil
	}
	d := &localAPI{col: c.Collection, crawler: c, log: env.Log}
	if l.indexnow != "" {
		r := &indexnow.Receiver{UserAgent: c.Harvester.Options.Agent, Transport: func(origin string) http.RoundTripper { return c.Harvester.Transport(origin) }, Wanted: c.Knows,
			Accept: func(ctx context.Context, urls []string) error { return c.Notice(ctx, urls, collection.ByIndexNow) }, Log: env.Log}
		if err := listen(l.indexnow, func(net.Addr) http.Handler { return r }); err != nil {
			return err
		}
		also(r.Run)
	}
	if l.admin != "" {
		tokens, err := command.ReadTokens("admin-token", l.adminToken)
		if err != nil {
			return err
		}
		page := &crawlPage{api: d}
		err = listen(l.admin, func(at net.Addr) http.Handler {
			return adminHandler(c, &admin.Guard{Tokens: tokens, Listener: at}, page.handler(o.Collection.Into, ctx.Done()))
		})
		if err != nil {
			return err
		}
	}
	also(func(ctx context.Context) error {
		return holder.Serve(ctx, statePath(o.Collection.Into), d.handler(), env.Log)
	})
	if o.Collection.CopyTo != "" {
		also(func(ctx context.Context) error { copyWARC(ctx, c.Collection, env.Log); return nil })
	}
	also((&progress{env, c.Status}).Run)
	err = c.Run(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	wg.Wait()
	if err == nil && o.Once && o.Collection.CopyTo != "" && asked.Err() == nil {
		err = collection.CopyWARC(asked, c.Collection, true)
	}
	if err == nil && o.Once {
		done, col := c.Status(), c.Collection
		summarize(env, done)
		sayFull(env.Stderr, col, o)
		if err = sayAside(env.Stderr, col); err == nil && asked.Err() == nil && done.Ends == "" && done.Nothing() {
			err = nothing(col, done)
		}
	}
	return err
}

// copyWARC copies WARC files as they are closed, until ctx ends.
func copyWARC(ctx context.Context, col *collection.Collection, log *slog.Logger) {
	for {
		if err := collection.CopyWARC(ctx, col, false); err != nil && ctx.Err() == nil {
			log.Warn("a WARC file could not be copied: it is tried again in a minute", "err", err)
		}
		if !pause.For(ctx, time.Minute) {
			return
		}
	}
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

// serve answers HTTP until ctx ends.
func serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }} // which ends requests for events
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

// sayAside reports pages that a mirror cannot store under the names of their URLs.
func sayAside(w io.Writer, col *collection.Collection) error {
	n, err := col.Displaced()
	if n > 0 {
		fmt.Fprintf(w, "%d pages are in mirror/.parley/other: their URLs cannot be file names, or other pages have those names\n", n)
	}
	return err
}

// sayFull reports which limits on the number of pages were reached.
func sayFull(w io.Writer, col *collection.Collection, o *crawl.Options) {
	for _, url := range col.Full() {
		limit := "the limit of this start page, pages=N or --per-site"
		if protocol.Origin(url) == url {
			limit = fmt.Sprintf("--per-site, %d pages", o.Scope.PerSite)
		}
		fmt.Fprintf(w, "%s has reached %s: any further URLs were dropped\n", url, limit)
	}
	if col.Len() >= o.Scope.MaxPages {
		fmt.Fprintf(w, "the collection has reached --max-pages, %d pages: any further URLs were dropped\n", o.Scope.MaxPages)
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

// obtained says how many pages came, and how.
func obtained(s *crawl.Status) string {
	if s.Delivered == 0 {
		return fmt.Sprintf("%d pages fetched", s.Fetched)
	}
	list := []string{fmt.Sprintf("%d pages obtained: %d fetched", s.Fetched+s.Delivered, s.Fetched)}
	for _, x := range []struct {
		n   int64
		how string
	}{{s.Batched, "in batches"}, {s.Archived, "in archives"}, {s.Pushed, "with their change"}, {s.Copied, "copied from equal pages"}} {
		if x.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", x.n, x.how))
		}
	}
	return strings.Join(list, ", ")
}

// exchanged says how many URLs the crawlers of other partitions got and sent.
func exchanged(sent, taken int64) string {
	return fmt.Sprintf("%s sent to the crawlers of other partitions, %d taken in from them", admin.Many(sent, "URL", "URLs"), taken)
}

// summarize prints the results of a crawl.
func summarize(env *command.Env, s crawl.Status) {
	fmt.Fprintf(env.Stderr, "%s, %d unchanged, %d missing, %d refused, %d faults; %d requests, %s\n",
		obtained(&s), s.Unchanged, s.Missing, s.Refused, s.Faults, s.Requests, webreport.Size(float64(s.Came())))
	if s.Audits+s.Again > 0 {
		fmt.Fprintf(env.Stderr, "%d audits of sites that publish their changes, %d pages fetched again because they differed from what was published\n", s.Audits, s.Again)
	}
	if s.Sent+s.Taken > 0 {
		fmt.Fprintln(env.Stderr, exchanged(s.Sent, s.Taken))
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
