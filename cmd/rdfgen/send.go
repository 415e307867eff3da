package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/server"
)

// send notifies IndexNow engines, WebSub hubs, commands and webhooks. A failure of one does not keep the others from
// being notified.
func (j *job) send(ctx context.Context, p *server.Publisher) error {
	return errors.Join(j.sendIndexNow(ctx, p), j.sendWebSub(ctx, p), j.sendHooks(ctx, p))
}

// begin gives engines, commands and webhooks, and hubs of a build, that are new to a journal a cursor before the scan, so that the changes it
// finds are news to them, even if the state was lost and the journal begins with the items of the manifest.
func (j *job) begin(ctx context.Context, p *server.Publisher) error {
	if !p.Journal.Whole() { // a first description is no news
		return nil
	}
	if w := j.site.WebSub(p.Journal, p.Journal.Head, j.env.Log); w != nil && j.build != nil {
		st, err := w.Status()
		if err == nil && slices.ContainsFunc(st, func(p ping.PingStatus) bool { return p.Cursor.IsZero() }) {
			_, _, err = w.Turn(ctx)
		}
		if err != nil {
			return err
		}
	}
	if h := j.site.Hooks(p.Journal, p.Inventory.Public, j.env.Log); h != nil {
		if err := h.Begin(); err != nil {
			return err
		}
	}
	s := j.site.IndexNow(p.Journal, p.Inventory.Public, j.env.Log)
	if s == nil || s.Check() != nil { // sendIndexNow reports it
		return nil
	}
	st, err := s.Status()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(st.Engines, func(e ping.EngineStatus) bool { return e.Cursor.IsZero() }) {
		_, err = s.Turn(ctx)
	}
	return err
}

func (j *job) sendIndexNow(ctx context.Context, p *server.Publisher) error {
	s := j.site.IndexNow(p.Journal, p.Inventory.Public, j.env.Log)
	if s == nil {
		return nil
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("--%w", err) // it begins with the option
	}
	sent, err := s.Turn(ctx)
	if err != nil {
		return err
	}
	if sent.Batches > 0 || sent.Pending > 0 {
		j.printInfo(fmt.Sprintf("IndexNow: %d URLs sent, %d waiting", sent.Sent, sent.Pending))
	}
	j.printInfo(sent.Failed...)
	return j.keyTrouble(s)
}

func (j *job) sendWebSub(ctx context.Context, p *server.Publisher) error {
	published := p.Published
	if j.build != nil { // what is sent is live
		published = p.Journal.Head
	}
	s := j.site.WebSub(p.Journal, published, j.env.Log)
	if s == nil {
		return nil
	}
	pings, failed, err := s.Turn(ctx)
	if err != nil {
		return err
	}
	if pings > 0 {
		j.printInfo(fmt.Sprintf("WebSub: %d pings sent", pings))
	}
	j.printInfo(failed...)
	return nil
}

func (j *job) sendHooks(ctx context.Context, p *server.Publisher) error {
	h := j.site.Hooks(p.Journal, p.Inventory.Public, j.env.Log)
	if h == nil {
		return nil
	}
	changes, failed, err := h.Turn(ctx)
	if err != nil {
		return err
	}
	if changes > 0 {
		j.printInfo(fmt.Sprintf("Commands and webhooks: %d changes delivered", changes))
	}
	j.printInfo(failed...)
	st, err := h.Status()
	for _, s := range st {
		switch _, missing := exec.LookPath(strings.Fields(s.Name)[0]); {
		case s.Trouble == "":
		case s.Kind == "on-change" && missing != nil:
			err = errors.Join(err, fmt.Errorf("--on-change %s: no program %s, or it is not executable; words are separated by spaces", s.Name, strings.Fields(s.Name)[0]))
		case s.Failures >= manyFailures:
			err = errors.Join(err, fmt.Errorf("--%s %s: %d attempts failed: %s", s.Kind, s.Name, s.Failures, s.Trouble))
		}
	}
	return err
}

// manyFailures is how often in a row a command or webhook fails within about a day: then it does not pass by itself.
const manyFailures = 12

// keyTrouble returns an error if an engine does not accept the site's key: that needs a person, and all other
// trouble passes by itself. A build waits for its key to be served.
func (j *job) keyTrouble(s *ping.IndexNow) error {
	st, err := s.Status()
	if err != nil {
		return err
	}
	for _, e := range st.Engines {
		switch {
		case j.build != nil && (e.Key == ping.KeyBurned || e.Key == ping.KeyRefused):
			return fmt.Errorf("IndexNow: %s: %s; if a key is rejected for good, choose another --indexnow-key", e.Name, e.Trouble)
		case j.build == nil && (e.Key == ping.KeyBurned || e.Key == ping.KeyRefused || e.Key == ping.KeyUnserved):
			return fmt.Errorf("IndexNow: %s: %s; --indexnow-rotate generates a new key if one is rejected for good", e.Name, e.Trouble)
		}
	}
	return nil
}
