package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/cmd/crawler/internal/webreport"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/holder"
)

// stateIn returns the default directory for the state of a copy: inside the copy, so that both travel
// together. Names of pages never begin with a dot.
func stateIn(dir string) string { return filepath.Join(dir, ".parley") }

func follow() *command.Command {
	bind := command.Bind
	c := crawl.DefaultCopy()
	via, ca, proxy := "stream", "", ""
	var sel selection
	return &command.Command{
		Name:    "follow",
		Summary: "keep a copy of a site that publishes its changes",
		Usage:   "BASE --into DIR [options]",
		Help: `
BASE is the URL of the site, or of its robots.rdf. The first copy is made from
the archive of the whole site, if it offers one, or from its manifest and its
batches, without parsing a page. Then every change that the site publishes is
applied. It runs until you stop it; killed or disconnected, it resumes.

    crawler follow https://www.example.org/ --into mirror/ --contact you@example.net

A site delivers changes in up to five forms. --as auto picks the cheapest form on
offer; "crawler status mirror/" says which, and why:

    meta    notices of changes; each new or changed page takes one request, a
            moved one none
    delta   differences from the stored version: the fewest bytes
    page    the changed pages themselves, without any request
    batch   many pages in one bundle, each once, in its latest version:
            --every 1h bundles the changes of an hour
    site    an archive of everything, on first contact and when most has changed

A copy can be limited to a part of a site. The site does the filtering, and does
not send the rest:

    crawler follow BASE --into docs/ --only prefix=/docs/ --only type=text/html
    crawler follow BASE --into new/ --only since=2026-11-01 --only maxlen=100000
    crawler follow BASE --into big/ --where 'page.length > 100000 && change.op != "delete"'

A site that has given you a token may run a program of yours as the filter: a
WebAssembly file, or the digest of one that the site already has. Programs do
not work with --as batch and site.

    crawler follow BASE --into major/ --token TOKEN --program minor.wasm

How often, and how much at once:

    crawler follow BASE --into day/ --as batch --every 24h       a bundle a day
    crawler follow BASE --into many/ --as batch --every 1h --count 500
                              every hour, or as soon as there are 500 changes
    crawler follow BASE --into hour/ --via changes --ask-every 1h
                              poll once an hour, without an open connection
    crawler follow BASE --into all/ --max-archive 50GiB
                              begin with an archive larger than 1 GiB

Any option can be set in a file or the environment instead. Do so with a token:

    PARLEY_TOKEN=... crawler follow BASE --config docs.conf
    docs.conf:    into docs/
                  as delta
                  only prefix=/docs/
                  only type=text/html
                  where page.length > 100000

One connection for pages, one second between requests (none on loopback);
robots.txt is obeyed. Give --contact, so that the site's operators can reach
you. The other commands work on a copy too: "crawler events --into mirror/
--follow" prints its changes.

Exit codes: 0 stopped by a signal; 1 the copy cannot be kept; 2 wrong usage.`,
		Args:     []string{"BASE"},
		Required: []string{"into"},
		File:     command.File{Foreign: []string{"profile"}}, // of "crawler crawl": a copy has what its site offers
		Groups: []command.Group{
			{Title: "The copy", Options: []string{"into", "where", "only"}},
			{Title: "Delivery", Options: []string{"as", "poll", "max-page", "max-pages", "max-state"}},
			{Title: "Identity", Options: []string{"contact", "token", "allow-private"}},
			{Title: "Operation", Options: []string{"config", "log-level"}},
		},
		Flags: append(sel.flags(&c),
			bind("into", &c.Dir, "keep the copy in `DIR`"),
			bind("state", &c.State, "`DIRECTORY` for the state of the copy (default DIR/.parley)"),
			bind("contact", &c.Contact, "`MAIL or URL` at which people reach you, sent with every request"),
			bind("allow-private", &c.Private, "keep following a site that moves from a public address to a private one, in a network of yours"),
			caFlag(&ca),
			proxyFlag(&proxy),
			bind("max-rate", &c.MaxRate, "send at most `N` requests a second to a site that states its own rate (0: ignore stated rates and use --delay)"),
			bind("delay", &c.Delay, "wait `TIME` between requests for pages (default 1s, none on loopback)"),
			bind("max-page", &c.MaxPage, "skip pages over `SIZE`"),
			bind("max-pages", &c.MaxPages, "stop following a site that grows beyond `N` pages"),
			bind("max-state", &c.MaxState, "stop following a site when state.db, the data about its pages, grows beyond `SIZE`"),
			bind("ask-every", &c.AskEvery, "with --via changes: poll for changes every `TIME` instead of long polling"),
			bind("poll", &c.Poll, "fetch the manifest every `TIME` if the site offers neither push nor polling for changes"),
			bind("hurry", &c.Hurry, "cap our own waiting times, such as before retries, at `TIME`; politeness is not affected (0: no cap; for tests)"),
			bind("via", &via, "best `DOOR` to use: stream, changes or manifest")),
		Run: func(ctx context.Context, env *command.Env) error {
			c.Base, c.Log = env.Args[0], env.Log
			switch via {
			case "stream":
			case "changes":
				c.NoStream = true
			case "manifest":
				c.NoStream, c.NoChanges = true, true
			default:
				return command.Misusef("--via %s: want stream, changes or manifest", via)
			}
			if c.AskEvery != 0 && via != "changes" {
				return command.Misusef("--ask-every %s needs --via changes: a stream is not polled, and --poll sets how often the manifest is fetched", command.FormatDuration(c.AskEvery))
			}
			if c.State == "" {
				c.State = stateIn(c.Dir)
			}
			o := crawl.DefaultOptions()
			o.Fetch.Contact, o.Fetch.AllowPrivate = c.Contact, true // a copy may be of any site
			if err := o.CheckURL(c.Base); err != nil {
				return misuse(err)
			}
			o.Fetch.CA, o.Fetch.Proxy = ca, proxy
			h, err := o.Harvester()
			if err != nil {
				return misuse(err)
			}
			c.Harvester = &harvest.Harvester{Options: harvest.Options{TLS: h.Options.TLS, Dial: h.Options.Dial}}
			if err := sel.apply(ctx, env, &c); err != nil {
				return err
			}
			if c.MaxPages < 1 || c.MaxState < 1 {
				return command.Misusef("--max-pages and --max-state must be at least 1")
			}
			if c.MaxRate <= 0 {
				c.MaxRate = -1
			}
			return keepCopy(ctx, env, &c, o.CheckURL)
		},
	}
}

// keepCopy keeps a copy up to date until ctx ends, wherever its site moves. check says whether the options suit a URL.
func keepCopy(ctx context.Context, env *command.Env, copy *crawl.Copy, check func(string) error) error {
	for web := copy.Harvester.Options; ; {
		copy.Harvester = &harvest.Harvester{Options: web}
		err := keepOpen(ctx, env, copy, check)
		var moved *crawl.MovedError
		if !errors.As(err, &moved) {
			return err
		}
		env.Log.Info("the site has moved: its copy goes on at the new address", "from", moved.From, "to", moved.To)
	}
}

// keepOpen opens a copy and keeps it up to date, and answers other commands about it, until ctx ends or its site moves.
func keepOpen(ctx context.Context, env *command.Env, copy *crawl.Copy, check func(string) error) (err error) {
	c, err := copy.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Collection.Close()) }()
	if is, _ := c.Collection.Copy(); check(is.Base) != nil { // the site has moved to another machine
		return misuse(check(is.Base))
	}
	answering, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		d := &localAPI{col: c.Collection, crawler: c, log: env.Log}
		if err := holder.Serve(answering, statePath(copy.State), d.handler(), env.Log); err != nil && answering.Err() == nil {
			env.Log.Warn("other commands cannot reach this process", "err", err)
		}
	})
	wg.Go(func() { _ = (&progress{env, c.Status}).Run(answering) })
	err = c.Run(ctx)
	end()
	wg.Wait()
	return errors.Join(err, summarizeCopy(env, c))
}

// summarizeCopy prints what a copy holds at its end.
func summarizeCopy(env *command.Env, c *crawl.Crawler) error {
	s, err := (&localAPI{col: c.Collection, crawler: c}).copyStatus(context.Background())
	if err != nil || s == nil {
		return err
	}
	now := c.Status()
	fmt.Fprintf(env.Stderr, "the copy has %d of %d pages, %s; this run: %s; %d requests, %s received\n",
		s.Held, s.Pages, webreport.Size(float64(s.Bytes)), obtained(&now), now.Requests, webreport.Size(float64(now.Came())))
	return nil
}
