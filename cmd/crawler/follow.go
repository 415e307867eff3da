package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/holder"
)

// stateIn is where the state of a copy is kept unless told otherwise: in the
// copy, so that it and what is known of it travel together. Pages never
// have names that begin with a dot.
func stateIn(dir string) string { return filepath.Join(dir, ".parley") }

func follow() *command.Command {
	var (
		c       crawl.Copy
		via     string
		delay   command.Duration
		poll    = command.Duration(10 * time.Minute)
		ask     command.Duration
		hurry   command.Duration
		maxPage = command.Size(crawl.DefaultMaxPage)
		most    = command.Size(crawl.DefaultMaxState)
		sel     selection
	)
	return &command.Command{
		Name:    "follow",
		Summary: "keep a copy of a site that tells what changed",
		Usage:   "BASE --into DIR [options]",
		Help: `
BASE is the URL of the site, or of its robots.rdf. The first copy is made from
the archive of the whole site, if it offers one, or from its manifest and its
batches, without parsing a page. Then every change that the site tells is taken
in. It goes on until it is told to end; killed or cut off, it resumes.

    crawler follow https://www.example.org/ --into mirror/ --contact you@example.net

A site tells in up to five forms. --as auto takes the cheapest that it offers
for what is held; "crawler status mirror/" says which, and why:

    meta    what changed; each page is asked for: one request for each that is
            new or changed, none for one that moved
    delta   how it changed, against the version that is held: the fewest bytes
    page    the changed page itself: no request at all
    batch   many pages in one piece, each once, as it is last:
            --every 1h bundles what changes within an hour
    site    an archive of everything, on first contact and when most has changed

A copy can be of a part of a site. The site does the choosing, so that the rest
is not even told:

    crawler follow BASE --into docs/ --only prefix=/docs/ --only type=text/html
    crawler follow BASE --into new/ --only since=2026-11-01 --only maxlen=100000
    crawler follow BASE --into big/ --where 'page.length > 100000 && change.op != "delete"'

A site that knows you by a token may let a program of yours decide: one in
WebAssembly, or the digest of one that it has already. --as batch and site go
without: no program is asked about what comes in one piece.

    crawler follow BASE --into major/ --token TOKEN --program minor.wasm

How often, and how much at once:

    crawler follow BASE --into day/ --as batch --every 24h       a bundle a day
    crawler follow BASE --into many/ --as batch --every 1h --count 500
                              each hour, or when there are 500 changes before
    crawler follow BASE --into hour/ --via changes --ask-every 1h
                              come by once an hour; no connection is held
    crawler follow BASE --into all/ --max-archive 50GiB
                              begin with an archive larger than 1 GiB

Each option may come from a file or the environment instead, which is where a
token belongs:

    PARLEY_TOKEN=... crawler follow BASE --config docs.conf
    docs.conf:    into docs/
                  as delta
                  only prefix=/docs/
                  only type=text/html
                  where page.length > 100000

One connection for pages, one second between requests (none on loopback);
robots.txt is obeyed. Name yourself with --contact, so that the site's people
can reach you. The other commands tell of a copy, too: "crawler events --into
mirror/ --follow" says what has changed in it.

Exit codes: 0 told to end; 1 the copy cannot be kept; 2 wrong usage.`,
		Args:     []string{"BASE"},
		Required: []string{"into"},
		LogLevel: slog.LevelInfo,
		Groups: []command.Group{
			{Title: "The copy", Options: []string{"into", "where", "only"}},
			{Title: "How it is kept", Options: []string{"as", "poll", "max-page", "max-pages", "max-state"}},
			{Title: "Who asks", Options: []string{"contact", "token", "allow-private"}},
			{Title: "Beside it", Options: []string{"config", "log-level"}},
		},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&c.Dir, "into", "", "keep the copy in `DIR`")
			fs.StringVar(&c.State, "state", "", "`DIRECTORY` that remembers the copy (default DIR/.parley)")
			fs.StringVar(&c.Contact, "contact", "", "`MAIL or URL` that reaches you, sent with every request")
			fs.BoolVar(&c.Private, "allow-private", false, "ask a site that was at a public address at one that is not, too: it has moved into a network of yours")
			fs.Float64Var(&c.MaxRate, "max-rate", harvest.DefaultMaxRate, "ask a site that says how often it wishes to be asked at most `N` times a second (0: as --delay says)")
			fs.Var(&delay, "delay", "wait `TIME` between requests for pages (default 1s, none on loopback)")
			fs.Var(&maxPage, "max-page", "leave pages over `SIZE`")
			fs.IntVar(&c.MaxPages, "max-pages", crawl.DefaultMaxPages, "do not follow a site beyond `N` pages")
			fs.Var(&most, "max-state", "do not follow a site beyond `SIZE` of what is known of its pages (state.db)")
			fs.Var(&ask, "ask-every", "with --via changes: ask for changes every `TIME`, rather than wait for them")
			fs.Var(&poll, "poll", "look at the manifest every `TIME` where a site has no other door")
			fs.Var(&hurry, "hurry", "wait for nothing longer than `TIME` by rules of our own, such as until what failed is tried again; politeness is none of them (0: no limit; for tests)")
			fs.StringVar(&via, "via", "stream", "best `DOOR` to use: stream, changes or manifest")
			sel.define(fs)
		},
		Run: func(ctx context.Context, env *command.Env) error {
			c.Base, c.Poll, c.AskEvery, c.Log = env.Args[0], time.Duration(poll), time.Duration(ask), env.Log
			switch via {
			case "stream":
			case "changes":
				c.NoStream = true
			case "manifest":
				c.NoStream, c.NoChanges = true, true
			default:
				return command.Misusef("--via %s: want stream, changes or manifest", via)
			}
			if ask != 0 && via != "changes" {
				return command.Misusef("--ask-every %s is for --via changes: by stream nothing is asked for, and --poll says how often the manifest is", &ask)
			}
			if c.State == "" {
				c.State = stateIn(c.Dir)
			}
			if host := hostsOf([]string{c.Base}); c.Contact == "" && len(host) > 0 && host[0] != "" && !thisMachine(host[0]) {
				return command.Misusef("%s is not this machine: add --contact MAIL or URL, so that its people can reach you", host[0])
			}
			if err := sel.apply(ctx, env, &c); err != nil {
				return err
			}
			if c.MaxPages < 1 || most < 1 {
				return command.Misusef("--max-pages and --max-state must be at least 1")
			}
			c.Delay, c.Hurry, c.MaxPage, c.MaxState = time.Duration(delay), time.Duration(hurry), int64(maxPage), int64(most)
			if c.MaxRate <= 0 {
				c.MaxRate = -1
			}
			return keepCopy(ctx, env, &c)
		},
	}
}

// keepCopy keeps a copy, and answers for it, until ctx ends.
func keepCopy(ctx context.Context, env *command.Env, copy *crawl.Copy) (err error) {
	c, err := copy.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Collection.Close()) }()
	answering, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		d := &desk{col: c.Collection, crawler: c, log: env.Log}
		if err := holder.Serve(answering, statePath(copy.State), d.handler(), env.Log); err != nil && answering.Err() == nil {
			env.Log.Warn("other commands cannot ask while this one runs", "err", err)
		}
	})
	return c.Run(ctx)
}
