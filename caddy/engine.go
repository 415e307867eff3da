package parleycaddy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

const (
	askRate = 50 // pages fetched a second, at most, to learn which are public

	stateWait  = 10 * time.Second // how long another owner of the state may take to close it, without being reported
	firstReach = time.Minute      // how long a site that was never published waits until its server answers
	laterReach = 5 * time.Second  // the same for any other
)

// An engine is a site whose state is open.
type engine struct {
	*options
	log       *slog.Logger
	journal   *server.Journal
	docroot   *server.Site
	forms     *forms.Forms
	publisher *server.Publisher
	notifier  *doors.Notifier
}

// publish opens the state, and publishes the site until ctx ends or a part fails; it returns why.
func (s *site) publish(ctx context.Context, log *slog.Logger) (err error) {
	e := &engine{options: &s.options, log: log}
	if err := e.openState(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.journal.Close()) }()
	if err := e.wire(); err != nil {
		return err
	}
	s.open(e.notifier)
	return e.run(ctx, s.close)
}

// openState opens the state. It waits for another owner, which at a reload is the site of the old config.
func (e *engine) openState(ctx context.Context) (err error) {
	if err := os.MkdirAll(filepath.Dir(e.State), 0o750); err != nil {
		return err
	}
	for begin := time.Now(); ; {
		e.journal, err = server.OpenJournal(ctx, e.State, server.JournalOptions{Base: e.Base, Manifest: e.Out, Published: e.Out, Log: e.log})
		if !errors.Is(err, server.ErrHeld) || time.Since(begin) > stateWait {
			return err
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// wire makes the parts. It starts none.
func (e *engine) wire() error {
	e.docroot = e.site(e.journal, e.log)
	shown := &evidence.Keeper{Journal: e.journal, Rate: askRate, Trusted: e.TrustDocroot, Logger: e.log}
	if err := shown.Open(); err != nil {
		return err
	}
	on, _ := forms.Preset(e.Preset) // which check knows
	e.forms = forms.New(on, forms.Site{Base: e.Base, State: e.State, Inventory: e.docroot, Docroot: e.docroot, Journal: e.journal,
		Evidence: shown, Where: new(cel.Expressions).Compile, Log: e.log})
	inv := e.forms.Inventory
	snapshot := &manifest.Snapshot{Path: e.Out, Manifest: doors.Describe(e.Base), Public: inv.Public, Parts: manifest.DefaultParts}
	e.publisher = &server.Publisher{Inventory: inv, Journal: e.journal, Snapshot: snapshot, Log: e.log}
	if e.publisher.Pace.Grace = time.Duration(e.Grace); e.Heal {
		e.publisher.Pages.Healer = e.docroot
	}
	e.notifier = &doors.Notifier{Log: e.journal, Snapshot: snapshot, Base: e.Base, Public: inv.Public, Ready: e.publisher.Ready, Logger: e.log}
	e.forms.Offer(e.notifier)
	return nil
}

// run runs the parts until ctx ends or one of them fails, and returns why. Then closeDoors ends all requests.
func (e *engine) run(ctx context.Context, closeDoors func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var owned sync.WaitGroup
	own := func(what string, run func() error) {
		owned.Go(func() {
			if err := run(); err != nil {
				stop(fmt.Errorf("%s: %w", what, err)) // which does nothing once ctx has ended
			}
		})
	}
	own("doors", func() error { <-ctx.Done(); closeDoors(); return nil })
	own("socket", func() error { return e.holder().Run(ctx) })
	if err := e.reach(ctx); err != nil {
		stop(nil)
		owned.Wait()
		return err
	}
	own("publish", func() error { return e.publisher.Run(ctx) })
	e.forms.Own(ctx, own)
	owned.Wait()
	if cause := context.Cause(ctx); cause != context.Canceled {
		return cause
	}
	return nil
}

// reach waits until the site's server answers at the base URL. This process begins to listen at about the same time, and may have to get
// a certificate first; pages that a password protects are found only by asking, and shall be found before the first scan announces them. A
// certificate that is not trusted would make all answers useless for good: that is an error, unless no answers are needed.
func (e *engine) reach(ctx context.Context) error {
	wait := laterReach
	if !e.journal.Whole() {
		wait = firstReach
	}
	c := fetch.Client{Transport: new(http.Transport), Agent: "Parley, waiting for the server", Timeout: 5 * time.Second}
	defer c.CloseIdleConnections()
	for begin := time.Now(); ; {
		a, err := c.Get(ctx, e.Base, nil)
		if err == nil {
			a.Close()
			if a.Status < 500 {
				return nil
			}
			err = errors.New(a.Says())
		}
		untrusted := new(tls.CertificateVerificationError)
		switch {
		case errors.As(err, &untrusted) && !e.TrustDocroot:
			return fmt.Errorf("pages behind a password cannot be told apart, since this machine does not trust the certificate of %s: run caddy trust, or set SSL_CERT_FILE, and restart: %w", e.Base, err)
		case untrusted.Err != nil, time.Since(begin) > wait:
			e.log.Warn("pages behind a password may be announced, until the server answers at the base URL", "base", e.Base, "err", err)
			return nil
		case !pause.For(ctx, 50*time.Millisecond):
			return ctx.Err()
		}
	}
}

// holder answers the commands of rdfgen and notifier for this site, on the socket beside the state.
func (e *engine) holder() *server.Holder {
	does := []string{}
	if e.Heal {
		does = append(does, "--heal")
	}
	tasks := e.forms.Tasks(e.notifier)
	tasks["robots-now"] = func(context.Context, url.Values) (any, error) { e.docroot.AcceptRobots(); return nil, nil }
	return &server.Holder{State: e.State, Publisher: e.publisher, Tasks: tasks, Log: e.log,
		Answers: map[string]func(context.Context) (any, error){
			"does":    func(context.Context) (any, error) { return does, nil },
			"tellers": func(context.Context) (any, error) { return struct{}{}, nil },
			"robots": func(context.Context) (any, error) {
				trouble, _, lost := e.docroot.RobotsProblem()
				return map[string]any{"robots": trouble, "robots_lost": lost}, nil
			},
			"forms": func(context.Context) (any, error) { return e.forms.Status(e.notifier), nil },
		}}
}
