// Package mirror is the small crawler that keeps a copy of one cooperating
// site: it follows what the site tells, and fetches exactly what changed.
//
// The work is divided so that no part waits for another: one goroutine takes
// in what the site tells, as debts; one pays debts, a request at a time; one
// commits what was fetched, as many files at once as have come in the time
// of the commit before. All three end with [Mirror.Run].
package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/protocol"
)

// What the fields of a Mirror are if they are zero.
const (
	DefaultDelay   = time.Second
	DefaultMaxPage = 100 << 20
	DefaultTimeout = 10 * time.Minute
)

// A Mirror keeps Dir equal to a site. Set its fields, then Run it; they are
// not to be changed while it runs.
type Mirror struct {
	// Source is the site. Its Base is required: the site's home, or its
	// robots.rdf. An empty UserAgent becomes the Mirror's own.
	Source client.Source

	// Dir is where the copy stands, and State the file that remembers. Both
	// are made if they do not exist. Required.
	Dir, State string

	// Contact is how the site's people can reach whoever runs this: a URL or
	// an e-mail address. It is sent with every request.
	Contact string

	// Delay is the time between two requests for pages. Zero means one
	// second, but none on the loopback interface; negative means none. A longer Crawl-delay
	// of the site's robots.txt is kept to always.
	Delay time.Duration

	// MaxPage bounds one page, in bytes; larger ones are left. Zero means 100 MiB.
	MaxPage int64

	// Timeout bounds the time for one page. Zero means 10 minutes. A page of
	// which nothing arrives for 30 s is given up in any case.
	Timeout time.Duration

	// Notify, if not nil, is called for every page after each answer about it
	// has been taken in, from one goroutine at a time. It holds up what is
	// fetched after.
	Notify func(holding.Settled)

	// Log is told what happens. Nil is silent.
	Log *slog.Logger
}

// Agent is the product token that robots.txt knows this crawler by.
const Agent = "parley"

// A run is a Mirror at work.
type run struct {
	*Mirror
	base     string // the site, ending in "/"
	origin   string // scheme and host of it, without a slash at the end
	manifest string // the URL of its manifest
	delay    time.Duration
	source   client.Source
	http     *http.Client
	log      *slog.Logger
	col      *holding.Holding
	status   *statusFile
	manners  manners
	known    chan struct{}       // closed when robots.txt has been read
	wake     chan struct{}       // there may be something to pay
	results  chan holding.Result // fetched, to be committed
}

// Run keeps the copy until ctx ends, and returns nil then. It returns an
// error if it cannot go on: the state or the directory cannot be written, or
// is another site's. Whatever the site does is no such error: it is logged,
// shown in the status, and tried again.
func (m *Mirror) Run(ctx context.Context) error {
	if err := m.run(ctx); err != nil {
		return fmt.Errorf("mirror %s: %w", m.Source.Base, err)
	}
	return nil
}

func (m *Mirror) run(ctx context.Context) (err error) {
	base, manifest, err := m.Source.Site()
	if err != nil {
		return err
	}
	site, err := url.Parse(base)
	if err != nil {
		return err
	}
	r := &run{
		Mirror:   m,
		base:     base,
		origin:   protocol.Origin(base),
		manifest: manifest,
		source:   m.Source,
		log:      m.Log,
		known:    make(chan struct{}),
		wake:     make(chan struct{}, 1),
		results:  make(chan holding.Result, batch),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.source.UserAgent = cmp.Or(r.source.UserAgent, UserAgent(m.Contact))
	r.source.Log = cmp.Or(r.source.Log, m.Log)
	r.source.Pace = r.manners.pace
	r.http = pageClient(m.Source.HTTP)
	defer r.http.CloseIdleConnections()
	if r.delay = m.Delay; m.Delay == 0 && !loopback(site.Hostname()) {
		r.delay = DefaultDelay
	}
	if r.col, err = holding.Open(m.State, m.Dir, r.base, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.col.Close()) }()
	r.status = newStatusFile(m.State, r.base, m.Dir, r.col)
	return r.work(ctx)
}

// work runs the goroutines of a run and waits for them.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg, fetching sync.WaitGroup
	start := func(g *sync.WaitGroup, f func(context.Context) error) {
		g.Go(func() {
			if err := f(ctx); err != nil {
				cancel(&failure{err})
			}
		})
	}
	start(&wg, r.follow)
	start(&wg, r.commit)
	start(&wg, r.status.keep)
	start(&fetching, r.fetchAll)
	fetching.Wait()
	close(r.results) // what was fetched is still committed
	wg.Wait()
	var f *failure
	errors.As(context.Cause(ctx), &f)
	r.status.write(false)
	if f != nil {
		return f.err
	}
	return nil
}

// A failure is why a run cannot go on, as opposed to being told to stop.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }

// follow takes in what the site tells.
func (r *run) follow(ctx context.Context) error {
	select { // the manifest is asked for with the same manners as a page
	case <-r.known:
	case <-ctx.Done():
		return nil
	}
	cursor, _ := r.col.Cursor()
	for step, err := range client.Follow(ctx, &r.source, cursor) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			r.status.fault(err)
			r.log.Warn("follow site", "err", err)
			continue
		}
		done, err := r.col.Apply(step)
		if err != nil {
			return err
		}
		r.manners.alive()
		r.status.touch()
		r.log.Debug("told", "door", step.Door, "changes", len(step.Changes), "cursor", step.Cursor,
			"owed", done.Owed, "moved", done.Moved, "gone", done.Gone, "foreign", done.Foreign)
		if step.Whole || step.Reset {
			r.log.Info("description", "begins", step.Reset, "whole", step.Whole, "cursor", step.Cursor)
		}
		r.rouse()
	}
	return nil
}

// rouse wakes the fetching goroutine.
func (r *run) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// batch is how many answers are committed at once, at most.
const batch = 64

// commit stores what was fetched, until no more will come. It does so at
// once: while it is at it, more comes in, to be stored together.
func (r *run) commit(context.Context) error {
	for first := range r.results {
		list := []holding.Result{first}
	drain:
		for len(list) < batch {
			select {
			case more, ok := <-r.results:
				if !ok {
					break drain
				}
				list = append(list, more)
			default:
				break drain
			}
		}
		settled, err := r.col.Settle(list)
		if err != nil {
			for rest := range r.results { // let the fetching goroutine end
				if rest.Body != nil {
					rest.Body.Discard()
				}
			}
			return err
		}
		for i, s := range settled {
			r.settled(list[i], s)
		}
		r.status.touch()
		r.rouse()
	}
	return nil
}

// settled says what became of a page.
func (r *run) settled(res holding.Result, s holding.Settled) {
	url := res.Debt.URL
	switch {
	case s.Gone:
		r.log.Debug("page was taken back", "url", url)
	case s.Mismatch:
		r.log.Warn("page is not what the site says", "url", url, "said", s.Item.Digest, "got", s.Held, "again", s.Due)
		if s.Demoted {
			r.log.Warn("digests of this site have never been right: they are not waited for any more", "pages", r.col.Counts().MissRow)
		}
	case s.Fresh:
		r.log.Debug("fresh", "url", url, "status", res.Status, "bytes", s.Length, "stored", s.Stored)
	}
	if r.Notify != nil {
		r.Notify(s)
	}
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// UserAgent returns how a mirror names itself, with how to reach whoever runs it.
func UserAgent(contact string) string {
	const name = "Parley/0.1"
	contact = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '(' || c == ')' {
			return -1
		}
		return c
	}, contact)
	if contact == "" {
		return name
	}
	return name + " (+" + contact + ")"
}
