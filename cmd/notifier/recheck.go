package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/evidence"
)

// stateFlags are the options by which the notifier of a site is found.
func stateFlags(fs *flag.FlagSet, site *siteflags.Flags) {
	fs.StringVar(&site.Base, "base", "", "`URL` of the site")
	fs.StringVar(&site.State, "state", "", "`FILE` that remembers what was published (default one for the base URL)")
}

// order has the running notifier of a site do something.
func order(ctx context.Context, site *siteflags.Flags, path string, out any) error {
	if err := site.StatePath(); err != nil {
		return err
	}
	err := server.Ask(ctx, site.State, "POST", path, out)
	if errors.Is(err, server.ErrNotHeld) {
		return fmt.Errorf("no notifier of %s is running: start it, and what it finds then counts", site.Base)
	}
	return err
}

func recheck() *command.Command {
	var site siteflags.Flags
	accept := false
	return &command.Command{
		Name:    "recheck",
		Summary: "ask the web server anew what it gives to anybody",
		Usage:   "--base URL [options]",
		Help: `
The running notifier asks for all pages, first for those that were refused, at
its --ask-rate. SIGHUP does the same. To be said after a change of passwords,
addresses or rights, which else counts within the time of --ask-again:

    notifier recheck --base https://www.example.org/

Where many pages are refused at once that were given to anybody before, no
bytes leave and nothing is told as gone, until the pages are given again, or
you say that it is meant:

    notifier recheck --base https://www.example.org/ --accept-refusals

Exit codes: 0 it asks; 1 something failed; 2 wrong usage.`,
		Required:  []string{"base"},
		Sites:     command.InTurn,
		Elsewhere: []string{"*"},
		LogLevel:  slog.LevelError,
		Flags: func(fs *flag.FlagSet) {
			stateFlags(fs, &site)
			fs.BoolVar(&accept, "accept-refusals", false, "it is meant that many pages are refused: tell that they are gone")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			path := "/recheck"
			if accept {
				path += "?accept-refusals"
			}
			var s evidence.Standing
			if err := order(ctx, &site, path, &s); err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "%d pages are asked for anew; %d were public until now, and %d refused\n", s.Pages+s.Refused, s.Public, s.Refused)
			return nil
		},
	}
}

func purge() *command.Command {
	var site siteflags.Flags
	return &command.Command{
		Name:    "purge",
		Summary: "give out nothing more of what a page held before",
		Usage:   "--base URL PAGE [options]",
		Args:    []string{"PAGE"},
		Help: `
For words that should never have been there, once they are edited out of a page,
or the page is deleted. The running notifier throws away, at once, every archive
of the site that holds the page, the old versions of it, and the differences and
bundles that are kept for those who ask next:

    notifier purge --base https://www.example.org/ https://www.example.org/staff/rota.html

Without that old versions stay as long as there is room for them, for
differences, and an archive for an hour. What has left cannot be recalled:
whoever has read the page, or an archive, has it, as with any page of the web.

Exit codes: 0 it is done; 1 something failed; 2 wrong usage.`,
		Required:  []string{"base"},
		Sites:     command.InTurn,
		Elsewhere: []string{"*"},
		LogLevel:  slog.LevelError,
		Flags:     func(fs *flag.FlagSet) { stateFlags(fs, &site) },
		Run: func(ctx context.Context, env *command.Env) error {
			var p purged
			if err := order(ctx, &site, "/purge?url="+url.QueryEscape(env.Args[0]), &p); err != nil {
				return err
			}
			versions := "no old versions"
			if p.Versions {
				versions = "its old versions"
			}
			fmt.Fprintf(env.Stdout, "%s: %d archives and %s thrown away\n", p.URL, p.Archives, versions)
			return nil
		},
	}
}
