package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/probe"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

func add() *command.Command {
	var c collectionFlags
	return &command.Command{
		Name:    "add",
		Summary: "ask for pages at once, first in line",
		Usage:   "URL... --into DIR",
		Help: `
A crawler must be running on DIR. robots.txt and politeness hold.

    crawler add https://www.example.org/new.html --into crawl/

Exit codes: 0 all are asked for; 1 some are not, or something failed; 2 wrong usage.`,
		Args:     []string{"URL"},
		Variadic: true,
		Required: []string{"into"},
		LogLevel: slog.LevelWarn,
		Flags:    c.define,
		Run: func(ctx context.Context, env *command.Env) error {
			var verdicts []seed.Verdict
			if err := askJSON(ctx, c.dir, "POST", "/add", env.Args, &verdicts, env.Log); err != nil {
				return err
			}
			refused := 0
			for i, v := range verdicts {
				if !v.OK {
					refused++
					fmt.Fprintf(env.Stderr, "%s is not asked for: %s\n", printable(env.Args[i]), printable(v.Rule))
				}
			}
			if refused > 0 {
				return &command.ExitError{Code: command.Failure}
			}
			return nil
		},
	}
}

func accept() *command.Command {
	var c collectionFlags
	return &command.Command{
		Name:    "accept",
		Summary: "believe a manifest that has dropped most of its pages",
		Usage:   "ORIGIN --into DIR",
		Help: `
Such pages stay until the manifest says the same a day later, or until you say so.
"crawler sites" shows where deletions are held back. A crawler must be running on DIR.

    crawler accept https://www.example.org --into crawl/`,
		Args:     []string{"ORIGIN"},
		Required: []string{"into"},
		LogLevel: slog.LevelWarn,
		Flags:    c.define,
		Run: func(ctx context.Context, env *command.Env) error {
			origin := protocol.Origin(strings.TrimSuffix(env.Args[0], "/") + "/")
			if origin == "" {
				return command.Misusef("%s: want an origin such as https://www.example.org", env.Args[0])
			}
			var n int
			if err := askJSON(ctx, c.dir, "POST", "/accept", origin, &n, env.Log); err != nil {
				return err
			}
			fmt.Fprintf(env.Stderr, "%d pages of %s are gone\n", n, origin)
			return nil
		},
	}
}

func why() *command.Command {
	var c collectionFlags
	var asJSON bool
	return &command.Command{
		Name:    "why",
		Summary: "explain why a page is asked for when it is, or not at all",
		Usage:   "URL --into DIR [options]",
		Help: `
Every rule, belief and signal that speaks for or against it.

    crawler why https://www.example.org/news/ --into crawl/`,
		Args:     []string{"URL"},
		Required: []string{"into"},
		LogLevel: slog.LevelWarn,
		Flags: func(fs *flag.FlagSet) {
			c.define(fs)
			fs.BoolVar(&asJSON, "json", false, "print it as JSON")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			var y crawl.Why
			if err := askJSON(ctx, c.dir, "GET", "/why?"+url.Values{"url": {env.Args[0]}}.Encode(), nil, &y, env.Log); err != nil {
				return err
			}
			if asJSON {
				return env.PrintJSON(y)
			}
			fmt.Fprintln(env.Stdout, printable(y.URL))
			switch {
			case !y.Known:
				fmt.Fprintln(env.Stdout, "  not known")
			case y.Next.IsZero():
				fmt.Fprintf(env.Stdout, "  %s; not to be asked for again by itself\n", y.State)
			default:
				fmt.Fprintf(env.Stdout, "  %s; asked for again from %s on\n", y.State, ago(y.Next))
			}
			for _, part := range []struct {
				name string
				list []string
			}{{"rules", y.Rules}, {"beliefs", y.Beliefs}, {"signals", y.Signals}} {
				for i, l := range part.list {
					name := ""
					if i == 0 {
						name = part.name
					}
					fmt.Fprintf(env.Stdout, "  %-8s %s\n", name, printable(l))
				}
			}
			return nil
		},
	}
}

func get() *command.Command {
	var c collectionFlags
	var at string
	var header bool
	return &command.Command{
		Name:    "get",
		Summary: "print what is held of a page, now or as it was",
		Usage:   "URL --into DIR [options]",
		Help: `
    crawler get https://www.example.org/ --into crawl/ > index.html
    crawler get https://www.example.org/ --into crawl/ --at 2026-11-01
    crawler get https://www.example.org/ --into crawl/ --header

Older versions are there as long as the WARC files are.`,
		Args:     []string{"URL"},
		Required: []string{"into"},
		LogLevel: slog.LevelWarn,
		Flags: func(fs *flag.FlagSet) {
			c.define(fs)
			fs.StringVar(&at, "at", "", "as it was at `TIME`: 2026-11-01, or 2026-11-01T12:00:00Z")
			fs.BoolVar(&header, "header", false, "print the header of the answer before it")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			q := url.Values{"url": {env.Args[0]}}
			if at != "" {
				d, err := protocol.ParseDate(at)
				if err != nil {
					return command.Misusef("--at %s: want a date such as 2026-11-01 or 2026-11-01T12:00:00Z", at)
				}
				q.Set("at", protocol.FormatDate(d.Time.Add(d.Span)))
			}
			if header {
				q.Set("header", "true")
			}
			return copyAnswer(ctx, env, c.dir, "/get?"+q.Encode())
		},
	}
}

// copyAnswer prints an answer as it comes.
func copyAnswer(ctx context.Context, env *command.Env, dir, path string) (err error) {
	body, err := ask(ctx, dir, "GET", path, nil, env.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	_, err = io.Copy(env.Stdout, body)
	if ctx.Err() != nil { // told to end: what was printed stands
		return nil
	}
	return err
}

func probeSite() *command.Command {
	s := newSettings()
	var asJSON bool
	return &command.Command{
		Name:    "probe",
		Summary: "find out what a site offers to crawlers, and store nothing",
		Usage:   "URL [options]",
		Help: `
robots.txt, delay, 304s, feeds, the sitemap and its honesty, manifest and push;
and what a month of freshness would cost by each way of being told.

    crawler probe https://www.example.org/ --contact you@example.net

It asks a few dozen times at most, slowly, and obeys robots.txt.`,
		Args:     []string{"URL"},
		LogLevel: slog.LevelWarn,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&s.contact, "contact", "", "`MAIL or URL` that reaches you, sent with every request; required for sites that are not this machine's")
			fs.StringVar(&s.agent, "agent", "Parley/0.1", "how to be called: `NAME/VERSION`, the name being what robots.txt knows")
			fs.BoolVar(&s.private, "allow-private", false, "ask addresses that are not of the public Internet too")
			fs.BoolVar(&asJSON, "json", false, "print it as JSON")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			u := env.Args[0]
			if !strings.Contains(u, "://") {
				u = "https://" + u
			}
			if err := cmp.Or(s.public(hostsOf([]string{u})), s.known(hostsOf([]string{u}))); err != nil {
				return err
			}
			return s.probe(ctx, env, u, asJSON)
		},
	}
}

// A guard asks any origin with what holds for a crawl: which addresses may be
// asked, and who asks.
type guard struct{ h *harvest.Harvester }

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	return g.h.Transport(protocol.Origin(req.URL.String())).RoundTrip(req)
}

func (s *settings) probe(ctx context.Context, env *command.Env, u string, asJSON bool) error {
	h := &harvest.Harvester{Agent: s.userAgent(), From: s.from(), Wait: -1, Slow: -1, Private: s.private, Log: env.Log} // the Prober leaves the gaps
	defer h.Close()
	p := &probe.Prober{Agent: s.userAgent(), From: s.from(), Log: env.Log, HTTP: &http.Client{Transport: guard{h}}}
	if hosts := hostsOf([]string{u}); s.private && len(hosts) == 1 && thisMachine(hosts[0]) {
		p.Wait = -1
	}
	r, err := p.Probe(ctx, u)
	if err != nil {
		return err
	}
	if asJSON {
		return env.PrintJSON(r)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(env.Stdout, printable(strings.TrimSuffix(line, "\n")))
	}
	return nil
}
