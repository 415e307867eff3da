package siteflags

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/server"
)

// Status asks the process that has the state open, or reads the state if there is none. It changes nothing.
func (p *Place) Status(ctx context.Context, log *slog.Logger) (s server.Status, running bool, err error) {
	err = server.Ask(ctx, p.State, "GET", "/status", &s)
	if !errors.Is(err, server.ErrNoHolder) {
		return s, true, err
	}
	if _, err := os.Stat(p.State); errors.Is(err, fs.ErrNotExist) {
		return s, false, fmt.Errorf("there is no state of %s at %s: run notifier, or rdfgen --out, to create it", p.Base, p.State)
	}
	journal, err := server.OpenJournal(ctx, p.State, server.JournalOptions{Base: p.Base, ReadOnly: true, Log: log})
	if err != nil {
		return s, false, err
	}
	defer journal.Close()
	return (&server.Publisher{Journal: journal}).Status(), false, nil
}

// RobotsStatus is a problem with robots.txt; empty if all is well.
type RobotsStatus struct {
	Robots string `json:"robots,omitempty"`
	Lost   bool   `json:"robots_lost,omitempty"` // a person is needed
}

// A Need is something that a person has to do.
type Need struct {
	About, Text string
	Task        string // of the running notifier (see server.Holder), by which a person says that this is intended; empty if there is none
}

// Needs returns what a person has to do, as a running notifier sees it, the most urgent first. e may be nil.
func Needs(s server.Status, robots RobotsStatus, e *evidence.Status) (list []Need) {
	if s.MassHeld {
		list = append(list, Need{"deletions", fmt.Sprintf("%d pages are missing: if they were deleted on purpose, run rdfgen --accept-deletions", s.Held), "accept-deletions"})
	}
	if e != nil && e.Mass {
		list = append(list, Need{"refusals", fmt.Sprintf("the web server refuses %d or more pages that used to be public: no content is delivered and no deletion is announced until it serves them again, or until you run notifier recheck --accept-refusals", e.Suspect), "accept-refusals"})
	}
	if robots.Lost {
		list = append(list, Need{About: "robots.txt", Text: "robots.txt is missing or has no rule: restore it, or, to allow everything, give it the two lines \"User-agent: *\" and \"Disallow:\""})
	}
	if s.Error != "" {
		list = append(list, Need{About: "scan", Text: s.Error})
	}
	return list
}

// Attention returns the most urgent of Needs as an error; nil if there is none.
func Attention(s server.Status, robots RobotsStatus, e *evidence.Status) error {
	if list := Needs(s, robots, e); len(list) > 0 {
		return errors.New(list[0].Text)
	}
	return nil
}
