package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/server"
)

// stateFlags returns the options that identify the notifier of a site.
func stateFlags(site *siteflags.Place) []command.Flag {
	return []command.Flag{
		command.Bind("base", &site.Base, "`URL` of the site"),
		command.Bind("state", &site.State, "`FILE` of the state, which records what was published (default: one per base URL)"),
	}
}

// onState completes a command that asks the notifiers of sites.
func onState(c *command.Command) *command.Command {
	c.Required, c.LogLevel = []string{"base"}, slog.LevelError
	c.File = command.File{Sites: command.Sequential, Default: siteflags.ConfigFile, Foreign: []string{"*"}}
	return c
}

// postToNotifier sends a command to the running notifier of a site.
func postToNotifier(ctx context.Context, site *siteflags.Place, path string, out any) error {
	if err := site.StatePath(); err != nil {
		return err
	}
	err := server.Ask(ctx, site.State, "POST", path, out)
	if errors.Is(err, server.ErrNoHolder) {
		return fmt.Errorf("no notifier of %s is running: start it and try again", site.Base)
	}
	return err
}

func recheck() *command.Command {
	var site siteflags.Place
	accept := false
	return onState(&command.Command{
		Name:    "recheck",
		Summary: "check again which pages the web server serves to anybody",
		Usage:   "--base URL [options]",
		Help: `
The running notifier fetches all pages anonymously at its --ask-rate, refused
ones first. SIGHUP does the same. Run it after a change of passwords, addresses
or permissions; without it the notifier notices within --ask-again:

    notifier recheck --base https://www.example.org/

If the web server suddenly refuses many pages that used to be public, no content
is delivered and no deletion is announced until it serves them again, or you
confirm that this is intended:

    notifier recheck --base https://www.example.org/ --accept-refusals

Exit codes: 0 started; 1 something failed; 2 wrong usage.`,
		Flags: append(stateFlags(&site), command.Bind("accept-refusals", &accept, "confirm that many pages are refused, and announce them as deleted")),
		Run: func(ctx context.Context, env *command.Env) error {
			path := "/recheck"
			if accept {
				path += "?accept-refusals"
			}
			var s evidence.Status
			if err := postToNotifier(ctx, &site, path, &s); err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "checking %d pages again; so far %d were public, and %d refused\n", s.Pages+s.Refused, s.Public, s.Refused)
			return nil
		},
	})
}

func purge() *command.Command {
	var site siteflags.Place
	return onState(&command.Command{
		Name:    "purge",
		Summary: "discard everything stored of earlier content of a page",
		Usage:   "--base URL PAGE [options]",
		Args:    []string{"PAGE"},
		Help: `
For text that should never have been public, once it is edited out of a page
or the page is deleted. The running notifier discards at once every archive of
the site that contains the page, its old versions, and the cached differences
and bundles:

    notifier purge --base https://www.example.org/ https://www.example.org/staff/rota.html

Otherwise old versions stay, for differences, as long as there is room, and an
archive for an hour. What has been delivered cannot be recalled, as with any
page of the Web.

Exit codes: 0 done; 1 something failed; 2 wrong usage.`,
		Flags: stateFlags(&site),
		Run: func(ctx context.Context, env *command.Env) error {
			var p forms.Purged
			if err := postToNotifier(ctx, &site, "/purge?url="+url.QueryEscape(env.Args[0]), &p); err != nil {
				return err
			}
			fmt.Fprintln(env.Stdout, p)
			return nil
		},
	})
}
