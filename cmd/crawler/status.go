package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
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
		Summary: "tell how a copy stands",
		Usage:   "DIR [options]",
		Help: `
DIR is where "crawler follow" keeps the copy. What is told is at most a second old.

    crawler status mirror/`,
		Args:     []string{"DIR"},
		LogLevel: slog.LevelWarn,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&state, "state", "", "`FILE` that remembers the copy (default DIR/.parley/state.db)")
			fs.BoolVar(&asJSON, "json", false, "print it as JSON")
		},
		Run: func(ctx context.Context, env *command.Env) error {
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
