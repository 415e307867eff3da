package main

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror"
	"github.com/parleyweb/parley/internal/command"
)

// stateIn is where a mirror's state is kept unless told otherwise: in the
// mirror, so that a copy and what is known of it travel together. Pages never
// have names that begin with a dot.
func stateIn(dir string) string { return filepath.Join(dir, ".parley", "state.db") }

func follow() *command.Command {
	var (
		m       mirror.Mirror
		via     string
		delay   command.Duration
		poll    = command.Duration(10 * time.Minute)
		maxPage = command.Size(mirror.DefaultMaxPage)
	)
	return &command.Command{
		Name:    "follow",
		Summary: "keep a copy of a site that tells what changed",
		Usage:   "BASE --into DIR [options]",
		Help: `
BASE is the URL of the site, or of its robots.rdf. The first copy is made from
the manifest, without parsing a page. Then every change that the site tells is
fetched: one request for each page that is new or changed, none for one that
moved. It goes on until it is told to end; killed or cut off, it resumes.

    crawler follow https://www.example.org/ --into mirror/ --contact you@example.net

One connection for pages, one second between requests (none on loopback);
robots.txt is obeyed. Name yourself with --contact, so that the site's people
can reach you.

Exit codes: 0 told to end; 1 the copy cannot be kept; 2 wrong usage.`,
		Args:     []string{"BASE"},
		Required: []string{"into"},
		LogLevel: slog.LevelInfo,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&m.Dir, "into", "", "keep the copy in `DIR`")
			fs.StringVar(&m.State, "state", "", "`FILE` that remembers the copy (default DIR/.parley/state.db)")
			fs.StringVar(&m.Contact, "contact", "", "`MAIL or URL` that reaches you, sent with every request")
			fs.Var(&delay, "delay", "wait `TIME` between requests for pages (default 1s, none on loopback)")
			fs.Var(&maxPage, "max-page", "leave pages over `SIZE`")
			fs.Var(&poll, "poll", "look at the manifest every `TIME` where a site has no other door")
			fs.StringVar(&via, "via", "stream", "best `DOOR` to use: stream, changes or manifest")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			m.Source = client.Source{Base: env.Args[0], Poll: time.Duration(poll), Log: env.Log}
			switch via {
			case "stream":
			case "changes":
				m.Source.NoStream = true
			case "manifest":
				m.Source.NoStream, m.Source.NoChanges = true, true
			default:
				return command.Misusef("--via %s: want stream, changes or manifest", via)
			}
			if m.State == "" {
				m.State = stateIn(m.Dir)
			}
			m.Delay, m.MaxPage, m.Log = time.Duration(delay), int64(maxPage), env.Log
			return m.Run(ctx)
		},
	}
}
