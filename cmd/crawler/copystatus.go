package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/cmd/crawler/internal/webreport"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

// A copyStatus is the state of a site's copy.
type copyStatus struct {
	Base    string    `json:"base"`
	Dir     string    `json:"dir"`
	PID     int       `json:"pid,omitempty"` // of the process that keeps the copy
	Running bool      `json:"running"`
	Since   time.Time `json:"started"` // of Requests and Received: when the crawler started, or the copy began if none runs

	Cursor protocol.Cursor `json:"cursor"` // reached in the site's journal
	Door   string          `json:"door,omitempty"`
	As     protocol.Form   `json:"as,omitempty"`   // the form in which changes are received
	Why    string          `json:"why,omitempty"`  // reason for that form
	Last   bool            `json:"last,omitempty"` // As is from an earlier time: the crawler is not running, or has not asked yet
	Pages  int             `json:"pages"`          // URLs that the site offers
	Held   int             `json:"held"`           // of those, with a stored file
	Owed   int             `json:"owed"`           // to be fetched, now or later
	Parked int             `json:"parked"`         // not fetched, since robots.txt forbids it
	Bytes  int64           `json:"bytes"`          // size of the files held
	collection.Digests

	Told      collection.Reception `json:"told"`      // outcomes of the changes received since the crawler started
	Delivered int64                `json:"delivered"` // pages delivered without a request of their own
	Requests  int64                `json:"requests"`
	Received  int64                `json:"received"` // bytes; if no crawler runs, of pages alone, however delivered
	LastError string               `json:"last_error,omitempty"`
	LastFault time.Time            `json:"last_fault,omitzero"` // time of LastError
}

// copyStatus returns the state of a copy, nil if the collection is none.
func (d *localAPI) copyStatus(ctx context.Context) (*copyStatus, error) {
	is, ok := d.col.Copy()
	if !ok {
		return nil, nil
	}
	s := &copyStatus{Base: is.Base, Dir: is.Root, Digests: is.Digests}
	trouble := func(at time.Time, format string, args ...any) {
		if at.After(s.LastFault) || s.LastError == "" {
			s.LastError, s.LastFault = fmt.Sprintf(format, args...), at
		}
	}
	site, _ := d.col.Site(protocol.Origin(is.Base))
	s.Since, s.Requests, s.Received = site.Found, site.Requests, site.Bytes
	if d.crawler != nil {
		now := d.crawler.Status()
		s.Running, s.PID, s.Since, s.Requests, s.Received = now.Running, os.Getpid(), now.Began, now.Requests, now.Came()
		s.Delivered = now.Delivered
		for _, n := range now.Received {
			s.Told.Add(&n)
		}
	}
	if site.Fault != "" {
		trouble(site.FaultAt, "%s", site.Fault)
	}
	sources, err := d.col.Sources(site.ID)
	if err != nil {
		return nil, err
	}
	for _, src := range sources {
		if src.Kind == collection.ManifestRDF {
			s.Cursor, s.Door, s.As, s.Why, s.Last = src.Cursor, src.Door, src.As, src.Why, src.As != ""
			if d.crawler != nil {
				if c, ok := d.crawler.Listening(protocol.Origin(is.Base))[src.URL]; ok {
					s.As, s.Why, s.Last = c.As, c.Why, false
				}
			}
		}
		if src.Fault != "" {
			trouble(src.Polled, "%s: %s", src.URL, src.Fault)
		}
	}
	return s, d.countCopy(ctx, s, trouble)
}

func (d *localAPI) countCopy(ctx context.Context, s *copyStatus, trouble func(time.Time, string, ...any)) error {
	for p, err := range d.col.Pages(ctx) {
		if err != nil {
			return err
		}
		if p.State == collection.Gone {
			continue
		}
		s.Pages++
		if p.Stored.File != "" {
			s.Held++
			s.Bytes += p.Length
		}
		switch {
		case p.State == collection.Excluded:
			s.Parked++
		case p.Told || p.State == collection.Known:
			s.Owed++
		}
		if p.Fails > 0 {
			trouble(p.Failed, "fetch %s: %s", p.URL, p.Fault)
		}
	}
	return nil
}

func (s *copyStatus) print(env *command.Env) {
	print := printer(env)
	print("site", "%s", s.Base)
	if s.Running {
		print("crawler", "running as process %d", s.PID)
	} else {
		print("crawler", "not running")
	}
	print("source", "%s, at %s", cmp.Or(s.Door, "nothing yet"), s.Cursor)
	switch {
	case s.As != "" && s.Last:
		print("", "last as %s: %s", s.As, s.Why)
	case s.As != "":
		print("", "as %s: %s", s.As, s.Why)
	}
	if n := s.Told; n.Received > 0 {
		print("announced", "%d changes: %d applied at once, %d to be fetched, %d ignored; %d pages delivered without a request",
			n.Received, n.Processed, n.Enqueued, n.Ignored, s.Delivered)
	}
	print("pages", "%d offered, %d stored (%s), %d pending, %d forbidden by robots.txt", s.Pages, s.Held, webreport.Size(float64(s.Bytes)), s.Owed, s.Parked)
	print("digests", "%d right, %d wrong", s.Matched, s.Mismatched)
	if s.Demoted {
		print("", "this site's digests have never matched: pages are stored without waiting for a match")
	}
	what := ""
	if !s.Running { // then only what is stored with the pages is known
		what = " for pages"
	}
	print("requests", "%d%s, %s, since %s", s.Requests, what, webreport.Size(float64(s.Received)), s.Since.Format(time.RFC3339))
	if s.LastError != "" {
		print("trouble", "%s (%s ago)", printable(s.LastError), command.FormatDuration(time.Since(s.LastFault).Round(time.Second)))
	}
}
