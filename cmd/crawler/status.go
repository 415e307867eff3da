package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parleyweb/parley/cmd/crawler/internal/webreport"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

func status() *command.Command {
	var c collectionFlags
	var state string
	var asJSON bool
	return onCollection(&command.Command{
		Name:    "status",
		Summary: "show the state of a crawl or a copy",
		Usage:   "DIR | --cluster URLS [options]",
		Help: `
DIR is the directory of the collection of "crawler crawl" or "crawler run", or of
the copy of "crawler follow". With --cluster it has a collection for each
partition, such as DIR/partition-003. The command asks a running crawler, or else reads
the state.

    crawler status crawl/
    crawler status --cluster nats://a:4222,nats://b:4222    all machines`,
		Args: []string{"--into"},
		Flags: c.flags(
			command.Bind("state", &state, "`DIRECTORY` for the state of the copy (default DIR/.parley)"),
			command.Bind("json", &asJSON, "print the status as JSON")),
		Run: func(ctx context.Context, env *command.Env) error {
			if c.cluster.servers != "" {
				return c.cluster.printStatus(ctx, env, asJSON)
			}
			dir := c.dir
			in := cmp.Or(state, collectionIn(dir))
			if list := partitionsIn(dir); len(list) > 0 {
				return clusterStatus(ctx, env, list)
			}
			if _, err := os.Stat(statePath(in)); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s has neither a collection nor a copy: \"crawler crawl\" and \"crawler follow\" with --into %s make one", dir, dir)
			}
			return collectionStatus(ctx, env, in, asJSON)
		},
	})
}

// collectionStatus prints the state of a collection and of the crawler that uses it.
func collectionStatus(ctx context.Context, env *command.Env, dir string, asJSON bool) error {
	var s summary
	if err := (&collectionFlags{dir: dir}).askJSON(ctx, "GET", "/status", nil, &s, env.Log); err != nil {
		return err
	}
	switch {
	case asJSON && s.Copy != nil:
		return env.PrintJSON(s.Copy)
	case asJSON:
		return env.PrintJSON(s)
	}
	printSummary(env, &s)
	return nil
}

// printer returns a function that prints a line about something that has a name.
func printer(env *command.Env) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		fmt.Fprintf(env.Stdout, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
}

// printSummary prints it for people.
func printSummary(env *command.Env, s *summary) {
	print := printer(env)
	if s.Steering.All || len(s.Steering.Sites) > 0 {
		print("paused", "%s: \"crawler resume\" continues", printable(pausedText(&s.Steering)))
	}
	if s.Copy != nil {
		s.Copy.print(env)
		return
	}
	if text := rateText(&s.Steering.Rate); text != "" {
		print("rate", "%s, set by \"crawler rate\"", printable(text))
	}
	if text := scopeText(&s.Steering.Scope); text != "" {
		print("scope", "%s, set by \"crawler scope\"", printable(text))
	}
	print("pages", "%d known, %d stored, %d gone, %d due now", s.Known, s.Held, s.Gone, s.Ready)
	if s.Aside > 0 {
		print("", "%d in mirror/.parley/other: their URLs cannot be file names, or other pages have those names", s.Aside)
	}
	if s.Cut > 0 {
		print("truncated", "%d of them are longer than --max-file, and only their beginning is stored", s.Cut)
	}
	print("sites", "%d", s.Of)
	if s.Private > 0 {
		print("withheld", "%d of them were fetched with cookies or a client certificate: events, get, export and index leave them out", s.Private)
	}
	if s.Cursor != "" {
		print("events", "at %s", s.Cursor)
	}
	for _, t := range s.Trouble {
		print("trouble", "%s: %s (%s ago)", t.Origin, printable(t.Fault), command.FormatDuration(time.Since(t.At).Round(time.Second)))
	}
	if !s.Running {
		print("crawler", "not running")
		if s.Price > 0 {
			print("revisits", "by policy %s, at a price of %s in the last run", s.Policy, fresh.Figure(s.Price))
		} else if s.Policy != "" {
			print("revisits", "by policy %s", s.Policy)
		}
		return
	}
	print("crawler", "running since %s, %s in flight, %s running, %s followed", s.Began.Format(time.RFC3339),
		admin.Many(s.InFlight, "site", "sites"), admin.Many(s.Busy, "task", "tasks"), admin.Many(s.Followed, "site", "sites"))
	if s.Ends != "" {
		print("", "stopping: %s", s.Ends)
	}
	print("requests", "%d in %d batches: %d pages, %d unchanged, %d missing, %d refused, %d faults; %s",
		s.Requests, s.Batches, s.Fetched, s.Unchanged, s.Missing, s.Refused, s.Faults, webreport.Size(float64(s.Came())))
	if s.Audits+s.Again > 0 {
		print("", "%d of them audits of sites that publish their changes, %d fetched again because they differed from what was published", s.Audits, s.Again)
	}
	print("found", "%d URLs; %d pages new or changed, %d duplicates", s.New, s.Changed, s.Duplicates)
	if s.Lost > 0 {
		print("", "%d pages were fetched again, since their stored content was lost", s.Lost)
	}
	if s.Sent+s.Taken > 0 {
		print("exchanged", "%s", exchanged(s.Sent, s.Taken))
	}
	print("announced", "%d changes, %d of them not believed", s.Told, s.Ignored)
	for _, by := range slices.Sorted(maps.Keys(s.Received)) {
		n := s.Received[by]
		print("", "%s: %d changes: %d applied at once, %d to be fetched, %d ignored", by, n.Received, n.Processed, n.Enqueued, n.Ignored)
	}
	if s.Delivered > 0 {
		print("delivered", "%d pages without a request of their own, %s", s.Delivered, webreport.Size(float64(s.DeliveredBytes)))
	}
	if s.Waiting > 0 {
		print("waiting", "%d pages, since similar pages led only to more of their kind and to nothing new", s.Waiting)
	}
	if v := s.Revisits; v != nil {
		print("revisits", "%.0f a day, for a budget of %.0f, at a price of %s; planned %s ago",
			v.Requests, v.Budget, fresh.Figure(v.Price), command.FormatDuration(time.Since(v.Planned).Round(time.Second)))
		if v.Beside > 0 {
			print("", "and up to %.0f a day in addition for announced changes, %.0f of them now", v.Beside, max(0, v.Left))
		}
		print("", "current: %.1f %% of the stored pages, as estimated then; expected: %.1f %%, with an age of %s days", 100*v.Fresh, 100*v.Freshness, fresh.Figure(v.Age))
		if v.Unknown > 0 {
			print("", "%d pages of sites that did not answer then are unknown, and do not count as current", v.Unknown)
		}
	}
	if p := s.Predictions; p.Right+p.Wrong > 0 {
		print("predicted", "%.0f of %.0f predictions of the next change of a page were right (Expires, max-age)", p.Right, p.Right+p.Wrong)
	}
	for i, d := range s.Truth {
		if d.Pages > 0 {
			print("estimated", "%3d-%d %% current: %d pages, %.1f %% expected, %.1f %% found", 10*i, 10*i+10, d.Pages, 100*d.Expected, 100*d.Found)
		}
	}
}

// printable replaces characters that would move the cursor of a terminal: an error may quote the site, or its
// certificate.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
