package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

func status() *command.Command {
	var site siteflags.Place
	var asJSON bool
	return onState(&command.Command{
		Name:    "status",
		Summary: "show the state of a site",
		Usage:   "--base URL [options]",
		Help: `
It asks the process that uses the site's state, or reads the state if none is running.

    notifier status --base https://www.example.org/

Exit codes: 0 all is well; 1 something failed, or needs your attention; 2 wrong usage.`,
		Flags: append(stateFlags(&site), command.Bind("json", &asJSON, "print the status as JSON")),
		Run: func(ctx context.Context, env *command.Env) error {
			if err := site.StatePath(); err != nil {
				return err
			}
			s, running, err := site.Status(ctx, env.Log)
			if err != nil {
				return err
			}
			var told tellersStatus
			var forms *deliveryStatus
			var robots siteflags.RobotsStatus
			var log *logHealth
			if running {
				// An rdfgen that holds the state has no doors, a copy no robots.txt, and most sites have no log in NATS.
				for what, out := range map[string]any{"robots": &robots, "forms": &forms, "log": &log} {
					if err := server.Ask(ctx, site.State, "GET", "/"+what, out); err != nil {
						env.Log.Debug("the process that uses the state does not report on "+what, "err", err)
					}
				}
				if err := server.Ask(ctx, site.State, "GET", "/tellers", &told); err != nil {
					return err
				}
			}
			if asJSON {
				err = env.PrintJSON(struct {
					server.Status
					tellersStatus
					siteflags.RobotsStatus
					Forms *deliveryStatus `json:"forms,omitempty"`
					Log   *logHealth      `json:"log,omitempty"`
				}{s, told, robots, forms, log})
			} else {
				printStatus(env, s, running, log)
				if robots.Robots != "" {
					printLine(env, "robots.txt", "%s", robots.Robots)
				}
				if forms != nil {
					printFacts(env, forms.facts())
				}
				printTellers(env, told)
			}
			if err != nil {
				return err
			}
			var shown *evidence.Status
			if forms != nil {
				shown = forms.Evidence
			}
			if log != nil {
				s.Error = cmp.Or(s.Error, log.Away, log.NoContents)
			}
			return siteflags.Attention(s, robots, shown)
		},
	})
}

func robotsOf(rules siteflags.Rules) (s siteflags.RobotsStatus) {
	s.Robots, _, s.Lost = rules.RobotsProblem()
	return s
}

func printLine(env *command.Env, name, format string, args ...any) {
	fmt.Fprintf(env.Stdout, "%-10s %s\n", name, fmt.Sprintf(format, args...))
}

// printTellers prints which engines, hubs, commands and webhooks were notified, and which of them fail.
func printTellers(env *command.Env, t tellersStatus) {
	if t.IndexNow != nil {
		for _, e := range t.IndexNow.Engines {
			printLine(env, "indexnow", "%s: %d URLs accepted, %d waiting%s%s", e.Name, e.Accepted, e.Pending, lastAnswer(e), trouble(e.Trouble, e.RetryAt))
		}
	}
	for _, p := range t.WebSub {
		printLine(env, "websub", "%s: %d pings for %s%s", p.Hub, p.Pings, p.Topic, trouble(p.Trouble, p.RetryAt))
	}
	for _, h := range t.Hooks {
		printLine(env, h.Kind, "%s: %d changes accepted, %d waiting%s", h.Name, h.Changes, h.Behind, trouble(h.Trouble, h.RetryAt))
	}
	if t.Hub != nil {
		for _, topic := range t.Hub.Topics {
			printLine(env, "hub", "%d subscribers of %s%s", topic.Subscribers, topic.URL, trouble(topic.Trouble, time.Time{}))
		}
	}
}

// A fact is a line about the site.
type fact struct{ Name, Text string }

func printFacts(env *command.Env, list []fact) {
	for _, f := range list {
		printLine(env, f.Name, "%s", f.Text)
	}
}

// facts returns the forms in which changes are delivered, with their counts.
func (s *deliveryStatus) facts() (list []fact) {
	add := func(name, format string, args ...any) { list = append(list, fact{name, fmt.Sprintf(format, args...)}) }
	add("delivers", "%s", s.On)
	if e := s.Evidence; e != nil {
		add("evidence", "%s", e)
	}
	for _, form := range protocol.Forms() {
		if f, ok := s.Forms[form]; ok {
			add("as "+string(form), "%d subscribers; %d messages and %d responses, %s", f.Streams, f.Frames, f.Answers, admin.Size(f.Bytes))
		}
	}
	if v := s.Versions; v != nil {
		trouble := ""
		if v.Trouble {
			trouble = "; new versions cannot be written now"
		}
		add("versions", "%d stored, %s; %d differences made, delivered %d times, %d refused%s", v.Versions, admin.Size(v.Bytes), v.Deltas, v.Given, v.Refused, trouble)
	}
	if a := s.Archive; a != nil {
		state := "none yet"
		if a.Items > 0 || !a.Cursor.IsZero() {
			state = fmt.Sprintf("%d pages, %s, at %s", a.Items, admin.Size(a.Bytes), a.Cursor)
		}
		add("archive", "%s; %d made, %d failed", state, a.Made, a.Failed)
	}
	if a := s.Agents; a != nil {
		add("agents", "%d programs, %d runs, %d failed", a.Programs, a.Runs, a.Failed)
	}
	return list
}

func lastAnswer(e ping.EngineStatus) string {
	if e.Last == nil {
		return ""
	}
	return fmt.Sprintf("; last response %s ago: %d %s", command.FormatDuration(time.Since(e.Last.At).Round(time.Second)), e.Last.Status, e.Last.Note)
}

func trouble(what string, retry time.Time) string {
	switch {
	case what == "":
		return ""
	case retry.IsZero():
		return "; " + what
	}
	return fmt.Sprintf("; %s; next attempt in %s", what, command.FormatDuration(time.Until(retry).Round(time.Second)))
}

func printStatus(env *command.Env, s server.Status, running bool, log *logHealth) {
	print := func(name, format string, args ...any) { printLine(env, name, format, args...) }
	if running {
		print("notifier", "running")
	} else {
		print("notifier", "not running; this status was read from the state")
	}
	print("pages", "%d, of which %d are missing and not yet announced as deleted", s.Items, s.Held)
	print("journal", "at %s", s.Head)
	if !running {
		return
	}
	if log != nil {
		printFacts(env, log.facts())
		if log.Role != "writer" {
			print("manifest", "at %s", s.Manifest)
			return
		}
	}
	if s.Looks == 0 {
		print("scans", "the first is in progress")
		return
	}
	print("manifest", "at %s, written %d times", s.Manifest, s.Writes)
	print("scans", "%d, %d failed; the last, %s ago, took %s: %s", s.Looks, s.Failed,
		command.FormatDuration(time.Since(s.Last.At).Round(time.Second)), command.FormatDuration(s.Last.Duration.Round(time.Millisecond)), s.Last)
	for _, o := range s.Outputs {
		if o.Error != "" {
			print("output", "%s: %s", o.Name, o.Error)
		}
	}
	if s.Missed > 0 {
		print("missed", "%d changes that no file system event had reported", s.Missed)
	}
}
