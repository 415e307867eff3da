package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/parleyweb/parley/client/mirror"
	"github.com/parleyweb/parley/internal/command"
)

func status() *command.Command {
	var state string
	var asJSON bool
	return &command.Command{
		Name:    "status",
		Summary: "tell how a crawl, or a copy, stands",
		Usage:   "DIR [options]",
		Help: `
DIR is where "crawler crawl" or "crawler run" keeps its collection, or "crawler
follow" its copy. A running crawler is asked; else the state tells.

    crawler status crawl/`,
		Args:     []string{"DIR"},
		LogLevel: slog.LevelWarn,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&state, "state", "", "`FILE` that remembers the copy (default DIR/.parley/state.db)")
			fs.BoolVar(&asJSON, "json", false, "print it as JSON")
		},
		Run: func(ctx context.Context, env *command.Env) error {
			if _, err := os.Stat(statePath(env.Args[0])); err == nil && state == "" {
				return collectionStatus(ctx, env, env.Args[0], asJSON)
			}
			if state == "" {
				state = stateIn(env.Args[0])
			}
			s, err := mirror.ReadStatus(state)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is no mirror: \"crawler follow BASE --into %s\" makes one", env.Args[0], env.Args[0])
			} else if err != nil {
				return err
			}
			if asJSON {
				return env.PrintJSON(s)
			}
			print := func(name, format string, args ...any) {
				fmt.Fprintf(env.Stdout, "%-10s %s\n", name, fmt.Sprintf(format, args...))
			}
			print("site", "%s", s.Base)
			running := "not running"
			if s.Running {
				running = fmt.Sprintf("running as process %d", s.PID)
			}
			print("crawler", "%s, last heard of %s ago", running, time.Since(s.Updated).Round(time.Second))
			print("told by", "%s, at %s", s.Door, s.Cursor)
			print("pages", "%d offered, %d held (%.1f MB), %d owed, %d forbidden by robots.txt", s.Pages, s.Held, float64(s.Bytes)/1e6, s.Owed, s.Parked)
			print("digests", "%d right, %d wrong", s.Matched, s.Mismatched)
			if s.Demoted {
				print("", "this site's digests have never been right: they are not waited for")
			}
			print("requests", "%d, %.1f MB, since %s", s.Requests, float64(s.Received)/1e6, s.Started.Format(time.RFC3339))
			if s.LastError != "" {
				print("trouble", "%s (%s ago)", printable(s.LastError), time.Since(s.LastFault).Round(time.Second))
			}
			return nil
		},
	}
}

// collectionStatus tells how a collection stands, and the crawler that has it.
func collectionStatus(ctx context.Context, env *command.Env, dir string, asJSON bool) error {
	var s summary
	if err := askJSON(ctx, dir, "GET", "/status", nil, &s, env.Log); err != nil {
		return err
	}
	if asJSON {
		return env.PrintJSON(s)
	}
	print := func(name, format string, args ...any) {
		fmt.Fprintf(env.Stdout, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	print("pages", "%d known, %d held, %d gone, %d to be asked for now", s.Known, s.Held, s.Gone, s.Ready)
	print("sites", "%d", s.Of)
	print("events", "at %s", s.Cursor)
	for _, t := range s.Trouble {
		print("trouble", "%s: %s (%s ago)", t.Origin, printable(t.Fault), time.Since(t.At).Round(time.Second))
	}
	if !s.Running {
		print("crawler", "not running")
		return nil
	}
	print("crawler", "running since %s, %d sites in flight, %d tasks under way, %d sites followed", s.Began.Format(time.RFC3339), s.InFlight, s.Busy, s.Followed)
	if s.Ends != "" {
		print("", "about to end: %s", s.Ends)
	}
	print("asked", "%d requests in %d batches: %d pages, %d unchanged, %d missing, %d refused, %d faults; %.1f MB",
		s.Requests, s.Batches, s.Fetched, s.Unchanged, s.Missing, s.Refused, s.Faults, float64(s.Wire)/1e6)
	print("found", "%d URLs; %d pages new or changed, %d duplicates", s.New, s.Changed, s.Duplicates)
	print("told", "%d changes, %d of them not believed", s.Told, s.Ignored)
	return nil
}

// printable replaces what would move the cursor of a terminal: an error may
// quote the site, or its certificate.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
