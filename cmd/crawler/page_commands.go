package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/probe"
	"github.com/parleyweb/parley/protocol"
)

func add() *command.Command {
	var c collectionFlags
	return onCollection(&command.Command{
		Name:    "add",
		Summary: "fetch pages at once, before all others",
		Usage:   "URL... --into DIR",
		Help: `
A crawler must be running on DIR. robots.txt and politeness still apply.

    crawler add https://www.example.org/new.html --into crawl/

Exit codes: 0 all were queued; 1 some were refused, or something failed; 2 wrong usage.`,
		Args:  []string{"URL", "..."},
		Flags: c.flags(),
		Run: func(ctx context.Context, env *command.Env) error {
			var verdicts []seed.Verdict
			var err error
			if c.cluster.servers != "" {
				verdicts, err = c.cluster.add(ctx, env.Args)
			} else {
				err = c.askJSON(ctx, "POST", "/add", env.Args, &verdicts, env.Log)
			}
			if err != nil {
				return err
			}
			refused := 0
			for i, v := range verdicts {
				if !v.OK {
					refused++
					fmt.Fprintf(env.Stderr, "%s is not fetched: %s\n", printable(env.Args[i]), printable(v.Rule))
				}
			}
			if refused > 0 {
				return &command.ExitError{Code: command.Failure}
			}
			return nil
		},
	})
}

func accept() *command.Command {
	var c collectionFlags
	return onCollection(&command.Command{
		Name:    "accept",
		Summary: "accept a manifest that has dropped most of its pages",
		Usage:   "ORIGIN --into DIR",
		Help: `
The dropped pages stay until the manifest still lacks them a day later, or until
you accept the deletions. "crawler sites" shows where deletions are held back. A
crawler must be running on DIR.

    crawler accept https://www.example.org --into crawl/`,
		Args:  []string{"ORIGIN", "--into"},
		Flags: c.flags(),
		Run: func(ctx context.Context, env *command.Env) error {
			origin := protocol.Origin(strings.TrimSuffix(env.Args[0], "/") + "/")
			if origin == "" {
				return command.Misusef("%s: want an origin such as https://www.example.org", env.Args[0])
			}
			var n int
			if err := c.askJSON(ctx, "POST", "/accept", origin, &n, env.Log); err != nil {
				return err
			}
			fmt.Fprintf(env.Stderr, "%d pages of %s are now gone\n", n, origin)
			return nil
		},
	})
}

func why() *command.Command {
	var c collectionFlags
	var asJSON bool
	return onCollection(&command.Command{
		Name:    "why",
		Summary: "explain when a page is fetched, or why it is not",
		Usage:   "URL --into DIR [options]",
		Help: `
It prints every rule, estimate and signal for or against fetching the page.

    crawler why https://www.example.org/news/ --into crawl/`,
		Args:  []string{"URL", "--into"},
		Flags: c.flags(command.Bind("json", &asJSON, "print the explanation as JSON")),
		Run: func(ctx context.Context, env *command.Env) error {
			var y crawl.Why
			if err := c.askJSON(ctx, "GET", "/why?"+url.Values{"url": {env.Args[0]}}.Encode(), nil, &y, env.Log); err != nil {
				return err
			}
			if asJSON {
				return env.PrintJSON(y)
			}
			fmt.Fprintln(env.Stdout, printable(y.URL))
			switch {
			case !y.Known:
				fmt.Fprintln(env.Stdout, "  unknown URL")
			case y.Next.IsZero():
				fmt.Fprintf(env.Stdout, "  %s; no further fetch is planned\n", y.State)
			default:
				fmt.Fprintf(env.Stdout, "  %s; next fetch from %s on\n", y.State, ago(y.Next))
			}
			for _, part := range []struct {
				name string
				list []string
			}{{"rules", y.Rules}, {"estimate", y.Beliefs}, {"signals", y.Signals}} {
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
	})
}

func get() *command.Command {
	var c collectionFlags
	var at string
	var header bool
	return onCollection(&command.Command{
		Name:    "get",
		Summary: "print the stored content of a page, now or at an earlier time",
		Usage:   "URL --into DIR [options]",
		Help: `
    crawler get https://www.example.org/ --into crawl/ > index.html
    crawler get https://www.example.org/ --into crawl/ --at 2026-11-01
    crawler get https://www.example.org/ --into crawl/ --header

Older versions are available as long as their WARC files exist.`,
		Args: []string{"URL", "--into"},
		Flags: c.flags(
			command.Bind("at", &at, "print the version that was current at `TIME`: 2026-11-01, or 2026-11-01T12:00:00Z"),
			command.Bind("header", &header, "print the response header first")),
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
			return copyAnswer(ctx, env, &c, "/get?"+q.Encode())
		},
	})
}

// copyAnswer prints a response as it arrives.
func copyAnswer(ctx context.Context, env *command.Env, c *collectionFlags, path string) (err error) {
	body, err := c.ask(ctx, "GET", path, nil, env.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	_, err = io.Copy(env.Stdout, body)
	if ctx.Err() != nil { // stopped by a signal: the printed part stands
		return nil
	}
	return err
}

func probeSite() *command.Command {
	var asJSON bool
	o := crawl.DefaultOptions()
	return &command.Command{
		Name:    "probe",
		Summary: "find out what a site offers to crawlers, and store nothing",
		Usage:   "URL [options]",
		Help: `
It reports robots.txt and its delay, 304 answers, feeds, the sitemap and whether
its dates are right, manifest and push; and what a month of freshness would cost
with each of them.

    crawler probe https://www.example.org/ --contact you@example.net

It sends at most a few dozen requests, slowly, and obeys robots.txt.`,
		Args:     []string{"URL"},
		LogLevel: slog.LevelWarn,
		Flags: []command.Flag{
			command.Bind("contact", &o.Fetch.Contact, "`MAIL or URL` at which people reach you, sent with every request; required unless the site is on this machine"),
			command.Bind("agent", &o.Fetch.Agent, "the crawler's `NAME/VERSION` for User-Agent; NAME is matched in robots.txt"),
			command.Bind("allow-private", &o.Fetch.AllowPrivate, "also connect to addresses outside the public Internet"),
			command.Bind("json", &asJSON, "print the report as JSON"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			u := env.Args[0]
			if !strings.Contains(u, "://") {
				u = "https://" + u
			}
			if err := o.CheckURL(u); err != nil {
				return misuse(err)
			}
			r, err := probeURL(ctx, env, u, o)
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
		},
	}
}

// A guard sends requests to any origin by the rules of a crawl: only to permitted addresses, and with the
// crawler's identity.
type guard struct{ h *harvest.Harvester }

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	return g.h.Transport(protocol.Origin(req.URL.String())).RoundTrip(req)
}

func probeURL(ctx context.Context, env *command.Env, u string, o crawl.Options) (*probe.Report, error) {
	o.Fetch.Wait = 0 // the Prober waits between requests
	h, err := o.Harvester()
	if err != nil {
		return nil, err
	}
	h.Options.Log = env.Log
	defer h.Close()
	p := &probe.Prober{Agent: h.Options.Agent, From: h.Options.From, Log: env.Log, HTTP: &http.Client{Transport: guard{h}}}
	if o.Fetch.Contact = ""; o.CheckURL(u) == nil { // only this machine needs no contact
		p.Wait = -1
	}
	return p.Probe(ctx, u)
}
