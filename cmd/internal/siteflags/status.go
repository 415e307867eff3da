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

// Attention returns what a person has to do, as a running notifier sees it; nil if nothing. e may be nil.
func Attention(s server.Status, robots RobotsStatus, e *evidence.Status) error {
	switch {
	case s.MassHeld:
		return fmt.Errorf("%d pages are missing: if they were deleted on purpose, run rdfgen --accept-deletions", s.Held)
	case e != nil && e.Mass:
		return fmt.Errorf("the web server refuses %d or more pages that used to be public: no content is delivered and no deletion is announced until it serves them again, or until you run notifier recheck --accept-refusals", e.Suspect)
	case robots.Lost:
		return errors.New("robots.txt is missing or has no rule: restore it, or, to allow everything, give it the two lines \"User-agent: *\" and \"Disallow:\"")
	case s.Error != "":
		return errors.New(s.Error)
	}
	return nil
}
